/** The page that shows the API: what can be asked, and what the server answers when it is asked from there. */

import { expect, test } from "./fixture";

/** The page is a large program: on a busy machine it takes its time to start. */
const START_MS = 120_000;

test("a request can be tried on the page that shows the API, and the token is forgotten with it", {
  timeout: 3 * START_MS,
}, async ({ page, server }) => {
  await page.goto(`${server.url}/docs`, { waitUntil: "commit" });
  const create = page.locator("#operations-sessions-createSession");
  await create.getByText("Create a session").waitFor({ timeout: START_MS });
  expect(await page.locator(".opblock").count()).toBeGreaterThan(20);

  await page.getByRole("button", { name: "Authorize", exact: true }).click();
  const dialog = page.locator(".modal-ux");
  await dialog.locator("input").fill(server.token);
  await dialog.getByRole("button", { name: "Apply credentials" }).click();
  await dialog.getByRole("button", { name: "Close", exact: true }).click();

  await create.locator(".opblock-summary-control").click();
  await create.getByRole("button", { name: "Try it out" }).click();
  await create.getByRole("button", { name: "Execute" }).click();
  const answer = create.locator(".live-responses-table .response");
  await answer.getByText('"session_id"').first().waitFor();
  expect(await answer.locator(".response-col_status").textContent()).toContain("201");

  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain(server.token);
  await page.reload({ waitUntil: "commit" });
  await create.getByText("Create a session").waitFor({ timeout: START_MS });
  expect(await page.locator(".authorization__btn.locked").count()).toBe(0);
});
