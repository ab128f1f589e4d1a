// Generated from the Rust types in protocol/. Do not edit: `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`
// writes it anew.

/**
 * A token. It is secret, so it prints as `***`.
 */
export type BearerToken = string;

/**
 * The bounds of a number, and what it is if nobody says.
 */
export type Bounds = {
/**
 * The least.
 */
min: number,
/**
 * The most.
 */
max: number,
/**
 * If nobody says.
 */
default: number, };

/**
 * Body of `GET /capabilities`.
 */
export type Capabilities = {
/**
 * Version of the server.
 */
version: string,
/**
 * Subprotocol of its WebSockets.
 */
protocol: string,
/**
 * Languages whose interpreter was found.
 */
languages: Array<LanguageSupport>,
/**
 * What stands around each session.
 */
sandbox: SandboxSupport,
/**
 * How much of anything there may be.
 */
limits: ServerLimits, };

/**
 * What a client sends.
 */
export type ClientFrame = { "type": "execute",
/**
 * The client's name for the execution; use a UUID.
 */
id: ExecutionId,
/**
 * 1 to 1,048,576 characters.
 */
code: string,
/**
 * 100 to 300,000; default 30,000.
 */
timeout_ms?: number | null,
/**
 * What the program reads from standard input, then end of file.
 */
stdin?: string | null, } | { "type": "stdin",
/**
 * The text; lines end with `\n`.
 */
data?: string | null,
/**
 * Whether end of file follows.
 */
eof?: boolean, } | { "type": "interrupt",
/**
 * Which; absent: what runs now.
 */
id?: ExecutionId | null, } | { "type": "restart",
/**
 * Names the request in a `problem`.
 */
id?: RequestId | null, } | { "type": "terminate",
/**
 * Names the request in a `problem`.
 */
id?: RequestId | null, } | { "type": "complete",
/**
 * Comes back in the `reply`.
 */
id: RequestId,
/**
 * At most 1,048,576 characters.
 */
code: string,
/**
 * In code points; absent: the end of the code.
 */
cursor?: number | null, } | { "type": "inspect",
/**
 * Comes back in the `reply`.
 */
id: RequestId,
/**
 * At most 1,048,576 characters.
 */
code: string,
/**
 * In code points; absent: the end of the code.
 */
cursor?: number | null, } | { "type": "is_complete",
/**
 * Comes back in the `reply`.
 */
id: RequestId,
/**
 * At most 1,048,576 characters.
 */
code: string,
/**
 * As in the other two; the answer does not depend on it.
 */
cursor?: number | null, } | { "type": "auth",
/**
 * The token.
 */
token: BearerToken,
/**
 * Comes back in the answer; without one only a refusal is told.
 */
id?: RequestId | null, } | { "type": "ping",
/**
 * Comes back in the `pong`.
 */
id: RequestId, };

/**
 * Body of `POST /sessions/{id}/complete`, `/inspect` and `/is_complete`.
 */
export type CodeRequest = {
/**
 * The code that is asked about, in characters.
 */
code: string,
/**
 * In code points; absent: the end of the code. Of no meaning for `/is_complete`.
 */
cursor?: number | null, };

/**
 * Whether code can be run as it is.
 */
export type Completeness = {
/**
 * The verdict.
 */
status: CompletenessStatus,
/**
 * What an editor would put at the beginning of the next line.
 */
indent: string, };

/**
 * The verdict on whether code can be run as it is.
 */
export type CompletenessStatus = "complete" | "incomplete" | "invalid" | "unknown";

/**
 * What could stand at the cursor.
 */
export type Completion = {
/**
 * Each takes the place of the text between the two cursors; at most 500.
 */
matches: Array<string>,
/**
 * In code points.
 */
cursor_start: number,
/**
 * In code points.
 */
cursor_end: number, };

/**
 * One rich output.
 */
export type Display = {
/**
 * MIME type to value; binary types in base64.
 */
data: Record<string, unknown>,
/**
 * Hints for showing it.
 */
metadata: Record<string, unknown>, };

