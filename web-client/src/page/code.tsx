import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import { read, write } from "../memory";
import type { Language } from "../protocol";

interface Props {
  language: Language;
  title: string;
  example: string;
  field: RefObject<HTMLTextAreaElement | null>;
  onRun: () => void;
}

/** Where code is typed. It outlives a reload. */
export function CodeField({ language, title, example, field, onRun }: Props) {
  const name = `repltool.code.${language}`;
  useEffect(() => {
    if (field.current) field.current.value = read(sessionStorage, name) ?? "";
  }, [field, name]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.shiftKey || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onRun();
  };
  return (
    <>
      <label class="hidden" for={`code-${language}`}>
        {title} code; Shift-Enter runs it
      </label>
      <textarea
        id={`code-${language}`}
        ref={field}
        rows={4}
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        placeholder={example}
        onInput={(event) => write(sessionStorage, name, event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
    </>
  );
}
