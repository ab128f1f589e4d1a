import { useCallback, useState } from "preact/hooks";
import { UNAUTHORIZED } from "../session";
import { Cell } from "./cell";
import { TokenForm } from "./token";
import type { View } from "./view";

const CELLS = [
  { language: "python", title: "Python", example: "import time\nfor n in range(3):\n    print(n)\n    time.sleep(1)" },
  { language: "javascript", title: "JavaScript", example: "const squares = [1, 2, 3].map((n) => n * n)\nsquares" },
  { language: "bash", title: "Bash", example: 'for n in 1 2 3; do echo "line $n"; done' },
] as const;

interface Props {
  token: string | null;
  onToken: (token: string) => void;
}

export function App({ token, onToken }: Props) {
  const [refused, setRefused] = useState<string | null>(null);
  const onView = useCallback(
    ({ link }: View) => {
      if (token !== null && link.state === "closed" && link.code === UNAUTHORIZED) setRefused(token);
    },
    [token],
  );
  const isRefused = token !== null && refused === token;
  return (
    <>
      <header class="top">
        <h1>repltool</h1>
        <p>Python, JavaScript and Bash in sandboxed sessions that keep their state.</p>
        <a href="/docs">API reference</a>
      </header>
      <main>
        {(token === null || isRefused) && <TokenForm refused={isRefused} onToken={onToken} />}
        {CELLS.map((cell) => (
          <Cell key={cell.language} {...cell} token={isRefused ? null : token} onView={onView} />
        ))}
      </main>
      <footer>
        <p>
          <kbd>Shift</kbd>+<kbd>Enter</kbd> or <kbd>Ctrl</kbd>+<kbd>Enter</kbd> runs a cell. A session ends when nobody
          uses it for a while.
        </p>
      </footer>
    </>
  );
}
