import type { Outcome } from "../protocol";
import type { Execution } from "./view";
import { figures, limitWords, violationWords } from "./words";

/** How an execution ended: its value, what went wrong, and what it took. */
export function OutcomeView({ execution }: { execution: Execution }) {
  const { outcome, count, started } = execution;
  return (
    <div class="outcome" role="status">
      {outcome?.result_text != null && <pre class="value">{outcome.result_text}</pre>}
      {outcome?.exception && <Traceback exception={outcome.exception} />}
      {outcome && remarks(outcome).map((text) => <p class="remark">{text}</p>)}
      <p class="figures">
        {count > 0 && <span class="count">[{count}]</span>}
        {started !== "" && <time dateTime={started}>{new Date(started).toLocaleTimeString()}</time>}
        {outcome && count > 0 && <span>{figures(outcome)}</span>}
      </p>
    </div>
  );
}

function Traceback({ exception }: { exception: NonNullable<Outcome["exception"]> }) {
  const { name, message, traceback } = exception;
  const text = traceback.length > 0 ? traceback.join("\n") : message ? `${name}: ${message}` : name;
  return <pre class="traceback">{text}</pre>;
}

function remarks({ limit, violation, exit_code, truncated, state_lost }: Outcome): string[] {
  const texts: string[] = [];
  if (limit !== null) texts.push(limitWords(limit));
  if (violation !== null) texts.push(violationWords(violation));
  if (exit_code !== null && exit_code !== 0) texts.push(`Exit code ${exit_code}.`);
  if (truncated) texts.push("The output is cut; what came before is kept.");
  if (state_lost) texts.push("The interpreter was replaced: variables are gone, files stay.");
  return texts;
}
