/**
 * The output of one execution. Whatever arrives is gathered and put on the page once a frame, a bounded amount each
 * time; text is kept in blocks that the browser need not lay out while they are out of sight; and beyond a ceiling the
 * oldest blocks go.
 */

import type { StreamName } from "../protocol";
import { Ansi, type Piece } from "./ansi";
import { choose } from "./display";

/** What is shown at most, in characters. */
export const KEPT_CHARS = 4 << 20;
/** What is put on the page in one frame at most, in characters. */
const FRAME_CHARS = 256 << 10;
/** A block is closed at the first line end after so many characters … */
const BLOCK_CHARS = 16 << 10;
/** … and in any case after so many. */
const BLOCK_CHARS_MAX = 64 << 10;
/** Every piece counts as so many characters more, since it is a node of the page. */
const NODE_CHARS = 32;
/** How near to its end, in pixels, the reader must be to be taken along. */
const NEAR_PX = 24;

/** Whose text it is: the program's, or the user's own answer to it. */
export type Voice = StreamName | "typed";

/** Text of a voice, or anything else that is a node of its own. */
type Content = { voice: Voice; text: string } | { make: () => Node };
type Item = { chars: number; content: Content };

export class Output {
  readonly #root: HTMLElement;
  readonly #schedule: (call: () => void) => void;
  #queue: Item[] = [];
  #queuedChars = 0;
  #blocks: { element: HTMLElement; chars: number }[] = [];
  #open = false;
  #shownChars = 0;
  #dropped = false;
  #scheduled = false;
  #note: HTMLElement | null = null;
  #colours = new Map<Voice, Ansi>();

  /** `schedule` calls back before the next frame. */
  constructor(root: HTMLElement, schedule: (call: () => void) => void) {
    this.#root = root;
    this.#schedule = schedule;
  }

  /** Forgets everything. */
  clear(): void {
    this.#queue = [];
    this.#queuedChars = 0;
    this.#blocks = [];
    this.#open = false;
    this.#shownChars = 0;
    this.#dropped = false;
    this.#note = null;
    this.#colours.clear();
    this.#root.replaceChildren();
  }

  /** Adds text. */
  text(voice: Voice, text: string): void {
    const last = this.#queue.at(-1);
    if (last && "voice" in last.content && last.content.voice === voice && last.chars + text.length <= BLOCK_CHARS) {
      last.content.text += text;
      last.chars += text.length;
      this.#queuedChars += text.length;
      return;
    }
    this.#push(text.length, { voice, text });
  }

  /** Adds a rich output. */
  display(data: Readonly<Record<string, unknown>>): void {
    const shown = choose(data);
    if (shown.kind === "text") this.#push(shown.text.length, { make: () => line(shown.text, "display") });
    else this.#push(shown.url.length, { make: () => picture(shown.url, shown.alt) });
  }

  /** Adds a word of the page's own. */
  note(text: string): void {
    this.#push(text.length, { make: () => line(text, "note") });
  }

  #push(length: number, content: Content): void {
    const chars = length + NODE_CHARS;
    this.#queue.push({ chars, content });
    this.#queuedChars += chars;
    // No frame comes while the page is hidden; what would be dropped then is dropped now.
    while (this.#queuedChars > KEPT_CHARS && this.#queue.length > 1) {
      const dropped = this.#queue.shift();
      this.#queuedChars -= dropped?.chars ?? 0;
      this.#dropped = true;
    }
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#schedule(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const root = this.#root;
    const follows = root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_PX;
    for (let chars = 0; chars < FRAME_CHARS; ) {
      const item = this.#queue.shift();
      if (item === undefined) break;
      chars += item.chars;
      this.#queuedChars -= item.chars;
      this.#put(item);
    }
    this.#shed();
    if (follows) root.scrollTop = root.scrollHeight;
    if (this.#queue.length === 0) return;
    this.#scheduled = true;
    this.#schedule(() => this.#flush());
  }

  #put({ chars, content }: Item): void {
    if ("voice" in content) {
      this.#putText(content.voice, content.text);
      return;
    }
    const element = document.createElement("div");
    element.append(content.make());
    this.#add(element, chars);
    this.#open = false;
  }

  #putText(voice: Voice, text: string): void {
    for (const piece of this.#ansi(voice).read(text)) {
      let rest = piece.text;
      while (rest !== "") {
        const block = this.#block();
        const length = cut(rest, block.chars);
        block.element.append(node({ ...piece, text: rest.slice(0, length) }, voice));
        block.chars += length + NODE_CHARS;
        this.#shownChars += length + NODE_CHARS;
        this.#open = block.chars < BLOCK_CHARS || (rest.charAt(length - 1) !== "\n" && block.chars < BLOCK_CHARS_MAX);
        if (!this.#open) block.element.classList.add("full");
        rest = rest.slice(length);
      }
    }
  }

  #ansi(voice: Voice): Ansi {
    const known = this.#colours.get(voice);
    if (known) return known;
    const made = new Ansi();
    this.#colours.set(voice, made);
    return made;
  }

  #block(): { element: HTMLElement; chars: number } {
    const last = this.#blocks.at(-1);
    if (this.#open && last) return last;
    const element = document.createElement("div");
    element.className = "text";
    this.#open = true;
    return this.#add(element, 0);
  }

  #add(element: HTMLElement, chars: number): { element: HTMLElement; chars: number } {
    const block = { element, chars };
    this.#blocks.push(block);
    this.#shownChars += chars;
    this.#root.append(element);
    return block;
  }

  /** Drops the oldest blocks beyond the ceiling, and says so. */
  #shed(): void {
    while (this.#shownChars > KEPT_CHARS && this.#blocks.length > 1) {
      const oldest = this.#blocks.shift();
      oldest?.element.remove();
      this.#shownChars -= oldest?.chars ?? 0;
      this.#dropped = true;
    }
    if (!this.#dropped || this.#note) return;
    this.#note = line("The beginning of this output is no longer shown here: it is too long.", "note");
    this.#root.prepend(this.#note);
  }
}

/** How much of a text goes into a block: up to the first line end past its size, at most up to its largest size. */
function cut(text: string, used: number): number {
  const size = Math.max(0, BLOCK_CHARS - used);
  const largest = Math.max(1, BLOCK_CHARS_MAX - used);
  if (text.length <= size) return text.length;
  const end = text.indexOf("\n", size);
  const length = end < 0 ? text.length : end + 1;
  if (length <= largest) return length;
  // A character of two halves stays whole.
  const isHalf = /[\uD800-\uDBFF]/.test(text.charAt(largest - 1));
  if (!isHalf) return largest;
  return largest > 1 ? largest - 1 : 2;
}

function node({ text, classes, style }: Piece, voice: Voice): Node {
  if (voice === "stdout" && classes === "" && style === "") return document.createTextNode(text);
  const span = document.createElement("span");
  span.className = `${voice} ${classes}`.trim();
  // Set by script and not as markup, so that the page's policy on styles holds.
  span.style.cssText = style;
  span.textContent = text;
  return span;
}

function line(text: string, name: string): HTMLElement {
  const element = document.createElement("div");
  element.className = name;
  element.textContent = text;
  return element;
}

function picture(url: string, alt: string): HTMLElement {
  const image = document.createElement("img");
  image.src = url;
  image.alt = alt;
  return image;
}
