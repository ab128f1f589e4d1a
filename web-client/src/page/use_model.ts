import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { memory } from "../memory";
import type { Language } from "../protocol";
import type { SessionParts } from "../session";
import { connect } from "../transport";
import { CellModel } from "./model";
import { Output } from "./output";
import { EMPTY, type View } from "./view";

/** The model of a cell, which lives as long as the cell is on the page, and what it shows now. */
export function useModel(
  language: Language,
  token: string | null,
  outputRef: RefObject<HTMLElement | null>,
): { view: View; model: CellModel | null } {
  const [view, setView] = useState(EMPTY);
  const [model, setModel] = useState<CellModel | null>(null);
  const tokenRef = useRef(token);
  tokenRef.current = token;
  useEffect(() => {
    if (outputRef.current === null) return;
    const output = new Output(outputRef.current, (call) => requestAnimationFrame(call));
    const made = new CellModel(partsOf(language, tokenRef), output, setView);
    setModel(made);
    return made.start();
  }, [language, outputRef]);
  useEffect(() => {
    if (token !== null) model?.newToken(token);
  }, [token, model]);
  return { view, model };
}

/** 128 random bits. The browser's own UUIDs are not to be had where the page comes by plain HTTP from another machine. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function partsOf(language: Language, token: RefObject<string | null>): SessionParts {
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
