/**
 * A page in a real browser, at the link that a server prints. Every test ends with the same questions: did the page ask
 * another origin for anything, did it break its policy, did it report an error?
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from "playwright-core";
import { test as base, expect } from "vitest";
import { Server } from "./server";

/** How long anything may take to be seen, in milliseconds; the machine may be busy with other tests. */
const PATIENCE_MS = 20_000;

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export type Language = "python" | "javascript" | "bash";

interface Fixtures {
  settings: Record<string, string>;
  /** What a page did that a well-behaved one does not do. */
  faults: string[];
  server: Server;
  browser: Browser;
  /** Console messages that a test provokes on purpose. */
  expected: { patterns: RegExp[] };
  page: Page;
}

export const test = base.extend<Fixtures>({
  settings: {},
  expected: { patterns: [] },
  // Asked for by the server, so that it is the last to be torn down: whatever it finds, nothing is left running.
  faults: async ({ expected }, use) => {
    const faults: string[] = [];
    await use(faults);
    expect(faults.filter((fault) => !expected.patterns.some((pattern) => pattern.test(fault)))).toEqual([]);
  },
  server: async ({ settings, faults: _ }, use) => {
    const server = await Server.start(settings);
    await use(server);
    await server.remove();
  },
  browser: [
    // biome-ignore lint/correctness/noEmptyPattern: the form that a fixture without others has
    async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), "repltool-browser-"));
      const env = { ...process.env, TMPDIR: folder, HOME: folder };
      const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ARGUMENTS, env });
      await use(browser);
      await browser.close();
      await rm(folder, { recursive: true, force: true });
    },
    { scope: "worker" },
  ],
  page: async ({ browser, server, faults }, use) => {
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    watch(context, server, faults);
    try {
      const page = await context.newPage();
      await page.goto(server.link);
      await use(page);
    } finally {
      await context.close().catch((error) => faults.push(`not closed: ${error}`));
    }
  },
});

/** Notes whatever a well-behaved page does not do. */
function watch(context: BrowserContext, server: Server, faults: string[]): void {
  const { host } = new URL(server.url);
  const look = (url: string) => {
    const { protocol, host: asked } = new URL(url);
    if (protocol !== "data:" && protocol !== "blob:" && asked !== host) faults.push(`request to ${url}`);
  };
  context.on("request", (request) => look(request.url()));
  context.on("weberror", (error) => faults.push(`error: ${error.error()}`));
  context.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  context.on("page", (page) => page.on("websocket", (socket) => look(socket.url())));
}

/** Gives the Python cell a session that may print 10 MiB at a time. */
export async function withRoom(page: Page, server: Server): Promise<void> {
  const resource_limits = { max_output_size: 10 << 20 };
  const created = await server.ask("POST", "/api/v1/sessions", { language: "python", resource_limits });
  const remembered = JSON.stringify({ id: Reflect.get(Object(created), "session_id"), place: 0, answered: 0 });
  await page.evaluate((text) => sessionStorage.setItem("repltool.session.python", text), remembered);
  await page.reload();
}

/** The cell of a language. */
export class Cell {
  readonly root: Locator;
  readonly output: Locator;
  readonly code: Locator;

  constructor(page: Page, language: Language) {
    this.root = page.locator(`[data-language=${language}]`);
    this.output = this.root.getByRole("log");
    this.code = this.root.locator("textarea");
  }

  /** Types code and runs it. */
  async run(code: string): Promise<void> {
    await this.code.fill(code);
    await this.code.press("Shift+Enter");
  }

  /** Runs code and waits for its end. */
  async runToEnd(code: string): Promise<void> {
    await this.run(code);
    await this.ended();
  }

  async ended(): Promise<void> {
    await this.root.locator('.state[data-state="over"]').waitFor();
  }

  button(name: string): Locator {
    return this.root.getByRole("button", { name });
  }

  /** Waits until a text can be seen in the cell. */
  async sees(text: string | RegExp): Promise<void> {
    await this.root.getByText(text).first().waitFor();
  }

  /** What the program printed, once it has been put on the page. */
  async printed(): Promise<string> {
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    await this.root.page().evaluate(frame);
    return (await this.output.textContent()) ?? "";
  }
}

export { expect, Server };
