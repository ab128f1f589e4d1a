/** What a cell shows besides its output, and how events change it. */

import type { LoggedEvent, Notice, Outcome, Session } from "../protocol";
import type { Link } from "../session";

export interface Execution {
  id: string;
  /** "sent": the server has not confirmed it; "waiting": it will run. */
  state: "sent" | "waiting" | "running" | "over";
  count: number;
  /** When it began, RFC 3339; empty before that. */
  started: string;
  outcome: Outcome | null;
}

/** A program waits for a line. */
export interface Question {
  seq: number;
  prompt: string;
  password: boolean;
}

export interface View {
  link: Link;
  session: Session | null;
  execution: Execution | null;
  question: Question | null;
  /** Why the last request was refused. */
  refusal: string | null;
}

export const EMPTY: View = { link: { state: "none" }, session: null, execution: null, question: null, refusal: null };

/** Whether something runs or will, as far as can be known now. */
export function isBusy({ execution, link }: View): boolean {
  return execution !== null && execution.state !== "over" && link.state !== "closed";
}

export function afterBegin(view: View, id: string): View {
  const execution: Execution = { id, state: "sent", count: 0, started: "", outcome: null };
  return { ...view, execution, question: null, refusal: null };
}

/** `answered`: whether the question of the event was answered already. */
export function afterEvent(view: View, event: LoggedEvent, answered: boolean): View {
  switch (event.type) {
    case "queued":
      return change(view, event.id, { state: "waiting" });
    case "started":
      return change(view, event.id, { state: "running", count: event.execution_count, started: event.timestamp });
    case "input_request": {
      const { seq, prompt, password } = event;
      return answered ? runs(view, event.id) : { ...runs(view, event.id), question: { seq, prompt, password } };
    }
    case "result": {
      const { execution_count: count, timestamp: started } = event;
      return { ...change(view, event.id, { state: "over", count, started, outcome: event }), question: null };
    }
    case "status": {
      const { status } = event;
      return { ...view, session: view.session && { ...view.session, status } };
    }
    case "stream":
    case "display":
    case "violation":
      return event.id === null ? view : runs(view, event.id);
    default:
      return event satisfies never;
  }
}

export function afterProblem(view: View, problem: Extract<Notice, { type: "problem" }>): View {
  const wasSent = view.execution?.id === problem.id && view.execution?.state === "sent";
  return { ...view, refusal: problem.detail, execution: wasSent ? null : view.execution };
}

/** What prints runs, also if its beginning is no longer kept. */
function runs(view: View, id: string): View {
  return view.execution?.state === "running" ? view : change(view, id, { state: "running" });
}

function change(view: View, id: string, changes: Partial<Execution>): View {
  const { execution } = view;
  return execution?.id === id ? { ...view, execution: { ...execution, ...changes } } : view;
}
