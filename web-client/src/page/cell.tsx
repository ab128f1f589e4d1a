import { useEffect, useRef, useState } from "preact/hooks";
import { memory, read, write } from "../memory";
import type { Language } from "../protocol";
import { UNAUTHORIZED } from "../session";
import { connect } from "../transport";
import { InputForm } from "./input";
import { CellModel } from "./model";
import { OutcomeView } from "./outcome";
import { Output } from "./output";
import { EMPTY, isBusy, type View } from "./view";
import { isGone, linkWords, stateWords } from "./words";

interface Props {
  language: Language;
  title: string;
  /** Shown in an empty cell. */
  example: string;
  token: string | null;
}

/** A place for code, what it prints, and how it ended; behind it a session of its own. */
export function Cell({ language, title, example, token, onView }: Props & { onView: (view: View) => void }) {
  const [view, setView] = useState(EMPTY);
  const outputRef = useRef<HTMLDivElement>(null);
  const codeRef = useRef<HTMLTextAreaElement>(null);
  const tokenRef = useRef(token);
  const modelRef = useRef<CellModel | null>(null);
  const codeName = `repltool.code.${language}`;
  tokenRef.current = token;

  useEffect(() => {
    if (codeRef.current) codeRef.current.value = read(sessionStorage, codeName) ?? "";
  }, [codeName]);
  useEffect(() => {
    if (outputRef.current === null) return;
    const output = new Output(outputRef.current, (call) => requestAnimationFrame(call));
    modelRef.current = new CellModel(partsOf(language, tokenRef), output, setView);
    return modelRef.current.start();
  }, [language]);
  useEffect(() => {
    if (token !== null) modelRef.current?.newToken();
  }, [token]);
  useEffect(() => onView(view), [view, onView]);

  const busy = isBusy(view);
  const canRun = token !== null && !busy && view.link.state !== "closed";
  const run = () => {
    const code = codeRef.current?.value ?? "";
    if (canRun && code.trim() !== "") modelRef.current?.run(code);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.shiftKey || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
  };

  return (
    <section class="cell" aria-label={title} data-language={language}>
      <header>
        <h2>{title}</h2>
        <LinkView view={view} model={modelRef.current} />
      </header>
      <label class="hidden" for={`code-${language}`}>
        {title} code; Shift-Enter runs it
      </label>
      <textarea
        id={`code-${language}`}
        ref={codeRef}
        rows={4}
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        placeholder={example}
        onInput={(event) => write(sessionStorage, codeName, event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <Toolbar view={view} model={modelRef.current} canRun={canRun} onRun={run} />
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
          onAnswer={(text) => modelRef.current?.answer(text)}
          onEnd={() => modelRef.current?.endOfInput()}
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

/** 128 random bits. The browser's own UUIDs are not to be had where the page comes by plain HTTP from another machine. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function partsOf(language: Language, token: { current: string | null }) {
  return {
    language,
    memory: memory(sessionStorage, `repltool.session.${language}`),
    connect,
    token: () => token.current,
    after: (ms: number, call: () => void) => {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    },
    random: Math.random,
    newId,
  };
}
