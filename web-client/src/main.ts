import { h, render } from "preact";
import { App } from "./page/app";
import "./page/ansi.css";
import "./page/style.css";
import { keep, kept, takeFromAddress } from "./token";

/** Shows the page with the token in force. */
function show(token: string | null): void {
  const root = document.getElementById("page");
  if (root) render(h(App, { token, onToken }), root);
}

function onToken(token: string): void {
  keep(sessionStorage, token);
  show(token);
}

// A second link that is opened in this tab changes the fragment alone and loads nothing.
addEventListener("hashchange", () => {
  const token = takeFromAddress(window);
  if (token !== null) show(token);
});
show(takeFromAddress(window) ?? kept(sessionStorage));
