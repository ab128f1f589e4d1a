/** A server of its own for each test, with a data directory that goes with it. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const BINARY = resolve(process.env.REPLTOOL_BIN ?? join(import.meta.dirname, "../../../target/release/repltool"));

export class Server {
  /** The link for a browser, token and all. */
  link = "";
  readonly #folder: string;
  readonly #settings: Record<string, string>;
  #process: ChildProcess | null = null;

  private constructor(folder: string, settings: Record<string, string>) {
    this.#folder = folder;
    this.#settings = settings;
  }

  /** `settings` are variables of its environment. */
  static async start(settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "repltool-page-")), settings);
    try {
      await server.#serve("127.0.0.1:0");
    } catch (error) {
      await server.remove();
      throw error;
    }
    return server;
  }

  get url(): string {
    return new URL(this.link).origin;
  }

  get token(): string {
    return this.link.slice(this.link.indexOf("#token=") + "#token=".length);
  }

  /** Another token for the same user. */
  async signedToken(ttl: string): Promise<string> {
    const args = ["token", "--subject", "local", "--scope", "tool:execute", "--ttl", ttl, "--data-dir", this.#data];
    const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
    });
    await once(child, "close");
    return text.trim();
  }

  /** A request over REST; the answer's body. */
  async ask(method: string, path: string, body?: object): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const response = await fetch(this.url + path, { method, headers, body: body ? JSON.stringify(body) : null });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? null : response.json();
  }

  /** Ends the process that faces the network as a crash would. */
  async killGateway(): Promise<void> {
    const parent = this.#process?.pid;
    const tasks = await readdir(`/proc/${parent}/task`);
    const lists = await Promise.all(tasks.map((task) => readFile(`/proc/${parent}/task/${task}/children`, "utf8")));
    for (const child of lists.join(" ").split(/\s+/).filter(Boolean)) {
      const [, argument] = (await readFile(`/proc/${child}/cmdline`, "utf8")).split("\0");
      if (argument === "gateway") {
        process.kill(Number(child), "SIGKILL");
        return;
      }
    }
    throw new Error("the server has no gateway");
  }

  /** Stops the server as an operator does. */
  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null) return;
    const closed = once(child, "close");
    child.kill("SIGTERM");
    await closed;
  }

  /** Starts it again, at the same address. */
  async startAgain(): Promise<void> {
    await this.#serve(new URL(this.link).host);
  }

  /** Stops it for good and removes what it kept. */
  async remove(): Promise<void> {
    await this.stop();
    await rm(this.#folder, { recursive: true });
  }

  get #data(): string {
    return join(this.#folder, "data");
  }

  async #serve(listen: string): Promise<void> {
    const child = spawn(BINARY, ["serve", "--listen", listen, "--data-dir", this.#data], {
      // What still runs at the end of a test is not waited for.
      env: {
        ...process.env,
        REPLTOOL_EDGE__DRAIN_S: "1",
        REPLTOOL_EDGE__METRICS_ADDR: "127.0.0.1:0",
        ...this.#settings,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let log = "";
    child.stderr.on("data", (chunk) => {
      log += chunk;
    });
    const lines = createInterface({ input: child.stdout });
    const [link] = await Promise.race([once(lines, "line"), once(child, "close").then(() => [""])]);
    if (!link) throw new Error(`the server did not start: ${log}`);
    this.link = link;
  }
}
