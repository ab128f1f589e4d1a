/** One cell: its session, its output, and what else it shows. */

import type { LoggedEvent, Notice, Session as SessionInfo } from "../protocol";
import { type Link, Session, type SessionListener, type SessionParts } from "../session";
import type { Output } from "./output";
import { afterBegin, afterEvent, afterProblem, EMPTY, type View } from "./view";
import { statusWords, violationWords } from "./words";

const NOT_KEPT = "A part of the output is no longer kept by the server.";

export class CellModel implements SessionListener {
  readonly #session: Session;
  readonly #output: Output;
  readonly #changed: (view: View) => void;
  #view = EMPTY;
  /** Something before the execution that is to be shown is not kept. */
  #gap = false;

  /** `changed` is told of every new view. */
  constructor(parts: SessionParts, output: Output, changed: (view: View) => void) {
    this.#session = new Session(parts, this);
    this.#output = output;
    this.#changed = changed;
  }

  /** Takes up a session from before a reload; returns what ends the connection. */
  start(): () => void {
    return this.#session.start();
  }

  /** There is another token. */
  newToken(token: string): void {
    this.#session.newToken(token);
  }

  reconnect(): void {
    this.#session.start();
  }

  run(code: string): void {
    this.#session.run(code);
  }

  interrupt(): void {
    this.#session.interrupt();
  }

  restart(): void {
    this.#session.restart();
  }

  /** Sends a line, which is shown as a terminal would. */
  answer(text: string): void {
    const { question } = this.#view;
    this.#output.text("typed", question?.password ? "\n" : `${text}\n`);
    this.#session.input(`${text}\n`, question?.seq);
    this.#show({ ...this.#view, question: null });
  }

  endOfInput(): void {
    this.#session.endOfInput();
    this.#show({ ...this.#view, question: null });
  }

  /** Leaves the session for a new one. */
  renew(): void {
    this.#session.renew();
    this.#output.clear();
    this.#show(EMPTY);
  }

  linked(link: Link): void {
    this.#show({ ...this.#view, link });
  }

  ready(session: SessionInfo): void {
    this.#show({ ...this.#view, session });
  }

  began(id: string): void {
    this.#output.clear();
    if (this.#gap) this.#output.note(NOT_KEPT);
    this.#gap = false;
    this.#show(afterBegin(this.#view, id));
  }

  happened(event: LoggedEvent): void {
    const answered = event.type === "input_request" && this.#session.answered(event.seq);
    this.#print(event, answered);
    this.#show(afterEvent(this.#view, event, answered));
  }

  noticed(notice: Extract<Notice, { type: "gap" | "problem" }>): void {
    if (notice.type === "problem") this.#show(afterProblem(this.#view, notice));
    else if (this.#view.execution === null) this.#gap = true;
    else this.#output.note(NOT_KEPT);
  }

  #print(event: LoggedEvent, answered: boolean): void {
    if (event.type === "stream") this.#output.text(event.stream, event.data);
    else if (event.type === "display") this.#output.display(event.data);
    else if (event.type === "input_request") this.#output.text("typed", answered ? `${event.prompt}\n` : event.prompt);
    else if (event.type === "violation") this.#output.note(violationWords(event, event.times));
    else if (event.type === "status") {
      const words = statusWords(event);
      if (words) this.#output.note(words);
    }
  }

  #show(view: View): void {
    if (view === this.#view) return;
    this.#view = view;
    this.#changed(view);
  }
}
