/** The step from unknown text to a typed frame, and what a client makes of a close code. */

import { CLOSE_CODES, type ClientFrame, type Notice, type ServerFrame } from "./protocol.generated";

export type {
  ClientFrame,
  Exception,
  Language,
  LoggedEvent,
  Notice,
  Outcome,
  ServerFrame,
  Session,
  StreamName,
  Violation,
} from "./protocol.generated";
export { BEARER_PREFIX, SUBPROTOCOL } from "./protocol.generated";

/** A message of a type that we know, with a field that is missing or of another kind. */
export class ProtocolError extends Error {}

type Check = (value: unknown) => boolean;
type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText: Check = (value) => typeof value === "string";
const isFlag: Check = (value) => typeof value === "boolean";
const isCount: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const isInteger: Check = (value) => Number.isSafeInteger(value);
const isAnything: Check = (value) => value !== undefined;
const isMap: Check = isObject;
const isList =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const isOneOf =
  (...values: unknown[]): Check =>
  (value) =>
    values.includes(value);
const has =
  (fields: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));

const isSession = has({
  session_id: isText,
  language: isText,
  created_at: isText,
  last_activity: isText,
  status: isText,
  execution_state: isText,
  resource_limits: isMap,
  sandbox_mode: isText,
  owner: isText,
  expression_count: isCount,
  last_seq: isCount,
  expires_at: orNull(isText),
});

const VIOLATION = { rule: isText, detail: isText, layer: isText };

const OUTCOME = {
  execution_count: isCount,
  success: isFlag,
  result: isAnything,
  result_text: orNull(isText),
  exception: orNull(has({ name: isText, message: isText, traceback: isList(isText) })),
  exit_code: orNull(isInteger),
  limit: orNull(isText),
  violation: orNull(has(VIOLATION)),
  truncated: isFlag,
  state_lost: isFlag,
  usage: has({ cpu_time_ms: isCount, peak_memory_bytes: isCount, output_bytes: isCount }),
  execution_time_ms: isCount,
  timestamp: isText,
};

/** Names that may be added to (reasons, limits, codes) are not checked against those we know. */
const SHAPES: Readonly<Record<ServerFrame["type"], Check>> = {
  queued: has({ seq: isCount, id: isText }),
  started: has({ seq: isCount, id: isText, execution_count: isCount, timestamp: isText }),
  stream: has({ seq: isCount, id: orNull(isText), stream: isOneOf("stdout", "stderr"), data: isText }),
  display: has({ seq: isCount, id: orNull(isText), data: isMap, metadata: isMap }),
  input_request: has({ seq: isCount, id: isText, prompt: isText, password: isFlag }),
  violation: has({ seq: isCount, id: orNull(isText), ...VIOLATION, times: isCount }),
  result: has({ seq: isCount, id: isText, ...OUTCOME }),
  status: has({
    seq: isCount,
    status: isText,
    execution_state: isText,
    reason: orNull(isText),
    recovered: optional(orNull(isText)),
  }),
  ready: has({ session: isSession, last_seq: isCount }),
  reply: has({ id: isText }),
  authenticated: has({ id: isText, expires_at: isText }),
  pong: has({ id: isText }),
  gap: has({ from: isCount, to: isCount }),
  problem: has({
    id: orNull(isText),
    code: isText,
    detail: isText,
    errors: optional(isList(has({ field: isText, message: isText }))),
  }),
};

/**
 * Reads a message of the server. A type that we do not know gives null: later versions add some, and they are skipped.
 *
 * @throws ProtocolError if it is no JSON object with a type, or one that lacks what its type has
 */
export function readFrame(text: string): ServerFrame | null {
  const value = parse(text);
  if (!isObject(value) || typeof value.type !== "string") throw new ProtocolError("a message without a type");
  const { type } = value;
  if (!isKnown(type)) return null;
  if (!SHAPES[type](value)) throw new ProtocolError(`a message of type ${type} that is not complete`);
  // The check above is what makes it one.
  return value as unknown as ServerFrame;
}

/** Whether a frame belongs to one socket and not to the log. */
export function isNotice(frame: ServerFrame): frame is Notice {
  return !("seq" in frame);
}

/** A message for the server. */
export function writeFrame(frame: ClientFrame): string {
  return JSON.stringify(frame);
}

/** Passing: connect again by itself, after a pause. Fatal: only if the user changes something. */
export type CloseKind = "passing" | "fatal";

/** Codes by which two programs tell each other that they do not speak the same protocol. */
const FOREIGN: ReadonlySet<number> = new Set([1002, 1003, 1007, 1010]);

/** What to do after a close code. One that is in no list (1005, 1006, 1012 …) means a broken connection. */
export function closeKind(code: number): CloseKind {
  const known = Object.entries(CLOSE_CODES).find(([number]) => Number(number) === code);
  if (known) return known[1].mayRetry ? "passing" : "fatal";
  return FOREIGN.has(code) ? "fatal" : "passing";
}

function isKnown(type: string): type is ServerFrame["type"] {
  return Object.hasOwn(SHAPES, type);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError("a message that is not JSON");
  }
}
