// The global `display`: shows a value as a rich output, at its place between what is printed.
//
//     display(value, metadata)          the printed form, and JSON where the value is exactly that
//     display({'text/html': '<b>'})     a bundle: every key is a MIME type
//     display.html(text), .svg, .markdown, .latex, .png(bytes), .jpeg(bytes), .json(value)
//
// A value may say how it is shown by a method `Symbol.for('repltool.display')`, which returns a bundle. Bytes (Buffer,
// typed arrays) are sent in base64.
'use strict';

const p = load('primordials');
const errors = load('errors');
const report = load('report');
const { clip, quote } = load('text');

const HOOK = Symbol.for('repltool.display');
const MAX_TEXT = 1 << 16;
const MAX_JSON = 4 << 20;
const toBuffer = Buffer.from;
const base64 = p.uncurry(Buffer.prototype.base64Slice);
const TEXTS = { __proto__: null, html: 'text/html', svg: 'image/svg+xml', markdown: 'text/markdown', latex: 'text/latex' };
const IMAGES = { __proto__: null, png: 'image/png', jpeg: 'image/jpeg' };

// `send` takes the bundle and the metadata as JSON texts; it returns false if they are too large.
exports.install = (send) => {
  const show = (bundle, metadata) => {
    const about = metadata === undefined ? '{}' : report.jsonOf(metadata, MAX_TEXT);
    if (about === null || !p.startsWith(about, '{')) throw new TypeError('metadata of a display is a plain object');
    if (!send(bundle, about)) throw new RangeError('a display is at most 4 MiB');
  };
  const display = (value, metadata) => show(bundleOf(value), metadata);
  for (const name of Object.keys(TEXTS)) {
    display[name] = (text, metadata) => show(`{${quote(TEXTS[name])}:${quote(`${text}`)}}`, metadata);
  }
  for (const name of Object.keys(IMAGES)) {
    display[name] = (image, metadata) => show(`{${entryOf(IMAGES[name], image)}}`, metadata);
  }
  display.json = (value, metadata) => show(`{${entryOf('application/json', value)}}`, metadata);
  p.define(globalThis, 'display', { value: display, configurable: true, enumerable: false, writable: true });
};

// The bundle of a value, as JSON.
function bundleOf(value) {
  const isObject = value !== null && (typeof value === 'object' || typeof value === 'function');
  const hook = isObject ? value[HOOK] : undefined;
  const bundle = typeof hook === 'function' ? p.apply(hook, value, []) : value;
  if (isBundle(bundle)) return bundleText(bundle);
  if (bundle !== value) throw new TypeError("Symbol.for('repltool.display') is to return an object whose keys are MIME types");
  const json = report.jsonOf(value, MAX_JSON);
  const text = `"text/plain":${quote(clip(errors.print(value), MAX_TEXT).text)}`;
  return json === null || !isObject ? `{${text}}` : `{${text},"application/json":${json}}`;
}

function isBundle(value) {
  if (value === null || typeof value !== 'object' || p.isProxy(value) || p.isArray(value)) return false;
  const keys = p.ownKeys(value);
  for (let at = 0; at < keys.length; at += 1) {
    if (typeof keys[at] !== 'string' || !isMime(keys[at])) return false;
  }
  return keys.length > 0;
}

// Whether a text is a MIME type: two words around one slash.
function isMime(text) {
  const slash = p.indexOf(text, '/');
  return slash > 0 && slash < text.length - 1 && p.lastIndexOf(text, '/') === slash && p.indexOf(text, ' ') < 0;
}

function bundleText(bundle) {
  const keys = p.ownKeys(bundle);
  let text = '';
  for (let at = 0; at < keys.length; at += 1) text += `${at > 0 ? ',' : ''}${entryOf(keys[at], bundle[keys[at]])}`;
  return `{${text}}`;
}

function entryOf(mime, value) {
  if (mime === 'application/json' || p.endsWith(mime, '+json')) return `${quote(mime)}:${jsonEntry(value)}`;
  if (typeof value === 'string') return `${quote(mime)}:${quote(value)}`;
  if (!p.isTypedArray(value) && !p.isAnyArrayBuffer(value)) throw new TypeError(`${mime} is to be text or bytes`);
  const bytes = p.isAnyArrayBuffer(value) ? toBuffer(value) : toBuffer(value.buffer, value.byteOffset, value.byteLength);
  return `${quote(mime)}:${quote(base64(bytes, 0, bytes.length))}`;
}

function jsonEntry(value) {
  const json = report.jsonOf(value, MAX_JSON);
  if (json === null) throw new TypeError('the value is not exactly JSON');
  return json;
}
