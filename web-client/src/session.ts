/**
 * A session that survives reloads and broken connections. It remembers which session is its own and where in its log it
 * stands, attaches again after what it has seen, and sends an execution again that the server has not confirmed.
 *
 *     none ── run ──▶ connecting ── ready ──▶ open
 *                       ▲    │                 │
 *                       │    └─ passing code ──┤
 *                       └── pause ── waiting ◀─┘
 *     connecting, open ── fatal code ──▶ closed ── start, renew ──▶ …
 */

import type { Memory, Remembered } from "./memory";
import {
  type ClientFrame,
  closeKind,
  isNotice,
  type LoggedEvent,
  type Notice,
  ProtocolError,
  readFrame,
  type ServerFrame,
  type Session as SessionInfo,
  writeFrame,
} from "./protocol";
import { pauseBefore } from "./retry";
import { BROKEN, type Connect, type Transport } from "./transport";

/** How a session is connected. */
export type Link =
  | { state: "none" }
  | { state: "connecting" }
  | { state: "open" }
  | { state: "waiting"; pauseMs: number }
  | { state: "closed"; code: number };

/** Told of what happens, in order, every event once. */
export interface SessionListener {
  linked(link: Link): void;
  /** The session as it is at the moment of attaching. */
  ready(session: SessionInfo): void;
  /** Another execution is the one to show; what follows belongs to it. */
  began(id: string): void;
  happened(event: LoggedEvent): void;
  /** A part of the log that is not kept, or a refusal. */
  noticed(notice: Extract<Notice, { type: "gap" | "problem" }>): void;
}

/** What a session needs of its surroundings. */
export interface SessionParts {
  language: string;
  memory: Memory;
  connect: Connect;
  /** The token in force. */
  token(): string | null;
  /** Calls back after a time; the function that it returns calls that off. */
  after(ms: number, call: () => void): () => void;
  random(): number;
  newId(): string;
}

/** The server's code for a token that it does not take. */
export const UNAUTHORIZED = 4401;
/** A message that we cannot read: a server of another version. */
const UNREADABLE = 1002;
/** After this silence, in milliseconds, the server is asked for a sign of life, and after it once more the link is lost. */
const SILENCE_MS = 25_000;

function nothing(): Remembered {
  return { id: null, place: 0, answered: 0 };
}

export class Session {
  readonly #parts: SessionParts;
  readonly #listener: SessionListener;
  #remembered: Remembered;
  /** The last event that was told to the listener. */
  #seen: number;
  #current: { id: string; over: boolean } | null = null;
  #transport: Transport | null = null;
  #link: Link = { state: "none" };
  #attempts = 0;
  #asked = false;
  #callOff: () => void = () => {};

  constructor(parts: SessionParts, listener: SessionListener) {
    this.#parts = parts;
    this.#listener = listener;
    this.#remembered = parts.memory.load() ?? nothing();
    this.#seen = this.#remembered.place;
  }

  /** Attaches to the remembered session if there is one; returns what ends the connection, not the session. */
  start(): () => void {
    const { id, pending } = this.#remembered;
    if (id !== null || pending) this.#connect();
    return () => this.#stop();
  }

