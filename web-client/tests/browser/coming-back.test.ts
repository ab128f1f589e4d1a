/** A session outlives the page and the connection: nothing is missing afterwards, and nothing is there twice. */

import { Cell, expect, test, withRoom } from "./fixture";

const LINES = 60;
/** Prints a number every 50 ms, then a value that depends on what was there before. */
const COUNTING = `import time\nfor n in range(${LINES}):\n    print("line", n)\n    time.sleep(0.05)\nx = 41\nx + 1`;
const ALL = Array.from({ length: LINES }, (_, n) => `line ${n}\n`).join("");

test("a reload in the middle of a run shows every line once and goes on", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.run(COUNTING);
  for (const seen of ["line 5", "line 20"]) {
    await cell.sees(seen);
    await page.reload();
    expect(await cell.code.inputValue()).toBe(COUNTING);
  }
  await cell.ended();
  expect(await cell.printed()).toBe(ALL);
  expect(await cell.root.locator(".value").textContent()).toBe("42");
  await page.reload();
  await cell.ended();
  expect(await cell.printed()).toBe(ALL);
  await cell.runToEnd("x");
  expect([await cell.printed(), await cell.root.locator(".value").textContent()]).toEqual(["", "41"]);
});

test("a gateway that is killed in the middle of a run costs nothing", async ({ page, server }) => {
  const cell = new Cell(page, "python");
  await cell.run(COUNTING);
  await cell.sees("line 5");
  await server.killGateway();
  await cell.sees(/^Connection lost\. Trying again/);
  await cell.sees("Connected");
  await cell.ended();
  expect(await cell.printed()).toBe(ALL);
  expect(await cell.root.locator(".value").textContent()).toBe("42");
});

test("what is typed while the connection is lost is run once it is back", async ({ page, server }) => {
  const cell = new Cell(page, "bash");
  await cell.runToEnd("n=0");
  await page.evaluate(() => {
    const send = WebSocket.prototype.send;
    // The message leaves the page and never arrives.
    WebSocket.prototype.send = function (data) {
      if (!String(data).includes('"execute"')) send.call(this, data);
    };
    Object.assign(window, { mend: () => Object.assign(WebSocket.prototype, { send }) });
  });
  await cell.run("echo $((n += 1))");
  await cell.sees("Sending…");
  await page.evaluate(() => Reflect.get(window, "mend")());
  await server.killGateway();
  await cell.ended();
  expect(await cell.printed()).toBe("1\n");
  await cell.runToEnd("echo $n");
  expect(await cell.printed()).toBe("1\n");
});

test.extend({ expected: { patterns: [/^WebSocket connection to .* failed/] } })(
  "a server that is stopped and started again is found again, and says what is lost",
  async ({ page, server }) => {
    const cell = new Cell(page, "python");
    await cell.runToEnd("print('kept'); x = 1");
    await server.stop();
    await cell.sees(/^Connection lost\. Trying again/);
    await server.startAgain();
    await cell.sees("Connected");
    await cell.sees(/server went down and came back/);
    expect(await cell.printed()).toMatch(/^kept\n/);
    await cell.runToEnd("print('fresh', 'x' in globals())");
    expect(await cell.printed()).toMatch(/fresh False\n$/);
  },
);

test("a session that is gone is said to be so, and a new one is offered", async ({ page, server }) => {
  const cell = new Cell(page, "python");
  await cell.runToEnd("x = 1");
  const { id } = JSON.parse(await page.evaluate(() => sessionStorage.getItem("repltool.session.python") ?? ""));
  await page.goto("about:blank");
  await server.ask("DELETE", `/api/v1/sessions/${id}`);
  await page.goto(server.url);
  await cell.sees("The session is gone.");
  expect(await cell.button("Run").isDisabled()).toBe(true);
  await cell.button("Start a new session").click();
  await cell.runToEnd("'x' in globals()");
  expect(await cell.root.locator(".value").textContent()).toBe("False");
  await cell.button("Start a new session").click();
  await cell.sees("No session yet. The first run makes one.");
  await expect.poll(() => server.ask("GET", "/api/v1/sessions")).toMatchObject({ total: 0 });
});

test.extend({ settings: { REPLTOOL_SESSIONS__IDLE_TIMEOUT_S: "2", REPLTOOL_SESSIONS__IDLE_AFTER_S: "1" } })(
  "a session that ends by its idle timeout is said to have",
  async ({ page }) => {
    const cell = new Cell(page, "bash");
    await cell.runToEnd("echo kept");
    await cell.sees("The session was not used for its idle timeout and has ended.");
    expect(await cell.printed()).toMatch(/^kept\n/);
    await cell.button("Start a new session").click();
    await cell.runToEnd("echo again");
    expect(await cell.printed()).toBe("again\n");
  },
);

test.extend({ settings: { REPLTOOL_STORE__SESSION_MB: "1" } })(
  "what the server no longer keeps is said to be missing, and the run goes on",
  async ({ page, server }) => {
    await withRoom(page, server);
    const cell = new Cell(page, "python");
    await cell.run("for n in range(30_000): print(f'{n:>99}')\ninput('more? ')\nprint('the end')");
    await cell.root.getByLabel("more?").waitFor();
    await page.reload();
    await cell.sees("A part of the output is no longer kept by the server.");
    await cell.root.getByLabel("more?").fill("yes");
    expect(await cell.root.locator(".state").textContent()).toBe("Waits for input");
    await cell.button("Send").click();
    await cell.ended();
    expect(await cell.printed()).toMatch(/ 29998\n +29999\nmore\? yes\nthe end\n$/);
  },
);

test("an answered question is not asked again after a reload", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.run("import time\nname = input('name? ')\nprint('thanks')\ntime.sleep(60)");
  await page.reload();
  await cell.root.getByLabel("name?").fill("Ada");
  await cell.button("Send").click();
  await cell.sees("thanks");
  await page.reload();
  await cell.sees("thanks");
  expect(await cell.root.getByLabel("name?").count()).toBe(0);
  await cell.button("Interrupt").click();
  await cell.ended();
});
