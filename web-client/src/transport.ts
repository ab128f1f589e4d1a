/** One WebSocket: opens it, moves texts in and out, and tells how it ended. Knows neither frames nor retries. */

import { BEARER_PREFIX, SUBPROTOCOL } from "./protocol";

/** Told of what a socket brings. After `closed` nothing follows. */
export interface TransportListener {
  message(text: string): void;
  /** The close code; 1006 if the connection broke off or never came about. */
  closed(code: number): void;
}

export interface Transport {
  /** Sends a text; one that is sent after the end is dropped. */
  send(text: string): void;
  /** Ends the socket at once; its listener hears no more of it. */
  close(): void;
}

/** Opens a socket to a path of the server that the page came from. */
export type Connect = (path: string, token: string, listener: TransportListener) => Transport;

/** No close frame arrived. */
export const BROKEN = 1006;

/** Opens a browser's socket. The token travels as a subprotocol, since a page cannot set headers. */
export const connect: Connect = (path, token, listener) => {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  const socket = new WebSocket(url, [SUBPROTOCOL, BEARER_PREFIX + token]);
  let over = false;
  socket.addEventListener("message", ({ data }) => {
    if (!over && typeof data === "string") listener.message(data);
  });
  socket.addEventListener("close", ({ code }) => {
    if (over) return;
    over = true;
    listener.closed(code);
  });
  return {
    send: (text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(text);
    },
    close: () => {
      over = true;
      socket.close();
    },
  };
};
