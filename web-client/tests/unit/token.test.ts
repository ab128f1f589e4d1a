import { expect, test } from "vitest";
import { isToken, kept, takeFromAddress } from "../../src/token";
import { storage } from "./storage";

test("the token leaves the address and stays in the tab", () => {
  const sessionStorage = storage();
  const replaced: unknown[] = [];
  const page = {
    location: { hash: "#token=a.b.c", pathname: "/", search: "?x=1" },
    history: { replaceState: (...args: unknown[]) => replaced.push(args) },
    sessionStorage,
  };
  expect(takeFromAddress(page)).toBe("a.b.c");
  expect(replaced).toEqual([[null, "", "/?x=1"]]);
  expect(kept(sessionStorage)).toBe("a.b.c");
});

test("another fragment is left alone", () => {
  const page = {
    location: { hash: "#top", pathname: "/", search: "" },
    history: { replaceState: () => expect.fail("the address was changed") },
    sessionStorage: storage(),
  };
  expect(takeFromAddress(page)).toBeNull();
});

test("a token has three parts", () => {
  expect(isToken("eyJ0.eyJz-_.x9")).toBe(true);
  for (const text of ["", "a.b", "a.b.c.d", "a.b.c d", "a.b,c.d", "a..c"]) expect(isToken(text), text).toBe(false);
});
