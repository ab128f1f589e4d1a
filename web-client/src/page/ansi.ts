/** Coloured terminal output as pieces of text. Only colours and weights are kept; every other escape is dropped. */

import { AnsiUp } from "ansi_up";

export interface Piece {
  text: string;
  /** Names of classes, separated by spaces. */
  classes: string;
  /** Declarations of CSS: colours beyond the named ones, weights. */
  style: string;
}

/** A whole escape sequence: CSI, OSC and the other strings, or a single character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes begin with one
const ESCAPE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const COLOUR = /^\x1b\[[\d;]*m$/;
/** The beginning of one that is not yet complete; longer ones are taken for text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const UNFINISHED = /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b]{0,2048}\x1b?|[ -/]{0,8})$/;
/** What the library makes of text: spans without nesting, all else escaped. */
const SPAN = /<span(?: style="([^"]*)")?(?: class="([^"]*)")?>([^<]*)<\/span>|([^<]+)/g;
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

/** Reads one stream. What a chunk leaves open, a colour or half a sequence, goes on in the next. */
export class Ansi {
  readonly #library = new AnsiUp();
  #rest = "";
  #plain = true;

  constructor() {
    this.#library.use_classes = true;
  }

  /** The pieces of the next chunk. */
  read(chunk: string): Piece[] {
    const text = this.#rest + chunk;
    this.#rest = "";
    if (this.#plain && !text.includes("\x1b")) return text === "" ? [] : [{ text, classes: "", style: "" }];
    const unfinished = UNFINISHED.exec(text);
    if (unfinished) this.#rest = unfinished[0];
    const whole = unfinished ? text.slice(0, unfinished.index) : text;
    const marked = whole.replace(ESCAPE, (found) => (COLOUR.test(found) ? found : ""));
    const pieces = this.#pieces(dropStray(marked));
    this.#plain = this.#library.ansi_to_html(".") === ".";
    return pieces;
  }

  #pieces(text: string): Piece[] {
    return Array.from(this.#library.ansi_to_html(text).matchAll(SPAN), ([, style = "", classes = "", inner, bare]) => ({
      text: unescaped(inner ?? bare ?? ""),
      classes,
      style,
    }));
  }
}

/** Escape characters that begin nothing we know. */
function dropStray(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
  return text.replace(/\x1b(?!\[[\d;]*m)/g, "");
}

function unescaped(html: string): string {
  return html.replace(/&(amp|lt|gt|quot|#x27);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
