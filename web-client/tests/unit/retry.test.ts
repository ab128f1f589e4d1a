import { expect, test } from "vitest";
import { pauseBefore } from "../../src/retry";

const ATTEMPTS = Array.from({ length: 40 }, (_, attempt) => attempt);

test("pauses grow up to a ceiling and stay there", () => {
  const longest = ATTEMPTS.map((attempt) => pauseBefore(attempt, 0.999999));
  expect(longest).toEqual(longest.toSorted((a, b) => a - b));
  expect(longest[0]).toBeLessThanOrEqual(500);
  expect(new Set(longest.slice(8))).toEqual(new Set([15_000]));
});

test("half of a pause is random", () => {
  for (const attempt of ATTEMPTS) {
    const [least, most] = [pauseBefore(attempt, 0), pauseBefore(attempt, 0.999999)];
    expect(least).toBeGreaterThan(0);
    expect(Math.abs(most - 2 * least)).toBeLessThanOrEqual(1);
    expect(pauseBefore(attempt, 0.5)).toBe((least + most) / 2);
  }
});

test("an endless number of attempts is no fault", () => {
  expect(pauseBefore(1e9, 0.5)).toBe(11_250);
});
