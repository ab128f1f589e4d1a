import { expect, test } from "vitest";
import { choose } from "../../src/page/display";

test("pictures are data of an image element, with their text as description", () => {
  const png = choose({ "text/plain": "<Figure>", "image/png": "iVBO\nRw0K", "text/html": "<b>" });
  expect(png).toEqual({ kind: "image", url: "data:image/png;base64,iVBORw0K", alt: "<Figure>" });
  const svg = choose({ "image/svg+xml": "<svg onload='x'>#</svg>" });
  expect(svg).toMatchObject({ kind: "image", alt: "Picture made by the program" });
  expect(svg).toHaveProperty("url", "data:image/svg+xml;charset=utf-8,%3Csvg%20onload%3D'x'%3E%23%3C%2Fsvg%3E");
});

test("what is no base64 is not put into a URL", () => {
  expect(choose({ "image/png": 'x" onerror="y', "text/plain": "text" })).toEqual({ kind: "text", text: "text" });
  expect(choose({ "image/png": 7, "text/plain": "text" })).toEqual({ kind: "text", text: "text" });
});

test("markup is not shown as markup", () => {
  expect(choose({ "text/html": "<script>", "text/plain": "plain" })).toEqual({ kind: "text", text: "plain" });
  expect(choose({ "text/html": "<script>" })).toEqual({ kind: "text", text: "(text/html: not shown by this page)" });
  expect(choose({ "application/json": { a: 1 } })).toEqual({ kind: "text", text: '{\n  "a": 1\n}' });
});