/**
 * An uncaught exception.
 */
export type Exception = {
/**
 * The name of its class, or one of ours: `StateLost`.
 */
name: string,
/**
 * What it says, at most 64 KiB.
 */
message: string,
/**
 * The traceback as lines, cut to the user's frames, at most 64 KiB together.
 */
traceback: Array<string>, };

/**
 * Names an execution within its session: 1 to 64 of `[A-Za-z0-9_.-]`, chosen by the client or made by the server.
 *
 * Cheap to clone: the text is shared.
 */
export type ExecutionId = string;

/**
 * Body of `POST /sessions/{id}/execute`.
 */
export type ExecutionRequest = {
/**
 * If given, the session in the path.
 */
session_id?: string | null,
/**
 * Code to run, in characters.
 */
code: string,
/**
 * Wall-clock limit, from the start of the execution.
 */
timeout_ms?: number | null,
/**
 * The client's own name for the execution; the same id with the same code follows it instead of running it twice.
 */
execution_id?: ExecutionId | null,
/**
 * What the program reads from standard input.
 */
stdin?: string | null, };

/**
 * What a blocking execution answers.
 */
export type ExecutionResult = {
/**
 * The session.
 */
session_id: SessionId,
/**
 * The execution.
 */
execution_id: ExecutionId,
/**
 * Counts the executions of the session, from 1.
 */
execution_count: number,
/**
 * Whether the program ran to its end without an error.
 */
success: boolean,
/**
 * Standard output.
 */
output: string,
/**
 * Standard error, then the traceback of an uncaught exception.
 */
error: string,
/**
 * See [`Outcome::result`].
 */
result: unknown,
/**
 * See [`Outcome::result_text`].
 */
result_text: string | null,
/**
 * Rich outputs.
 */
display: Array<Display>,
/**
 * The uncaught exception.
 */
exception: Exception | null,
/**
 * See [`Outcome::exit_code`].
 */
exit_code: number | null,
/**
 * The limit that ended it.
 */
limit: Limit | null,
/**
 * The rule that was broken.
 */
violation: Violation | null,
/**
 * Output or result was cut.
 */
truncated: boolean,
/**
 * Variables are gone.
 */
state_lost: boolean,
/**
 * What the execution used.
 */
usage: Usage,
/**
 * Wall-clock time in milliseconds.
 */
execution_time_ms: number,
/**
 * When it started, RFC 3339 in UTC.
 */
timestamp: string, };

/**
 * What the interpreter does.
 */
export type ExecutionState = "starting" | "idle" | "busy";

/**
 * A wrong field.
 */
export type FieldError = {
/**
 * Its path, for example `resource_limits.max_memory_mb`.
 */
field: string,
/**
 * What is wrong with it.
 */
message: string, };

/**
 * One of them.
 */
export type FileEntry = {
/**
 * Relative to the working directory. A name that is no UTF-8 has U+FFFD where it is none, and cannot be asked for.
 */
path: string,
/**
 * Bytes; 0 for all but files.
 */
size: number,
/**
 * When it was last changed, RFC 3339 in UTC.
 */
modified: string,
/**
 * What it is.
 */
kind: FileKind, };

/**
 * What a name stands for.
 */
export type FileKind = "file" | "directory" | "link" | "other";

/**
 * Body of `GET /sessions/{id}/files`.
 */
export type FileList = {
/**
 * What there is, folders before what is in them, in the order of names.
 */
files: Array<FileEntry>,
/**
 * Whether there is more than was asked for.
 */
truncated: boolean, };

/**
 * Body of `GET /sessions/{id}/history`.
 */
export type History = {
/**
 * The session.
 */
session_id: SessionId,
/**
 * All there are.
 */
total: number,
/**
 * As asked, or the default.
 */
limit: number,
/**
 * As asked, or 0.
 */
offset: number,
/**
 * This page, oldest first.
 */
executions: Array<HistoryEntry>, };

/**
 * A past execution.
 */
