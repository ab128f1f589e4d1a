//! Tests of the running program, one binary. Most of them start a real server on a port of its own, with real sandboxes.

mod follower;
mod harness;
mod talk;
mod wire;

/// The house rules: who may use whom, how long a file may be, which requirement has a test.
mod tidy;

/// Sessions: created, listed, read, restarted, ended by their idle timeout, deleted without a trace.
mod lifecycle;

/// Executions: results, history, order, names, cancelling and interrupting.
mod executions;

/// One execution in a session of its own: what it answers, and who sees it.
mod one_shot;

/// The ends of an execution in a session of its own: nothing of it is left, whatever happens.
mod one_shot_ends;

/// What the server says of itself.
mod capabilities;

/// What a program asks its user, and what it shows besides text: Python, JavaScript and Bash.
mod interaction;

/// What an editor asks an interpreter: completion, documentation, whether an input is finished.
mod questions;

/// Files of the working directory: read, listed, written and removed over HTTP, beside a program that does the same.
mod files;

/// Files while they are written and read: in one step or not at all, within the disk, and in nobody's way.
mod uploads;

/// The interpreter ends or is replaced: what ran and what waits is told so, the next one comes.
mod losses;

/// Output: at once, whole and in order, over sockets, as lines and as server-sent events.
mod streaming;

/// Output as text: no character cut, nothing changed but what is no text.
mod text;

/// Tokens, scopes, owners: who may come in, and who may do what.
mod auth;

/// Every operation with every scope and owner: what the description says is needed is what is needed.
mod access;

/// Keys of an issuer: public ones in every form, changed while the server runs, and the forgeries that they invite.
mod keys;

/// Alerts on their way to a webhook.
mod webhooks;

/// Traces: which spans a collector gets.
mod traces;

/// Keys that are fetched from their issuer: when, from whom, and what happens while that fails.
mod fetched_keys;

/// The process that calls outside: what it sends to whom, and what it has given up.
mod outbound;

/// Tokens that are taken back before they expire, and what they had opened.
mod revocations;

/// Limits that a token lowers for its holder.
mod lowered;

/// Limits on clients: requests, failed logins, messages, sessions and sockets at once.
mod rates;

/// Quotas of a subject by the hour, day or month: refused, told, kept, lowered.
mod quotas;

/// TLS: the version, the certificate and its renewal, certificates of clients, and what is no TLS.
mod tls;

/// The listener in plain text that sends clients to the encrypted one.
mod redirect;

/// Proxies that tell the address of a client before its first byte.
mod proxied;

/// HTTP/2: many streams, its limits, and sockets beside it.
mod http2;

/// Web pages: their origin, the host they believe to speak to, the token that they cannot put into a header.
mod pages;

/// The web page, the pages that show the API, and the description of the API.
mod static_files;

/// HTTP in all its forms: methods, bodies, fields, refusals, and what every answer has.
mod http;

/// HTTP connections: one request after the other, several at once, and what is no request.
mod connections;

/// Peers that are slow, silent or many, and requests in disguise: each costs its own connection and nobody else's.
mod robust;

/// Requests that are told to wait with their body, that are too large, or that are refused before they are read.
mod bodies;

/// Clients that go away in the middle, and ask the same again.
mod retries;

/// The WebSocket protocol: malformed frames, pings, sizes.
mod frames;

/// Frames that no good client sends, byte by byte.
mod hostile_frames;

/// What a socket is refused: with a code, the id, and the field.
mod socket_refusals;

/// Fresh tokens on open sockets.
mod renewal;

/// Settings that are read again while a server runs.
mod reload;

/// How sockets end, and how they are refused: close codes.
mod closing;

/// A thousand sockets on one session, and where each of them begins.
mod many_sockets;

/// Limits strike, are named, keep what was printed, and leave nothing running.
mod limits;

/// CPU time: limited for an execution and between two, counted for every process.
mod cpu;

/// Ceilings on processes, descriptors, files and memory.
mod ceilings;

/// Attacks on limits, from a list: they hold, are named, and cost nobody else anything.
mod attacks;

/// The end of a session is complete, whatever ran in it.
mod kills;

/// Faults of interpreters: named, and the session goes on.
mod faults;

/// What holds for every language alike.
mod languages;

/// The user stories, from their beginning to their end.
mod stories;

/// Sessions in a stock container, without namespaces: only if the operator says so, and with what still stands.
mod reduced;

/// What a program finds: environment, directory, locale, clock.
mod environment;

/// Readers that do not read slow nobody, cost little, and get everything in the end.
mod back_pressure;

/// A client that comes back goes on where it was; what is no longer kept is told.
mod reattach;

/// The event log under `kill -9`: nothing lost, nothing twice.
mod log_crash;

/// The gateway is killed: variables, output, queue, timeouts and interrupts go on with the next one.
mod crash;

/// The gateway is killed while a program shows, asks and reads.
mod crash_messages;

/// The gateway is killed at random moments, with many sessions, and when no other comes up.
mod crash_often;

/// What the server finds at its start, and which names it answers to.
mod start;

/// The server ends, in good order and by force, and starts again on the same data; or says why it does not start.
mod shutdown;

/// Attempts to get out of a sandbox, each with its refusal.
mod escape;

/// Code is read before it runs: what breaks the policy is refused, told or recorded, and never reaches the interpreter.
mod screening;

/// What a program says in the name of its driver costs its own interpreter at worst.
mod forgeries;
/// What programs may import at each level, and how an operator changes it.
mod imports;

/// Sessions do not see each other or the server, and the gateway does not see the host.
mod isolation;

/// The main promises, kept by a server that has no root and no cgroups.
mod ordinary_user;

/// Sandboxes that a container runtime makes.
mod containers;

/// The command line: output, exit codes, messages.
mod cli;

/// Settings: read from their layers, checked, shown, with everything that is wrong with them.
mod settings;

/// What is shipped to run a server: alerts, a dashboard, a unit.
mod deploy;

/// Metrics: who gets them, what they count, and that no client makes up a label.
mod metrics;

/// The id of a trace in the server's own log.
mod traced_lines;

/// The server's own log: which request and session a line is of, and what is in no line.
mod logs;

/// The idle timeout: what keeps a session, and what does not.
mod idle;

/// Violations of a sandbox's rules: told, counted, and in the end the session's end.
mod violations;

/// Calls that Linux refuses to a program: each is told, before the end of the execution that made it.
mod refusals;

/// The audit log: what is recorded, and that it cannot be changed unseen.
mod audit;
mod audit_files;

/// What concerns security: told as it happens, and when it happens too often as an alert.
mod security;

/// The levels of sandboxes: which are offered, and what `strict` takes away.
mod levels;

/// Interpreters that wait for sessions, and the zygote that Python is forked from.
mod pool;

/// Sessions by the hundred: of each nothing is left, and the server grows by nothing.
mod churn;
/// The command line: sessions that stay, from their creation to their end.
mod commands;

/// The command line: typing into a session, at a terminal and in a pipe.
mod interactive;

/// The command line: the server of one command, where no other runs.
mod embedded;
