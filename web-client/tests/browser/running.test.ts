/** Running code: what each language prints and answers, live, and how a run is ended. */

import { Cell, expect, test } from "./fixture";

test("python prints while it runs and ends with a value", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.run("print('first line')\nprint('second', input('go on? '))\n{'a': [1, 2]}");
  await cell.sees("first line");
  await cell.root.getByLabel("go on?").fill("yes");
  await cell.root.getByLabel("go on?").press("Enter");
  await cell.ended();
  expect(await cell.printed()).toBe("first line\ngo on? yes\nsecond yes\n");
  expect(await cell.root.locator(".value").textContent()).toBe("{'a': [1, 2]}");
  expect(await cell.root.locator(".figures").textContent()).toMatch(/^\[1\].*\d+ ms|\d s · CPU .* memory$/);
});

test("javascript and bash run beside it, each in a session of its own", async ({ page }) => {
  const [javascript, bash] = [new Cell(page, "javascript"), new Cell(page, "bash")];
  await javascript.run("const x = await Promise.resolve(41); console.log('js'); x + 1");
  await bash.code.fill("x=5; echo $((x + 1)); echo wrong >&2; false");
  await bash.code.press("Control+Enter");
  await Promise.all([javascript.ended(), bash.ended()]);
  expect([await javascript.printed(), await bash.printed()]).toEqual(["js\n", "6\nwrong\n"]);
  expect(await javascript.root.locator(".value").textContent()).toBe("42");
  expect(await bash.output.locator(".stderr").textContent()).toBe("wrong\n");
  await bash.sees("Exit code 1.");
  expect(await bash.root.locator(".state").textContent()).toBe("Failed");
});

test("an interrupt ends an endless loop and keeps the variables", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.run("x = 41\nprint('loops')\nwhile True: pass");
  await cell.sees("loops");
  await cell.button("Interrupt").click();
  await cell.ended();
  await cell.sees(/KeyboardInterrupt/);
  await cell.runToEnd("x + 1");
  expect(await cell.root.locator(".value").textContent()).toBe("42");
  expect(await cell.root.locator(".count").textContent()).toBe("[2]");
});

test("a restart gives a fresh interpreter", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.runToEnd("x = 1");
  await cell.button("Restart").click();
  await cell.sees(/was restarted: variables are gone/);
  await cell.runToEnd("x");
  await cell.sees(/NameError/);
});

test("a password is hidden while it is typed and is shown nowhere", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.run("import getpass\nprint(len(getpass.getpass('secret: ')))");
  const field = cell.root.getByLabel("secret:");
  await field.fill("hunter2");
  expect(await field.getAttribute("type")).toBe("password");
  await field.press("Enter");
  await cell.ended();
  expect(await cell.printed()).toBe("secret: \n7\n");
});

test("a program that reads without asking gets a line and the end of its input", async ({ page }) => {
  const cell = new Cell(page, "bash");
  await cell.run('read -r line; echo "got $line"; cat; echo over');
  await cell.button("Type input for the program").click();
  await cell.root.getByLabel("Input for the program").fill("Ada");
  await cell.button("Send").click();
  await cell.sees("got Ada");
  await cell.button("End of input").click();
  await cell.ended();
  expect(await cell.printed()).toBe("Ada\ngot Ada\nover\n");
});

test("pictures are shown as pictures", async ({ page }) => {
  const cell = new Cell(page, "python");
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAYAAAD0In+KAAAAEUlEQVR4nGNgYGD4D8VQBgAX5gP9o4LbRQAAAABJRU5ErkJggg==";
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"><script>parent.stolen = 1</script></svg>';
  await cell.runToEnd(
    `print('before')\ndisplay({'image/png': '${png}'}, raw=True)\ndisplay({'image/svg+xml': '${svg}'}, raw=True)\nprint('after')`,
  );
  const images = cell.output.locator("img");
  await images.nth(1).waitFor();
  const widths = await images.evaluateAll((found) =>
    Promise.all(
      found.map(async (it) => (it instanceof HTMLImageElement ? it.decode().then(() => it.naturalWidth) : 0)),
    ),
  );
  expect(widths).toEqual([2, 7]);
  expect(await cell.printed()).toBe("before\nafter\n");
  expect(await page.evaluate(() => "stolen" in window)).toBe(false);
});

test("colours are shown, markup of a program is text", async ({ page }) => {
  const cell = new Cell(page, "python");
  const markup = "<img src=x onerror='parent.stolen=1'><style>*{display:none}</style>";
  await cell.runToEnd(`print("\\x1b[31mred\\x1b[0m \\x1b[38;2;1;2;3mtrue\\x1b[0m ${markup}")\n"""${markup}"""`);
  expect(await cell.printed()).toBe(`red true ${markup}\n`);
  expect(await cell.output.locator(".ansi-red-fg").textContent()).toBe("red");
  const colour = (element: Element) => getComputedStyle(element).color;
  expect(await cell.output.getByText("true", { exact: true }).evaluate(colour)).toBe("rgb(1, 2, 3)");
  expect(
    await page.evaluate(() => [document.querySelectorAll("#page img, #page style").length, "stolen" in window]),
  ).toEqual([0, false]);
});

test("a limit is named, and so is the loss of the interpreter", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.runToEnd("print('before'); x = b'.' * (400 << 20)");
  expect(await cell.printed()).toContain("before\n");
  await cell.sees("Ended by the limit on memory.");
  await cell.runToEnd("while True: print('x' * 1000)");
  await cell.sees("Ended by the limit on output.");
  await cell.sees("The output is cut; what came before is kept.");
});

test("a traceback is shown", async ({ page }) => {
  const cell = new Cell(page, "python");
  await cell.runToEnd("def f():\n    return 1 / 0\nf()");
  expect(await cell.root.locator(".traceback").textContent()).toMatch(/^Traceback.*line 2, in f.*ZeroDivisionError/s);
});

test("a refused request says why", async ({ page }) => {
  const cell = new Cell(page, "bash");
  await cell.runToEnd("echo one");
  await cell.code.evaluate((area) => {
    if (area instanceof HTMLTextAreaElement) area.value = "echo a\0b";
  });
  await cell.button("Run").click();
  await cell.sees(/^Not done: .*NUL/);
  await cell.runToEnd("echo two");
  expect(await cell.printed()).toBe("two\n");
});
