/** What the page says. */

import type { LoggedEvent, Outcome, Violation } from "../protocol";
import type { Link } from "../session";
import type { View } from "./view";

const LIMITS: Readonly<Record<string, string>> = {
  wall_time: "Ended by the limit on time.",
  cpu_time: "Ended by the limit on CPU time.",
  memory: "Ended by the limit on memory.",
  output: "Ended by the limit on output.",
  processes: "Ended by the limit on processes.",
};

const REASONS: Readonly<Record<string, string>> = {
  restarted: "The interpreter was restarted: variables are gone, files stay.",
  limit: "A limit ended the interpreter between two executions: variables are gone, files stay.",
  idle_timeout: "The session was not used for its idle timeout and has ended.",
  terminated: "The session was ended.",
  violations: "The session broke too many rules of the sandbox and was ended.",
  storage_full: "The server's storage is full: nothing new is run until there is room.",
};

const CLOSED: Readonly<Record<number, string>> = {
  1000: "The session was ended.",
  1002: "The server speaks another version of the protocol. Reload the page.",
  1008: "The server refused what this page sent.",
  1009: "A message was too big for the server.",
  4401: "A token is needed. Enter one above.",
  4403: "The session broke too many rules of the sandbox and was ended, or this token may not use it.",
  4404: "The session is gone.",
  4408: "The session was not used for its idle timeout and has ended.",
};

/** Codes after which only another session helps. */
const GONE: ReadonlySet<number> = new Set([1000, 4403, 4404, 4408]);

export function isGone(link: Link): boolean {
  return link.state === "closed" && GONE.has(link.code);
}

export function linkWords(link: Link): string {
  switch (link.state) {
    case "none":
      return "No session yet. The first run makes one.";
    case "connecting":
      return "Connecting…";
    case "open":
      return "Connected";
    case "waiting":
      return `Connection lost. Trying again in ${Math.max(1, Math.round(link.pauseMs / 1000))} s…`;
    case "closed":
      return CLOSED[link.code] ?? `The connection was closed (${link.code}).`;
    default:
      return link satisfies never;
  }
}

/** What the cell does now, in a word or two; empty if there is nothing to say. */
export function stateWords({ execution, question, link }: View): string {
  if (execution === null) return "";
  if (link.state === "closed" && execution.state !== "over") return "Broken off";
  if (question !== null) return "Waits for input";
  switch (execution.state) {
    case "sent":
      return "Sending…";
    case "waiting":
      return "Waits for its turn…";
    case "running":
      return "Running…";
    case "over":
      return execution.outcome?.success ? "Done" : "Failed";
    default:
      return execution.state satisfies never;
  }
}

export function limitWords(limit: string): string {
  return LIMITS[limit] ?? `Ended by a limit (${limit}).`;
}

/** What a `status` event means for the user, if anything. */
export function statusWords(event: Extract<LoggedEvent, { type: "status" }>): string | null {
  if (event.reason === "recovered") {
    return event.recovered === "replayed"
      ? "The server went down and came back: the session's code was run again."
      : "The server went down and came back: variables are gone.";
  }
  return event.reason && (REASONS[event.reason] ?? null);
}

/** What was tried against the rules of the sandbox, and how often. */
export function violationWords({ rule, detail, layer }: Violation, times = 1): string {
  const what = layer === "policy" ? "Against the policy of the sandbox" : "Refused by the sandbox";
  return `${what}: ${detail} (${rule}${times > 1 ? `, ${times} times` : ""}).`;
}

/** How long, how much. */
export function figures({ execution_time_ms, usage }: Outcome): string {
  return `${duration(execution_time_ms)} · CPU ${duration(usage.cpu_time_ms)} · ${size(usage.peak_memory_bytes)} memory`;
}

export function duration(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

export function size(bytes: number): string {
  const mib = bytes / (1 << 20);
  return mib < 1 ? `${Math.ceil(bytes / 1024)} KiB` : `${mib.toFixed(mib < 10 ? 1 : 0)} MiB`;
}
