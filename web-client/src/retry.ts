/** The longest pause before the first new attempt, in milliseconds. */
const FIRST_MS = 400;
/** No pause is longer, in milliseconds. */
const CEILING_MS = 15_000;

/**
 * The pause before an attempt, in milliseconds: it doubles from one attempt to the next up to a ceiling, and half of it is
 * random, so that the clients of a server that comes back do not all come at once.
 *
 * `attempt` counts from 0; `random` is at least 0 and below 1.
 */
export function pauseBefore(attempt: number, random: number): number {
  const longest = Math.min(CEILING_MS, FIRST_MS * 2 ** Math.min(attempt, 30));
  return Math.round((longest * (1 + random)) / 2);
}
