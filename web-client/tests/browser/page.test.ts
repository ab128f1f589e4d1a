/** The page itself: large outputs, small screens, keyboard and names. */

import { Cell, expect, test, withRoom } from "./fixture";

test("10 MiB of output leave the page responsive, and its memory bounded", async ({ page, server }) => {
  await withRoom(page, server);
  await page.evaluate(() => {
    let last = performance.now();
    Object.assign(window, { longestMs: 0 });
    setInterval(() => {
      const now = performance.now();
      Object.assign(window, { longestMs: Math.max(Reflect.get(window, "longestMs"), now - last) });
      last = now;
    }, 10);
  });
  const cell = new Cell(page, "python");
  const other = new Cell(page, "bash");
  await cell.run("for n in range(103_000): print(f'{n:>99}')\n'end'");
  await cell.sees("Running…");
  await other.code.fill("typed meanwhile");
  await cell.ended();
  await cell.output.getByText("102999", { exact: false }).last().waitFor();
  const shown = await cell.printed();
  expect(shown).toMatch(/^The beginning of this output is no longer shown here/);
  expect(shown.endsWith(`${"102999".padStart(99)}\n`)).toBe(true);
  expect(shown.length).toBeGreaterThan(3 << 20);
  expect(shown.length).toBeLessThan(5 << 20);
  const numbers = shown.trim().split("\n").slice(1).map(Number);
  expect(numbers.findIndex((number, index) => index > 0 && number !== (numbers[index - 1] ?? 0) + 1)).toBe(-1);
  // Without bounds on what a frame does it stands still for many seconds.
  expect(await page.evaluate(() => Reflect.get(window, "longestMs"))).toBeLessThan(1500);
});

test("the reader is taken along with the output, but not out of what is being read", async ({ page }) => {
  const cell = new Cell(page, "bash");
  const place = () => cell.output.evaluate((it) => Math.round(it.scrollHeight - it.scrollTop - it.clientHeight));
  await cell.run("seq 500; read; seq 500; read; seq 500");
  await cell.sees("500");
  await cell.printed();
  expect(await place()).toBeLessThan(5);
  await cell.output.evaluate((it) => it.scrollTo(0, 50));
  await cell.button("Type input").click();
  await cell.button("Send").click();
  await expect.poll(async () => (await cell.printed()).match(/^500$/gm)?.length).toBe(2);
  expect(await cell.output.evaluate((it) => it.scrollTop)).toBe(50);
  await cell.button("Send").click();
  await cell.ended();
});

test("nothing runs out of a small screen", async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  const cell = new Cell(page, "python");
  await cell.run(
    `print("x" * 500, "\\n" * 3, "word " * 100)\ninput("a question that is rather long for so small a screen? ")`,
  );
  await cell.sees("a question that is rather long");
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
});

test("all can be reached by keyboard in the order of the page, and everything has a name", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.runToEnd("print(1)");
  const names: string[] = [];
  await page.evaluate(() => document.body.focus());
  await page.locator("h1").click();
  for (let n = 0; n < 20 && !names.includes("JavaScript code"); n++) {
    await page.keyboard.press("Tab");
    names.push(
      await page.evaluate(() => {
        const it = document.activeElement;
        const label = it instanceof HTMLTextAreaElement ? it.labels[0]?.textContent : it?.getAttribute("aria-label");
        return (label ?? it?.textContent ?? "").split(";")[0] ?? "";
      }),
    );
  }
  expect(names).toEqual([
    "API reference",
    "Start a new session",
    "Python code",
    "Run",
    "Restart",
    "Output of Python",
    "JavaScript code",
  ]);
  const unnamed = page.locator("button:not(:has-text(''))");
  expect(await unnamed.count()).toBe(0);
});

test("the page is dark where that is preferred", async ({ page }) => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  expect([light, await ground()]).toEqual(["rgb(246, 247, 249)", "rgb(20, 24, 30)"]);
});

test("the description of the API can be browsed", async ({ page }) => {
  await page.getByRole("link", { name: "API reference" }).click();
  await page.getByText("/api/v1/sessions/{id}/execute").first().waitFor();
});
