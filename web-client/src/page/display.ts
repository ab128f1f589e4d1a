/** Which part of a rich output is shown, and how. Markup of a program is never put into the page. */

/** Pictures are shown by an image element alone, in which nothing runs and nothing is fetched. */
export type Shown = { kind: "image"; url: string; alt: string } | { kind: "text"; text: string };

const BASE64_IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
const SVG = "image/svg+xml";
const TEXTS = ["text/plain", "text/markdown", "text/latex"] as const;

/** The best that the page can show of a bundle of media types. */
export function choose(data: Readonly<Record<string, unknown>>): Shown {
  const alt = textOf(data["text/plain"]) ?? "Picture made by the program";
  for (const type of BASE64_IMAGES) {
    const base64 = textOf(data[type])?.replace(/\s/g, "");
    if (base64 && /^[A-Za-z0-9+/]+=*$/.test(base64))
      return { kind: "image", url: `data:${type};base64,${base64}`, alt };
  }
  const svg = textOf(data[SVG]);
  if (svg) return { kind: "image", url: `data:${SVG};charset=utf-8,${encodeURIComponent(svg)}`, alt };
  for (const type of TEXTS) {
    const text = textOf(data[type]);
    if (text !== null) return { kind: "text", text };
  }
  const json = data["application/json"];
  if (json !== undefined) return { kind: "text", text: JSON.stringify(json, null, 2) };
  return { kind: "text", text: `(${Object.keys(data).join(", ")}: not shown by this page)` };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