  /** Tells the server of another token, or connects with it if the last one was not taken. */
  newToken(token: string): void {
    if (this.#link.state === "open") this.#send({ type: "auth", token });
    else if (this.#link.state === "closed" && this.#link.code === UNAUTHORIZED) this.#connect();
  }

  /** Runs code, in a new session if there is none; waits for the connection if need be. */
  run(code: string): void {
    const execution = { id: this.#parts.newId(), code };
    this.#begin(execution.id);
    this.#keep({ pending: execution });
    if (this.#link.state === "open") this.#sendPending();
    else if (this.#link.state === "none" || this.#link.state === "closed") this.#connect();
  }

  /** Interrupts what is shown, or cancels it if it waits. */
  interrupt(): void {
    this.#send({ type: "interrupt", ...(this.#current && { id: this.#current.id }) });
  }

  /** Replaces the interpreter. */
  restart(): void {
    this.#send({ type: "restart" });
  }

  /** Answers a program that reads. `seq` is that of its question, if it put one. */
  input(data: string, seq?: number): void {
    if (seq !== undefined) this.#keep({ answered: seq });
    this.#send({ type: "stdin", data });
  }

  /** Ends the standard input of what runs. */
  endOfInput(): void {
    this.#send({ type: "stdin", eof: true });
  }

  /** Whether a question was answered from this tab. */
  answered(seq: number): boolean {
    return seq <= this.#remembered.answered;
  }

  /** Gives up the session, and ends it where it can; the next run makes another. */
  renew(): void {
    if (this.#link.state === "open") {
      this.#send({ type: "terminate" });
      // Left to the server to close: a socket that ends at once may take what it was told with it.
      this.#transport = null;
    }
    this.#stop();
    this.#remembered = nothing();
    this.#parts.memory.save(null);
    this.#current = null;
    this.#seen = 0;
    this.#attempts = 0;
    this.#tell({ state: "none" });
  }

  #stop(): void {
    this.#callOff();
    this.#transport?.close();
    this.#transport = null;
  }

  #connect(): void {
    this.#stop();
    const token = this.#parts.token();
    if (token === null) {
      this.#tell({ state: "closed", code: UNAUTHORIZED });
      return;
    }
    this.#tell({ state: "connecting" });
    const { id } = this.#remembered;
    const path =
      id === null ? `/api/v1/ws?language=${this.#parts.language}` : `/api/v1/sessions/${id}/ws?after=${this.#seen}`;
    const transport = this.#parts.connect(path, token, {
      message: (text) => this.#transport === transport && this.#receive(text),
      closed: (code) => this.#transport === transport && this.#closed(code),
    });
    this.#transport = transport;
    this.#watch();
  }

  #closed(code: number): void {
    this.#stop();
    if (closeKind(code) === "fatal") {
      // Only another token makes the same request succeed.
      if (code !== UNAUTHORIZED) this.#forgetPending();
      this.#tell({ state: "closed", code });
      return;
    }
    const pauseMs = pauseBefore(this.#attempts++, this.#parts.random());
    this.#tell({ state: "waiting", pauseMs });
    this.#callOff = this.#parts.after(pauseMs, () => this.#connect());
  }

  /** A connection may be dead without a word: after a silence the server is asked, and after another one given up. */
  #watch(): void {
    this.#asked = false;
    const look = () => {
      if (this.#asked) {
        this.#closed(BROKEN);
        return;
      }
      this.#asked = true;
      this.#send({ type: "ping", id: "alive" });
      this.#callOff = this.#parts.after(SILENCE_MS, look);
    };
    this.#callOff();
    this.#callOff = this.#parts.after(SILENCE_MS, look);
  }

  #receive(text: string): void {
    if (this.#asked) this.#watch();
    try {
      const frame = readFrame(text);
      if (frame !== null) this.#onFrame(frame);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#closed(UNREADABLE);
    }
  }

  #onFrame(frame: ServerFrame): void {
    if (isNotice(frame)) this.#onNotice(frame);
    else this.#onEvent(frame);
  }

  #onNotice(notice: Notice): void {
    switch (notice.type) {
      case "ready":
        this.#onReady(notice.session);
        break;
      case "gap":
        this.#seen = Math.max(this.#seen, notice.to);
        this.#listener.noticed(notice);
        break;
      case "problem":
        this.#onProblem(notice);
        break;
      case "reply":
      case "authenticated":
      case "pong":
        break;
      default:
        notice satisfies never;
    }
  }

  #onReady(session: SessionInfo): void {
    this.#attempts = 0;
    this.#keep({ id: session.session_id });
    this.#listener.ready(session);
    this.#tell({ state: "open" });
    this.#sendPending();
  }

  #onProblem(problem: Extract<Notice, { type: "problem" }>): void {
    // The server is about to stop: what it did not take goes to the next one.
    if (problem.code === "draining") return;
    if (problem.id !== null && problem.id === this.#remembered.pending?.id) {
      this.#forgetPending();
      if (this.#current?.id === problem.id) this.#current.over = true;
    }
    this.#listener.noticed(problem);
  }

  #onEvent(event: LoggedEvent): void {
    if (event.seq <= this.#seen) return;
    this.#seen = event.seq;
    if (event.type !== "status" && event.id !== null) this.#follow(event, event.id);
    this.#listener.happened(event);
  }

  /** The execution that began last is the one to show, and what a reload shows again begins before it. */
  #follow(event: LoggedEvent, id: string): void {
    const isCurrent = id === this.#current?.id;
    if (id === this.#remembered.pending?.id) this.#forgetPending();
    const waitsForAnother = event.type === "queued" && this.#current?.over === false && !isCurrent;
    if (!waitsForAnother) {
      if (event.type === "queued" || !isCurrent) this.#keep({ place: event.seq - 1 });
      this.#begin(id);
    }
    if (event.type === "result" && this.#current) this.#current.over = true;
  }

  #begin(id: string): void {
    if (id === this.#current?.id) return;
    this.#current = { id, over: false };
    this.#listener.began(id);
  }

  #keep(changes: Partial<Remembered>): void {
    Object.assign(this.#remembered, changes);
    this.#parts.memory.save(this.#remembered);
  }

  #forgetPending(): void {
    delete this.#remembered.pending;
    this.#keep({});
  }

  #sendPending(): void {
    const { pending } = this.#remembered;
    if (pending) this.#send({ type: "execute", ...pending });
  }

  #send(frame: ClientFrame): void {
    this.#transport?.send(writeFrame(frame));
  }

  #tell(link: Link): void {
    this.#link = link;
    this.#listener.linked(link);
  }
}
