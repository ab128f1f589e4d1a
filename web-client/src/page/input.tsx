import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Question } from "./view";

interface Props {
  /** What the program asks; without it the form can be opened for a program that reads without asking. */
  question: Question | null;
  disabled: boolean;
  onAnswer: (text: string) => void;
  onEnd: () => void;
}

/** What a program reads is typed here. */
export function InputForm({ question, disabled, onAnswer, onEnd }: Props) {
  const [wanted, setWanted] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const name = useId();
  const shown = question !== null || wanted;
  useEffect(() => {
    if (shown && mayTakeFocus(field.current)) field.current?.focus();
  }, [shown]);
  if (!shown) {
    return (
      <button type="button" class="quiet" onClick={() => setWanted(true)}>
        Type input for the program…
      </button>
    );
  }
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    if (field.current === null) return;
    onAnswer(field.current.value);
    field.current.value = "";
  };
  return (
    <form class="input" onSubmit={onSubmit}>
      <label for={name}>{question?.prompt.trim() || "Input for the program"}</label>
      {question?.password ? (
        <input id={name} ref={field} type="password" autocomplete="off" />
      ) : (
        <input id={name} ref={field} type="text" autocomplete="off" spellcheck={false} />
      )}
      <button type="submit" disabled={disabled}>
        Send
      </button>
      <button type="button" disabled={disabled} onClick={onEnd}>
        End of input
      </button>
    </form>
  );
}

/** Nobody who works in another cell loses the cursor. */
function mayTakeFocus(field: HTMLElement | null): boolean {
  const active = document.activeElement;
  return active === document.body || active?.closest(".cell") === field?.closest(".cell");
}
