/** What outlives a reload of the page, in the tab's own storage. */

/** Where a cell stands in the log of its session. */
export interface Remembered {
  /** The session; null before the server has made one. */
  id: string | null;
  /** The last event before the execution that is shown. */
  place: number;
  /** The last question of a program that was answered here. */
  answered: number;
  /** An execution that the server has not confirmed. */
  pending?: { id: string; code: string };
}

/** One cell's share of the storage. */
export interface Memory {
  load(): Remembered | null;
  save(remembered: Remembered | null): void;
}

/** A memory under one name. Storage that is full forgets; the page works all the same. */
export function memory(storage: Storage, name: string): Memory {
  return {
    load: () => parse(read(storage, name)),
    save: (remembered) => write(storage, name, remembered && JSON.stringify(remembered)),
  };
}

/** The text under a name, if there is one. */
export function read(storage: Storage, name: string): string | null {
  try {
    return storage.getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a text under a name; null forgets it. */
export function write(storage: Storage, name: string, text: string | null): void {
  try {
    if (text === null) storage.removeItem(name);
    else storage.setItem(name, text);
  } catch {
    // What cannot be kept is not there after a reload.
  }
}

function parse(text: string | null): Remembered | null {
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isRemembered(value) ? value : null;
  } catch {
    return null;
  }
}

function isRemembered(value: unknown): value is Remembered {
  if (typeof value !== "object" || value === null) return false;
  const fields = { id: undefined, place: undefined, answered: undefined, pending: undefined, ...value };
  const { id, place, answered, pending } = fields;
  const isName = id === null || (typeof id === "string" && /^[\w-]+$/.test(id));
  return isName && Number.isSafeInteger(place) && Number.isSafeInteger(answered) && isPending(pending);
}

function isPending(value: unknown): boolean {
  if (value === undefined) return true;
  const fields = { id: undefined, code: undefined, ...Object(value) };
  return typeof fields.id === "string" && typeof fields.code === "string";
}
