import { describe, expect, test } from "vitest";
import closes from "../../../protocol/vectors/close.json";
import messages from "../../../protocol/vectors/server.json";
import { closeKind, isNotice, ProtocolError, readFrame } from "../../src/protocol";
import { NOTICE_TYPES } from "../../src/protocol.generated";

describe("every message of the vectors", () => {
  test.each(messages.frames)("$name is read as it is", ({ text }) => {
    const frame = readFrame(text);
    expect(frame).toEqual(JSON.parse(text));
    expect(frame && isNotice(frame)).toBe(NOTICE_TYPES.some((type) => type === frame?.type));
  });

  test.each(messages.frames)("$name is refused if it lacks a field", ({ text }) => {
    const fields = Object.keys(JSON.parse(text)).filter((name) => !["type", "recovered", "errors"].includes(name));
    // What a reply holds depends on its question, which is not known here.
    const needed = JSON.parse(text).type === "reply" ? ["id"] : fields;
    expect(needed).not.toEqual([]);
    for (const name of needed) {
      const { [name]: _, ...rest } = JSON.parse(text);
      expect(() => readFrame(JSON.stringify(rest)), name).toThrow(ProtocolError);
    }
  });

  test.each(messages.frames)("$name is refused if a field is of another kind", ({ text }) => {
    const { type, ...fields } = JSON.parse(text);
    const checked = Object.keys(fields).filter((name) => name !== "result" && (type !== "reply" || name === "id"));
    for (const name of checked) {
      const wrong = { type, ...fields, [name]: [{}] };
      expect(() => readFrame(JSON.stringify(wrong)), name).toThrow(ProtocolError);
    }
  });
});

test("a type and a field that we do not know are skipped", () => {
  expect(messages.unknown.length).toBeGreaterThan(0);
  for (const unknown of messages.unknown) {
    const text = typeof unknown === "string" ? unknown : unknown.text;
    expect(() => readFrame(text)).not.toThrow();
  }
  expect(readFrame('{"type":"mood","seq":3}')).toBeNull();
  expect(readFrame('{"type":"pong","id":"p","mood":"good"}')).toMatchObject({ type: "pong", id: "p" });
});

test("what is no message is refused", () => {
  for (const text of ["", "null", "[]", "7", "{}", '{"type":7}', '{"type":"pong"', '{"type":"pong","id":null}']) {
    expect(() => readFrame(text), text).toThrow(ProtocolError);
  }
});

test("a name that objects have of themselves is no type", () => {
  for (const type of ["constructor", "toString", "__proto__"]) expect(readFrame(JSON.stringify({ type }))).toBeNull();
});

test("a close code is passing where the vectors allow to try again", () => {
  for (const { code, may_retry } of closes.codes)
    expect(closeKind(code), String(code)).toBe(may_retry ? "passing" : "fatal");
  for (const broken of [1005, 1006, 1012, 1014]) expect(closeKind(broken)).toBe("passing");
  for (const foreign of [1002, 1003, 1007]) expect(closeKind(foreign)).toBe("fatal");
});