export type HistoryEntry = {
/**
 * The execution.
 */
execution_id: ExecutionId,
/**
 * Counts the executions of the session, from 1.
 */
execution_count: number,
/**
 * What ran.
 */
code: string,
/**
 * Whether it ran to its end without an error.
 */
success: boolean,
/**
 * Wall-clock time in milliseconds.
 */
execution_time_ms: number,
/**
 * When it started, RFC 3339 in UTC.
 */
timestamp: string,
/**
 * The limit that ended it.
 */
limit: Limit | null,
/**
 * The rule that was broken.
 */
violation: Violation | null,
/**
 * What it used.
 */
usage: Usage, };

/**
 * What is known of the thing at the cursor.
 */
export type Inspection = {
/**
 * Whether anything is.
 */
found: boolean,
/**
 * MIME type to text, at most 64 KiB.
 */
data: { [key in string]: string }, };

/**
 * Body of `POST /sessions/{id}/interrupt`.
 */
export type InterruptRequest = {
/**
 * Which execution; absent: the one that runs now.
 */
execution_id?: ExecutionId | null, };

/**
 * The languages of sessions. `shell` is a synonym of `bash` and is shown as it was given.
 */
export type Language = "python" | "javascript" | "bash" | "shell";

/**
 * A language that sessions can have.
 */
export type LanguageSupport = {
/**
 * Its name.
 */
name: Language,
/**
 * Other names for it.
 */
synonyms: Array<Language>,
/**
 * The interpreter: `CPython`, `Node.js` or `GNU Bash`.
 */
interpreter: string,
/**
 * What that says its version is, for example `3.11.2`.
 */
version: string,
/**
 * The least `max_memory_mb` with which it starts.
 */
min_memory_mb: number, };

/**
 * The limits that can end an execution.
 */
export type Limit = "wall_time" | "cpu_time" | "memory" | "output" | "processes";

/**
 * An event with its place in the log; on the wire one flat object with `type` and `seq`.
 */
export type LoggedEvent = {
/**
 * Grows within a session, also across a restart of the gateway.
 */
seq: Seq, } & ({ "type": "queued",
/**
 * The execution.
 */
id: ExecutionId, } | { "type": "started",
/**
 * The execution.
 */
id: ExecutionId,
/**
 * Counts the executions of the session, from 1.
 */
execution_count: number,
/**
 * When, RFC 3339 in UTC.
 */
timestamp: string, } | { "type": "stream",
/**
 * The execution that ran when it was read; null while nothing runs.
 */
id: ExecutionId | null,
/**
 * Which stream.
 */
stream: StreamName,
/**
 * The text, at most 64 KiB of bytes.
 */
data: string, } | { "type": "display",
/**
 * The execution that showed it; null while nothing runs.
 */
id: ExecutionId | null,
/**
 * MIME type to value; binary types in base64.
 */
data: Record<string, unknown>,
/**
 * Hints for showing it.
 */
metadata: Record<string, unknown>, } | { "type": "input_request",
/**
 * The execution that waits.
 */
id: ExecutionId,
/**
 * What the program says, at most 4 KiB.
 */
prompt: string,
/**
 * Whether what is typed should stay hidden.
 */
password: boolean, } | { "type": "violation",
/**
 * The execution that ran; null while nothing runs.
 */
id: ExecutionId | null,
/**
 * Which rule, for example `import`; at most 64 bytes.
 */
rule: string,
/**
 * What was tried, for example `subprocess`; at most 300 bytes of printable text.
 */
detail: string,
/**
 * Who found it.
 */
layer: ViolationLayer,
/**
 * How often it was tried, one time after the other; at least 1.
 */
times: number, } | { "type": "result" } & Outcome | { "type": "status",
/**
 * As in the Session.
 */
status: SessionStatus,
/**
 * As in the Session.
 */
execution_state: ExecutionState,
/**
 * Why, where there is something to say.
 */
reason: StatusReason | null,
/**
 * With reason `recovered`: whether the state was rebuilt or the session starts empty.
 */
recovered?: Recovered | null, });

