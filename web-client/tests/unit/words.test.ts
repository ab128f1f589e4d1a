import { expect, test } from "vitest";
import { afterBegin, afterEvent, EMPTY } from "../../src/page/view";
import { isGone, linkWords, statusWords, violationWords } from "../../src/page/words";
import type { LoggedEvent } from "../../src/protocol";

const REFUSED = { rule: "exec", detail: "execve /usr/bin/id", layer: "kernel" } as const;

test("a violation is told in words: what was tried, who found it, how often", () => {
  expect(violationWords(REFUSED)).toBe("Refused by the sandbox: execve /usr/bin/id (exec).");
  expect(violationWords(REFUSED, 3)).toBe("Refused by the sandbox: execve /usr/bin/id (exec, 3 times).");
  const imported = { rule: "import", detail: "subprocess", layer: "policy" } as const;
  expect(violationWords(imported)).toBe("Against the policy of the sandbox: subprocess (import).");
});

test("a violation of an execution shows that it runs, one of nobody's changes nothing", () => {
  const view = afterBegin(EMPTY, "e1");
  const event = (id: string | null): LoggedEvent => ({ type: "violation", seq: 3, id, ...REFUSED, times: 1 });
  expect(afterEvent(view, event("e1"), false).execution?.state).toBe("running");
  expect(afterEvent(view, event(null), false)).toBe(view);
});

test("a session that broke too many rules is over, and says so", () => {
  const status = { status: "terminated", execution_state: "idle", reason: "violations" } as const;
  expect(statusWords({ type: "status", seq: 4, ...status })).toContain("too many rules");
  const link = { state: "closed", code: 4403 } as const;
  expect(linkWords(link)).toContain("too many rules");
  expect(isGone(link)).toBe(true);
});
