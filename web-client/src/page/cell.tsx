import { useEffect, useRef } from "preact/hooks";
import type { Language } from "../protocol";
import { UNAUTHORIZED } from "../session";
import { CodeField } from "./code";
import { InputForm } from "./input";
import type { CellModel } from "./model";
import { OutcomeView } from "./outcome";
import { useModel } from "./use_model";
import { isBusy, type View } from "./view";
import { isGone, linkWords, stateWords } from "./words";

interface Props {
  language: Language;
  title: string;
  /** Shown in an empty cell. */
  example: string;
  token: string | null;
  /** Told of every new view. */
  onView: (view: View) => void;
}

/** A place for code, what it prints, and how it ended; behind it a session of its own. */
export function Cell({ language, title, example, token, onView }: Props) {
  const outputRef = useRef<HTMLDivElement>(null);
  const codeRef = useRef<HTMLTextAreaElement>(null);
  const { view, model } = useModel(language, token, outputRef);
  useEffect(() => onView(view), [view, onView]);

  const busy = isBusy(view);
  const canRun = token !== null && !busy && view.link.state !== "closed";
  const run = () => {
    const code = codeRef.current?.value ?? "";
    if (canRun && code.trim() !== "") model?.run(code);
  };
  return (
    <section class="cell" aria-label={title} data-language={language}>
      <header>
        <h2>{title}</h2>
        <LinkView view={view} model={model} />
      </header>
      <CodeField language={language} title={title} example={example} field={codeRef} onRun={run} />
      <Toolbar view={view} model={model} canRun={canRun} onRun={run} />
      {view.refusal !== null && (
        <p class="refusal" role="alert">
          Not done: {view.refusal}
        </p>
      )}
      <div
        class="output"
        ref={outputRef}
        role="log"
        aria-live="polite"
        aria-label={`Output of ${title}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
      />
      {busy && view.execution?.state === "running" && (
        <InputForm
          key={view.question?.seq ?? 0}
          question={view.question}
          disabled={view.link.state !== "open"}
          onAnswer={(text) => model?.answer(text)}
          onEnd={() => model?.endOfInput()}
        />
      )}
      {view.execution && <OutcomeView execution={view.execution} />}
    </section>
  );
}

/** State of connection and session, and the way out where there is one. */
function LinkView({ view, model }: { view: View; model: CellModel | null }) {
  const { link, session } = view;
  return (
    <div class="link" data-state={link.state}>
      <span role="status">{linkWords(link)}</span>
      {link.state === "open" && session && (
        <span class="session" title={`Session ${session.session_id}`}>
          session {session.session_id.slice(0, 6)}…{session.status === "error" && " has no interpreter"}
        </span>
      )}
      {link.state === "closed" && link.code !== UNAUTHORIZED && !isGone(link) && (
        <button type="button" onClick={() => model?.reconnect()}>
          Connect again
        </button>
      )}
      {(isGone(link) || (link.state === "open" && !isBusy(view))) && (
        <button type="button" onClick={() => model?.renew()}>
          Start a new session
        </button>
      )}
    </div>
  );
}

interface ToolbarProps {
  view: View;
  model: CellModel | null;
  canRun: boolean;
  onRun: () => void;
}

function Toolbar({ view, model, canRun, onRun }: ToolbarProps) {
  const open = view.link.state === "open";
  return (
    <div class="toolbar">
      <button type="button" class="run" disabled={!canRun} onClick={onRun}>
        Run
      </button>
      <button type="button" disabled={!open || !isBusy(view)} onClick={() => model?.interrupt()}>
        Interrupt
      </button>
      <button type="button" disabled={!open} onClick={() => model?.restart()}>
        Restart
      </button>
      <span class="state" role="status" data-state={view.execution?.state ?? "none"}>
        {stateWords(view)}
      </span>
    </div>
  );
}