/**
 * Body of `GET /me`: the caller.
 */
export type Me = {
/**
 * Claim `sub` of the token: the owner of what it creates.
 */
subject: string,
/**
 * What the token may be used for, implied scopes included.
 */
scopes: Array<string>,
/**
 * When the token expires, RFC 3339 in UTC.
 */
expires_at: string,
/**
 * What the subject may have.
 */
limits: MeLimits,
/**
 * What it has.
 */
usage: MeUsage, };

/**
 * What a subject may have, as far as its token does not lower it (claim `repl_limits`).
 */
export type MeLimits = {
/**
 * Sessions at once.
 */
sessions: number,
/**
 * Sockets and streams at once.
 */
sockets: number,
/**
 * Requests in a minute, and messages of each socket; null if they are not limited.
 */
requests_per_minute: number | null,
/**
 * How many of them may come at once; null if they are not limited.
 */
burst: number | null,
/**
 * The most that a session may ask for; what is asked for beyond it is lowered. A sandbox level may have less.
 */
session: ResourceLimits,
/**
 * What it may use in a period.
 */
quotas: MeQuotas, };

/**
 * What a subject has used in this period.
 */
export type MeQuotaUsage = {
/**
 * When the counts begin anew, RFC 3339 in UTC.
 */
period_ends_at: string,
/**
 * Executions that were accepted.
 */
executions: number,
/**
 * Sessions that were created.
 */
session_creations: number,
/**
 * CPU time that was used, in milliseconds.
 */
cpu_time_ms: number,
/**
 * Bytes that the logs of its sessions take now.
 */
stored_bytes: number, };

/**
 * What a subject may use in a period; null where that is not limited.
 */
export type MeQuotas = {
/**
 * After which counts begin anew.
 */
period: QuotaPeriod,
/**
 * Executions that are accepted in a period.
 */
executions: number | null,
/**
 * Sessions that are created in a period.
 */
session_creations: number | null,
/**
 * Seconds of CPU time in a period.
 */
cpu_seconds: number | null,
/**
 * MiB that the logs of its sessions may take, at any time.
 */
stored_mb: number | null, };

/**
 * What a subject has.
 */
export type MeUsage = {
/**
 * Sessions, also those that have ended and can still be read.
 */
sessions: number,
/**
 * Sockets and streams.
 */
sockets: number,
/**
 * Requests that may come at once after this one; null if they are not limited.
 */
requests_left: number | null,
/**
 * What it has used in this period.
 */
quotas: MeQuotaUsage, };

/**
 * A level that sessions can have.
 */
export type ModeSupport = {
/**
 * Its name.
 */
name: SandboxMode,
/**
 * The scopes that a token needs to create a session of it.
 */
scopes: Array<string>,
/**
 * Processes and threads of one session.
 */
max_processes: number,
/**
 * MiB of memory that a session gets at most, whatever it asks for.
 */
max_memory_mb: number,
/**
 * What makes its sandboxes: `native` for the server itself, else the container runtime, for example `runc`.
 */
backend: string, };

/**
 * Messages that belong to one socket and not to the log.
 */
export type Notice = { "type": "ready",
/**
 * The session as it is now.
 */
session: Session,
/**
 * The newest event of its log.
 */
last_seq: Seq, } | { "type": "reply",
/**
 * As in the question.
 */
id: RequestId, } & (Completion | Inspection | Completeness) | { "type": "authenticated",
/**
 * As in the `auth`.
 */
id: RequestId,
/**
 * When the token expires, RFC 3339 in UTC; the socket is closed some seconds later.
 */
expires_at: string, } | { "type": "pong",
/**
 * As in the `ping`.
 */
id: RequestId, } | { "type": "gap",
/**
 * The first one.
 */
from: Seq,
/**
 * The last one.
 */
to: Seq, } | { "type": "problem",
/**
 * The id of the request, if it could be read.
 */
id: string | null,
/**
 * For programs; stable.
 */
code: ProblemCode,
/**
 * What to do about it.
 */
detail: string,
/**
 * Which fields are wrong, and why.
 */
errors?: Array<FieldError>, };

