/** The token: from the link into the tab, and nowhere else; and what happens when it is not taken. */

import { Cell, expect, test } from "./fixture";

const WRONG = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJsb2NhbCIsImV4cCI6NDEwMjQ0NDgwMH0.AAAA";

test("the token leaves the address at once and outlives a reload", async ({ page, server }) => {
  expect(page.url()).toBe(`${server.url}/`);
  await page.reload();
  const cell = new Cell(page, "bash");
  await cell.runToEnd("echo works");
  expect(await cell.printed()).toBe("works\n");
  expect(await page.content()).not.toContain(server.token);
  expect(await page.evaluate(() => document.cookie + JSON.stringify(localStorage))).toBe("{}");
  await page.goBack();
  expect(page.url()).not.toContain("token");
});

test("without a token the page asks for one and says where it is to be had", async ({ page, server }) => {
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByText("repltool serve").waitFor();
  const cell = new Cell(page, "bash");
  expect(await cell.button("Run").isDisabled()).toBe(true);
  await page.getByLabel("Token").fill("no token");
  await page.keyboard.press("Enter");
  await page.getByText("This is not a token").waitFor();
  await page.getByLabel("Token").fill(server.link);
  await page.getByRole("button", { name: "Use this token" }).click();
  await cell.runToEnd("echo works");
  expect(await page.getByLabel("Token").count()).toBe(0);
});

test("a wrong token is explained, and a right one takes its place", async ({ page, server }) => {
  await page.goto(`${server.url}/#token=${WRONG}`);
  await page.waitForFunction(() => location.hash === "");
  const cell = new Cell(page, "python");
  await cell.run("40 + 2");
  await page.getByText(/does not accept the token: it is wrong, it has expired/).waitFor();
  await page.getByLabel("Token").fill(server.token);
  await page.keyboard.press("Enter");
  await cell.ended();
  expect(await cell.root.locator(".value").textContent()).toBe("42");
});

test.extend({ settings: { REPLTOOL_AUTH__LEEWAY_S: "0" } })(
  "a token that expires in the middle of a run is asked for, and the run goes on",
  async ({ page, server }) => {
    const cell = new Cell(page, "python");
    const short = await server.signedToken("2s");
    await page.evaluate((token) => {
      location.hash = `#token=${token}`;
    }, short);
    await cell.run("import time\nfor n in range(8):\n    print(n)\n    time.sleep(0.5)");
    await page.getByText(/does not accept the token/).waitFor();
    expect(await cell.root.locator(".state").textContent()).not.toBe("Done");
    await page.getByLabel("Token").fill(server.token);
    await page.keyboard.press("Enter");
    await cell.ended();
    expect(await cell.printed()).toBe("0\n1\n2\n3\n4\n5\n6\n7\n");
  },
);
