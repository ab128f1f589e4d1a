/** The token: taken from the link's fragment, kept for this tab alone, shown nowhere. */

import { read, write } from "./memory";

const NAME = "repltool.token";

/** What it needs of a window. */
interface Page {
  location: { hash: string; pathname: string; search: string };
  history: { replaceState(data: unknown, unused: string, url: string): void };
  sessionStorage: Storage;
}

/** Whether a text has the form of a token. */
export function isToken(text: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]+$/.test(text);
}

/** Takes the token out of the address, so that it is in no history and no screenshot, and keeps it. Null if none is there. */
export function takeFromAddress(page: Page): string | null {
  const token = new URLSearchParams(page.location.hash.slice(1)).get("token");
  if (token === null) return null;
  page.history.replaceState(null, "", page.location.pathname + page.location.search);
  keep(page.sessionStorage, token);
  return token;
}

/** The token that this tab was given before. */
export function kept(storage: Storage): string | null {
  return read(storage, NAME);
}

export function keep(storage: Storage, token: string): void {
  write(storage, NAME, token);
}