/**
 * Body of `POST /execute`: the fields of [`SessionConfig`] and those of [`ExecutionRequest`] but `session_id`. They
 * stand here once more because a flattened type could not refuse unknown fields.
 */
export type OneShotRequest = {
/**
 * Programming language.
 */
language: Language,
/**
 * Sandbox level.
 */
sandbox_mode?: SandboxMode,
/**
 * Environment variables of the interpreter.
 */
environment?: { [key in string]: string },
/**
 * A path inside the session's own directory, made if it is not there.
 */
working_directory?: string,
/**
 * What the session may use.
 */
resource_limits?: SomeLimits,
/**
 * Code to run, in characters.
 */
code: string,
/**
 * Wall-clock limit, from the start of the execution.
 */
timeout_ms?: number,
/**
 * The client's own name for the execution, in its events and its result.
 */
execution_id?: ExecutionId,
/**
 * What the program reads from standard input; without it, end of file.
 */
stdin?: string, };

/**
 * How an execution ended: all of ExecutionResult but its two texts and its displays, which the log holds as events.
 */
export type Outcome = {
/**
 * The execution.
 */
id: ExecutionId,
/**
 * Counts the executions of the session, from 1; 0 if it was never run.
 */
execution_count: number,
/**
 * Whether the program ran to its end without an error.
 */
success: boolean,
/**
 * The value of a trailing expression: JSON if the value is exactly JSON, else its printed form.
 */
result: unknown,
/**
 * The printed form of that value, when there is one; at most 64 KiB.
 */
result_text: string | null,
/**
 * The uncaught exception that ended the program.
 */
exception: Exception | null,
/**
 * Bash: status of the last command; others: when the interpreter ended. 0…255, or 128 + signal.
 */
exit_code: number | null,
/**
 * The limit that ended it.
 */
limit: Limit | null,
/**
 * The first rule that was broken.
 */
violation: Violation | null,
/**
 * Output was cut at `max_output_size`, or `result` at its own limit; what came before is kept.
 */
truncated: boolean,
/**
 * The interpreter had to be replaced; variables are gone.
 */
state_lost: boolean,
/**
 * What the execution used.
 */
usage: Usage,
/**
 * Wall-clock time from `started` to the end, in milliseconds.
 */
execution_time_ms: number,
/**
 * When it started, RFC 3339 in UTC.
 */
timestamp: string, };

/**
 * A refused request, RFC 9457.
 */
export type Problem = {
/**
 * `about:blank`, or a documented URI.
 */
type: string,
/**
 * The status in words.
 */
title: string,
/**
 * HTTP status.
 */
status: number,
/**
 * What to do about it.
 */
detail: string,
/**
 * For programs; stable.
 */
code: ProblemCode,
/**
 * Also in the `X-Request-Id` header and in the server's log.
 */
request_id: string,
/**
 * Which fields are wrong, and why.
 */
errors?: Array<FieldError>, };

/**
 * What went wrong, for programs.
 */
export type ProblemCode = "invalid_request" | "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "busy" | "conflict" | "gone" | "precondition_failed" | "too_large" | "unsupported_media_type" | "range_not_satisfiable" | "misdirected_request" | "session_limit" | "rate_limited" | "expression_limit" | "internal" | "sandbox_unavailable" | "draining" | "storage_full";

/**
 * A span of the calendar, in UTC.
 */
export type QuotaPeriod = "hour" | "day" | "month";

/**
 * What became of a session's variables in a recovery.
 */
export type Recovered = "replayed" | "empty";

/**
 * Names a request on one socket, so that its answer can be told apart: 1 to 64 of `[A-Za-z0-9_.-]`.
 *
 * Cheap to clone: the text is shared.
 */
export type RequestId = string;

/**
 * The bounds of [`ResourceLimits`].
 */
