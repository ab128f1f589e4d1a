/** The surroundings of a session: a server that is the test itself, a clock that it moves, a tab that it reloads. */

import { memory } from "../../src/memory";
import type { ClientFrame, LoggedEvent, Session as SessionInfo } from "../../src/protocol";
import { type Link, Session } from "../../src/session";
import type { TransportListener } from "../../src/transport";
import { storage } from "./storage";

export const OUTCOME = {
  execution_count: 1,
  success: true,
  result: null,
  result_text: null,
  exception: null,
  exit_code: null,
  limit: null,
  violation: null,
  truncated: false,
  state_lost: false,
  usage: { cpu_time_ms: 0, peak_memory_bytes: 0, output_bytes: 0 },
  execution_time_ms: 1,
  timestamp: "2026-04-08T10:30:05.123Z",
};

const INFO: SessionInfo = {
  session_id: "s1",
  language: "python",
  created_at: "2026-04-08T10:30:00.000Z",
  last_activity: "2026-04-08T10:30:00.000Z",
  status: "active",
  execution_state: "idle",
  resource_limits: { max_cpu_time: 30, max_memory_mb: 256, max_output_size: 1048576, max_expressions: 1000 },
  sandbox_mode: "standard",
  owner: "local",
  expression_count: 0,
  last_seq: 0,
  expires_at: null,
};

interface Socket {
  path: string;
  token: string;
  sent: ClientFrame[];
  listener: TransportListener;
  closed: boolean;
}

export class World {
  readonly storage = storage();
  readonly sockets: Socket[] = [];
  readonly links: Link[] = [];
  /** What the page was told: executions that began, events, notices. */
  readonly told: string[] = [];
  token: string | null = "a.b.c";
  session!: Session;
  #timers: { due: number; call: () => void }[] = [];
  #now = 0;
  #ids = 0;

  constructor() {
    this.load();
  }

  /** Loads the page, again if there was one. */
  load(): void {
    this.#timers = [];
    for (const socket of this.sockets) socket.closed = true;
    this.session = new Session(
      {
        language: "python",
        memory: memory(this.storage, "session"),
        connect: (path, token, listener) => this.#open(path, token, listener),
        token: () => this.token,
        after: (ms, call) => this.#after(ms, call),
        random: () => 0.5,
        newId: () => `e${++this.#ids}`,
      },
      {
        linked: (link) => this.links.push(link),
        ready: () => {},
        began: (id) => this.told.push(`began ${id}`),
        happened: (event) => this.told.push(describe(event)),
        noticed: (notice) => this.told.push(notice.type),
      },
    );
    this.session.start();
  }

  /** The socket that was opened last. */
  get socket(): Socket {
    const socket = this.sockets.at(-1);
    if (!socket) throw new Error("no socket was opened");
    return socket;
  }

  get link(): Link | undefined {
    return this.links.at(-1);
  }

  /** The server accepts the socket. */
  ready(): void {
    this.say({ type: "ready", session: INFO, last_seq: 0 });
  }

  /** The server sends a message. */
  say(frame: object): void {
    if (!this.socket.closed) this.socket.listener.message(JSON.stringify(frame));
  }

  /** The socket ends. */
  end(code: number): void {
    const { socket } = this;
    if (socket.closed) return;
    socket.closed = true;
    socket.listener.closed(code);
  }

  /** Time goes by. */
  pass(ms: number): void {
    this.#now += ms;
    const due = this.#timers.filter((timer) => timer.due <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.due > this.#now);
    for (const timer of due) timer.call();
  }

  #open(path: string, token: string, listener: TransportListener) {
    const socket: Socket = { path, token, sent: [], listener, closed: false };
    this.sockets.push(socket);
    return {
      send: (text: string) => {
        if (!socket.closed) socket.sent.push(JSON.parse(text));
      },
      close: () => {
        socket.closed = true;
      },
    };
  }

  #after(ms: number, call: () => void): () => void {
    const timer = { due: this.#now + ms, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((it) => it !== timer);
    };
  }
}

function describe(event: LoggedEvent): string {
  return event.type === "stream" ? `${event.seq} ${event.data}` : `${event.seq} ${event.type}`;
}

/** Events of an execution that prints a text for each number, from `queued` to `result`. */
export function events(id: string, first: number, texts: string[]): object[] {
  const begin = [
    { type: "queued", id },
    { type: "started", id, execution_count: 1, timestamp: OUTCOME.timestamp },
  ];
  const middle = texts.map((data) => ({ type: "stream", id, stream: "stdout", data }));
  return [...begin, ...middle, { type: "result", id, ...OUTCOME }].map((event, index) => ({
    ...event,
    seq: first + index,
  }));
}
