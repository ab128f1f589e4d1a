import { expect, test } from "vitest";
import { Ansi, type Piece } from "../../src/page/ansi";

const text = (pieces: Piece[]) => pieces.map((piece) => piece.text).join("");
const ESC = "\x1b";

test("plain text is one piece, markup in it is text", () => {
  const markup = "<img src=x onerror=alert(1)> &amp; \"'\n";
  expect(new Ansi().read(markup)).toEqual([{ text: markup, classes: "", style: "" }]);
  const [coloured] = new Ansi().read(`${ESC}[31m${markup}`);
  expect(coloured).toEqual({ text: markup, classes: "ansi-red-fg", style: "" });
});

test("named colours become classes, others and weights become styles", () => {
  const pieces = new Ansi().read(`a${ESC}[1;92mb${ESC}[0m${ESC}[48;2;1;2;3mc${ESC}[m d`);
  expect(pieces).toEqual([
    { text: "a", classes: "", style: "" },
    { text: "b", classes: "ansi-bright-green-fg", style: "font-weight:bold" },
    { text: "c", classes: "", style: "background-color:rgb(1,2,3)" },
    { text: " d", classes: "", style: "" },
  ]);
});

test("a colour goes on in the next chunk, until it ends", () => {
  const ansi = new Ansi();
  ansi.read(`${ESC}[34mblue`);
  expect(ansi.read("still")).toEqual([{ text: "still", classes: "ansi-blue-fg", style: "" }]);
  expect(ansi.read(`${ESC}[0m`)).toEqual([]);
  expect(ansi.read("over")).toEqual([{ text: "over", classes: "", style: "" }]);
});

test("a sequence may be cut anywhere", () => {
  const whole = `one ${ESC}[38;5;208mtwo${ESC}[0m ${ESC}]8;;http://x/${ESC}\\three${ESC}]8;;${ESC}\\ ${ESC}[2Kfour`;
  for (let at = 0; at <= whole.length; at++) {
    const ansi = new Ansi();
    const pieces = [...ansi.read(whole.slice(0, at)), ...ansi.read(whole.slice(at))];
    expect(text(pieces), String(at)).toBe("one two three four");
    expect(text(pieces.filter(({ style }) => style.includes("rgb(255,135,0)"))), String(at)).toBe("two");
  }
});

test("other sequences are dropped, links with them", () => {
  const noise = `${ESC}[2J${ESC}[?25l${ESC}]0;title\x07${ESC}(B${ESC}c${ESC}P1$r${ESC}\\${ESC}[1;2Hx`;
  expect(text(new Ansi().read(noise))).toBe("x");
});

test("what begins like a sequence and is none holds nothing back", () => {
  for (const begin of [`${ESC}[`, `${ESC}[31`, `${ESC}]8;;`, ESC]) {
    const ansi = new Ansi();
    ansi.read(begin);
    const shown = text(Array.from({ length: 200 }, () => ansi.read("äöü äöü äöü\n")).flat());
    expect(shown.length, JSON.stringify(begin)).toBeGreaterThan(190 * 12);
    expect(shown.endsWith("äöü\n")).toBe(true);
  }
});