export type ResourceBounds = {
/**
 * Seconds.
 */
max_cpu_time: Bounds,
/**
 * MiB.
 */
max_memory_mb: Bounds,
/**
 * Bytes.
 */
max_output_size: Bounds,
/**
 * Executions.
 */
max_expressions: Bounds, };

/**
 * What a session may use. Each field has its own default and bounds.
 */
export type ResourceLimits = {
/**
 * CPU seconds of one execution, all its processes together.
 */
max_cpu_time: number,
/**
 * Memory in MiB, all processes of the session together.
 */
max_memory_mb: number,
/**
 * Bytes of output of one execution, both streams together.
 */
max_output_size: number,
/**
 * Executions in the life of the session.
 */
max_expressions: number, };

/**
 * One layer of the sandbox.
 */
export type SandboxLayer = {
/**
 * As `repltool doctor` names it, for example `seccomp`.
 */
name: string,
/**
 * Whether it was put up and stood.
 */
active: boolean, };

/**
 * How much the sandbox allows.
 */
export type SandboxMode = "strict" | "standard" | "relaxed";

/**
 * The sandbox as it was found when the server started.
 */
export type SandboxSupport = {
/**
 * `A`: every wall stands, and Linux holds memory and processes of a session together. `B`: every wall stands, the
 * server watches the memory.
 */
tier: string,
/**
 * Each layer, and whether it is there.
 */
layers: Array<SandboxLayer>,
/**
 * Levels that sessions can have.
 */
modes: Array<ModeSupport>, };

/**
 * The place of an event in its session's log. It only grows during the life of a session; numbers may be skipped.
 */
export type Seq = number;

/**
 * What the server sends.
 */
export type ServerFrame = LoggedEvent | Notice;

/**
 * How much of anything there may be.
 */
export type ServerLimits = {
/**
 * What a session may ask for itself.
 */
resource_limits: ResourceBounds,
/**
 * Milliseconds of one execution.
 */
timeout_ms: Bounds,
/**
 * Characters of one execution's code; at least 1.
 */
max_code_chars: number,
/**
 * Bytes of a request body and of a WebSocket message.
 */
max_message_bytes: number,
/**
 * Bytes of one file, and of all files of a session.
 */
max_file_bytes: number,
/**
 * The largest `limit` of a list.
 */
max_page: number,
/**
 * Executions that may wait in one session.
 */
queue: number,
/**
 * Seconds without use until a session ends.
 */
idle_timeout_s: number,
/**
 * Seconds without an execution until a session is shown as `idle`.
 */
idle_after_s: number,
/**
 * Seconds that a session stays readable after its idle timeout.
 */
keep_ended_s: number,
/**
 * Sessions of all subjects together.
 */
max_sessions: number,
/**
 * Sessions of one subject.
 */
max_sessions_per_subject: number, };

/**
 * A session as its owner sees it.
 */
export type Session = {
/**
 * Names the session.
 */
session_id: SessionId,
/**
 * As it was asked for.
 */
language: Language,
/**
 * RFC 3339 in UTC.
 */
created_at: string,
/**
 * When it was last used, RFC 3339 in UTC.
 */
last_activity: string,
/**
 * Whether it can be used.
 */
status: SessionStatus,
/**
 * What the interpreter does.
 */
execution_state: ExecutionState,
/**
 * What the session may use.
 */
resource_limits: ResourceLimits,
/**
 * Sandbox level.
 */
sandbox_mode: SandboxMode,
/**
 * Subject of the token that created it.
 */
owner: string,
/**
 * Executions so far.
 */
expression_count: number,
/**
 * The newest event of its log.
 */
last_seq: number,
/**
 * When it ends if nobody uses it, RFC 3339 in UTC; null while something runs.
 */
expires_at: string | null, };

/**
 * Body of `POST /sessions`.
 */
export type SessionConfig = {
/**
 * Programming language.
 */
language: Language,
/**
 * Sandbox level.
 */
sandbox_mode?: SandboxMode,
/**
 * Environment variables of the interpreter.
 */
environment?: { [key in string]: string },
/**
 * A path inside the session's own directory, made if it is not there.
 */
working_directory?: string | null,
/**
 * What the session may use.
 */
resource_limits?: SomeLimits, };

