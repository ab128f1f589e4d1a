import { useRef, useState } from "preact/hooks";
import { isToken } from "../token";

interface Props {
  /** Whether the server has refused the last one. */
  refused: boolean;
  onToken: (token: string) => void;
}

/** Asks for a token, and says where one is to be had. */
export function TokenForm({ refused, onToken }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const [malformed, setMalformed] = useState(false);
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    const token = text.includes("#token=") ? text.slice(text.indexOf("#token=") + "#token=".length) : text;
    setMalformed(!isToken(token));
    if (isToken(token)) onToken(token);
  };
  return (
    <form class="token" onSubmit={onSubmit}>
      <h2>A token is needed</h2>
      {refused && (
        <p class="refusal" role="alert">
          The server does not accept the token: it is wrong, it has expired, or it was made for another server.
        </p>
      )}
      <p>
        Open the link that <code>repltool serve</code> prints, or paste the link or its token here. On the machine of
        the server <code>repltool token --subject NAME --scope tool:execute</code> makes another.
      </p>
      <label for="token">Token</label>
      <input
        id="token"
        ref={field}
        type="password"
        name="token"
        autocomplete="off"
        spellcheck={false}
        aria-invalid={malformed}
      />
      <button type="submit" class="run">
        Use this token
      </button>
      {malformed && (
        <p class="refusal" role="alert">
          This is not a token: it has three parts with dots between them.
        </p>
      )}
    </form>
  );
}