/**
 * Names a session: `^[a-zA-Z0-9]{8,32}$`. The server makes 22 characters, 131 random bits.
 *
 * Cheap to clone: the text is shared.
 */
export type SessionId = string;

/**
 * Body of `GET /sessions`.
 */
export type SessionList = {
/**
 * All there are.
 */
total: number,
/**
 * As asked, or the default.
 */
limit: number,
/**
 * As asked, or 0.
 */
offset: number,
/**
 * This page, oldest first.
 */
sessions: Array<Session>, };

/**
 * Whether a session can be used.
 */
export type SessionStatus = "active" | "idle" | "terminated" | "error";

/**
 * Those limits of a session that a request names; the others have their defaults.
 */
export type SomeLimits = Partial<ResourceLimits>;

/**
 * Why a `status` event was told.
 */
export type StatusReason = "restarted" | "limit" | "idle_timeout" | "recovered" | "terminated" | "storage_full" | "violations";

/**
 * Body of `POST /sessions/{id}/stdin`. One of the two fields is needed.
 */
export type StdinRequest = {
/**
 * What the program that runs is to read; lines end with `\n`.
 */
data?: string | null,
/**
 * Whether end of file follows.
 */
eof?: boolean, };

/**
 * One of the two output streams.
 */
export type StreamName = "stdout" | "stderr";

/**
 * What an execution used, all its processes together.
 */
export type Usage = {
/**
 * CPU time, user and system, in milliseconds.
 */
cpu_time_ms: number,
/**
 * Highest memory use during the execution, in bytes.
 */
peak_memory_bytes: number,
/**
 * Bytes of both streams that were kept.
 */
output_bytes: number, };

/**
 * A rule of the sandbox that was broken.
 */
export type Violation = {
/**
 * Which rule, for example `import`.
 */
rule: string,
/**
 * What was tried, for example `subprocess`.
 */
detail: string,
/**
 * Who refused it.
 */
layer: ViolationLayer, };

/**
 * Who refused what was tried.
 */
export type ViolationLayer = "policy" | "kernel";

/** The subprotocol every client must offer. */
export const SUBPROTOCOL = "repltool.v1";

/** A page puts its token into a second subprotocol that begins so. */
export const BEARER_PREFIX = "bearer.";

/** The largest message, in bytes. */
export const MAX_MESSAGE_BYTES = 16777216;

/** The longest code of one execution, in code points. */
export const MAX_CODE_CHARS = 1048576;

/** Every `type` of what a client sends. */
export const CLIENT_FRAME_TYPES = ["execute", "stdin", "interrupt", "restart", "terminate", "complete", "inspect", "is_complete", "auth", "ping"] as const;

/** Every `type` of an event. */
export const EVENT_TYPES = ["queued", "started", "stream", "display", "input_request", "violation", "result", "status"] as const;

/** Every `type` of a notice. */
export const NOTICE_TYPES = ["ready", "reply", "authenticated", "pong", "gap", "problem"] as const;

/** Why the server closed a socket, and whether to connect again by oneself. */
export const CLOSE_CODES = {
  1000: { name: "Terminated", mayRetry: false },
  1001: { name: "Draining", mayRetry: true },
  1008: { name: "Policy", mayRetry: false },
  1009: { name: "TooBig", mayRetry: false },
  1011: { name: "Internal", mayRetry: true },
  1013: { name: "Overloaded", mayRetry: true },
  4401: { name: "Unauthorized", mayRetry: false },
  4403: { name: "Forbidden", mayRetry: false },
  4404: { name: "NotFound", mayRetry: false },
  4408: { name: "IdleTimeout", mayRetry: false },
  4429: { name: "RateLimited", mayRetry: true },
} as const;

/** A close code of the server. */
export type CloseCode = keyof typeof CLOSE_CODES;
