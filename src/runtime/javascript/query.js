// Answers questions about code while nothing runs: completion, documentation, "is this input finished?". What has to
// be looked up is evaluated under V8's watch, which ends whatever would have a side effect or takes long. Live objects
// are looked at without running getters.
'use strict';

const p = load('primordials');
const { tokenizer, tokTypes } = load('vendor/acorn');
const imports = load('imports');
const modules = load('modules');
const { clip, quote } = load('text');

const MAX_MATCHES = 500;
const MAX_TEXT = 1 << 16;
const MAX_SOURCE = 4096;
const PATIENCE_MS = 100;
const INDENT = '  ';
const sourceOf = p.uncurry(Function.prototype.toString);
const codePointAt = p.uncurry(String.prototype.codePointAt);

const KEYWORDS =
  'async await break case catch class const continue debugger default delete do else export extends false finally ' +
  'for function if import in instanceof let new null of return static super switch this throw true try typeof var ' +
  'void while with yield';

// The body of the reply, as JSON.
exports.answer = (evaluator, kind, code, cursor) => {
  if (kind === 'complete') return complete(evaluator, code, unitsOf(code, cursor));
  if (kind === 'inspect') return inspect(evaluator, code, unitsOf(code, cursor));
  return isComplete(code);
};

// The place of a code point among the units of a text.
function unitsOf(text, points) {
  let at = 0;
  for (let passed = 0; passed < points && at < text.length; passed += 1) at += codePointAt(text, at) > 0xffff ? 2 : 1;
  return at;
}

function pointsOf(text, units) {
  let points = 0;
  for (let at = 0; at < units; points += 1) at += codePointAt(text, at) > 0xffff ? 2 : 1;
  return points;
}

function complete(evaluator, code, cursor) {
  const place = placeOf(code, cursor);
  const matches = new Matches(place === null ? '' : code.slice(place.start, cursor));
  if (place !== null && place.object === null) addGlobals(evaluator, matches);
  else if (place !== null) addProperties(evaluator, place.object, matches);
  const start = pointsOf(code, place === null ? cursor : place.start);
  return `{"matches":[${matches.text}],"cursor_start":${start},"cursor_end":${pointsOf(code, cursor)}}`;
}

class Matches {
  text = '';
  #prefix;
  #seen = { __proto__: null };
  #count = 0;

  constructor(prefix) {
    this.#prefix = prefix;
  }

  add(name) {
    if (typeof name !== 'string' || !p.startsWith(name, this.#prefix) || this.#seen[name] || !isIdentifier(name)) return;
    if (this.#count === MAX_MATCHES || name === modules.IMPORT) return;
    this.#seen[name] = true;
    this.#count += 1;
    this.text += this.text === '' ? quote(name) : `,${quote(name)}`;
  }

  // Names of an object and all that it inherits from.
  addNames(object) {
    for (let it = object; it !== null && !p.isProxy(it); it = p.prototypeOf(it)) {
      const keys = p.ownKeys(it);
      for (let at = 0; at < keys.length; at += 1) this.add(keys[at]);
    }
  }
}

function addGlobals(evaluator, matches) {
  const answer = evaluator.ask('Runtime.globalLexicalScopeNames', {});
  for (let at = 0; answer !== null && at < answer.names.length; at += 1) matches.add(answer.names[at]);
  matches.addNames(p.global);
  const words = KEYWORDS.split(' ');
  for (let at = 0; at < words.length; at += 1) matches.add(words[at]);
}

function addProperties(evaluator, expression, matches) {
  const found = evaluator.peek(expression, PATIENCE_MS);
  if (found === null || found.value === undefined || found.value === null) return;
  matches.addNames(p.Object(found.value));
}

const isLetter = (code) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code === 36 || code > 127;
const isDigit = (code) => code >= 48 && code <= 57;

function isIdentifier(name) {
  for (let at = 0; at < name.length; at += 1) {
    const code = p.charCodeAt(name, at);
    if (!isLetter(code) && (at === 0 || !isDigit(code))) return false;
  }
  return name.length > 0;
}

// What stands before a cursor: {start, object, whole}, where the name begins, the text before its dot, or null without
// a dot, and where that begins. Null where no name can stand, or if the object is more than names.
function placeOf(code, cursor) {
  const tokens = tokensOf(code.slice(0, cursor));
  if (tokens === null) return null;
  let at = tokens.length - 1;
  let start = cursor;
  if (at >= 0 && tokens[at].end === cursor && isName(tokens[at])) {
    start = tokens[at].start;
    at -= 1;
  }
  if (at < 0 || !isDot(tokens[at])) return isLiteral(tokens[at], cursor) ? null : { start, object: null, whole: start };
  const end = tokens[at].start;
  at -= 1;
  while (at >= 2 && isName(tokens[at]) && isDot(tokens[at - 1])) at -= 2;
  if (at < 0 || !(isName(tokens[at]) || tokens[at].type === tokTypes.string)) return null;
  if (isName(tokens[at])) modules.loadOffered(code.slice(tokens[at].start, tokens[at].end));
  return { start, object: code.slice(tokens[at].start, end), whole: tokens[at].start };
}

const isName = (token) => token.type === tokTypes.name || token.type.keyword !== undefined;
const isDot = (token) => token.type === tokTypes.dot || token.type === tokTypes.questionDot;
const isLiteral = (token, cursor) =>
  token !== undefined && token.end === cursor && (token.type === tokTypes.num || token.type === tokTypes.string);

// The tokens of a text; null if it ends in a comment, a string or a template.
function tokensOf(text) {
  const tokens = [];
  let inComment = false;
  const onComment = (isBlock, _text, _start, end) => {
    inComment = !isBlock && end === text.length;
  };
  try {
    const source = tokenizer(text, { ...imports.OPTIONS, onComment });
    for (let token = source.getToken(); token.type !== tokTypes.eof; token = source.getToken()) tokens.push(token);
  } catch {
    return null;
  }
  return inComment ? null : tokens;
}

function inspect(evaluator, code, cursor) {
  let end = cursor;
  while (end < code.length && (isLetter(p.charCodeAt(code, end)) || isDigit(p.charCodeAt(code, end)))) end += 1;
  if (end > 0 && code[end - 1] === '(') end -= 1;
  const place = placeOf(code, end);
  if (place === null || place.start === end) return '{"found":false,"data":{}}';
  const found = evaluator.peek(code.slice(place.whole, end), PATIENCE_MS);
  if (found === null) return '{"found":false,"data":{}}';
  return `{"found":true,"data":{"text/plain":${quote(clip(documentation(found), MAX_TEXT).text)}}}`;
}

function documentation({ remote, value }) {
  if (typeof value === 'function') {
    const source = sourceOf(value);
    return `${remote.description.startsWith('class') ? 'class' : 'function'} ${headOf(source)}\n\n${clip(source, MAX_SOURCE).text}`;
  }
  const type = remote.subtype ?? remote.className ?? remote.type;
  const shown = remote.preview === undefined ? `${remote.description ?? value}` : previewOf(remote);
  return `${type}\n\n${shown}`;
}

// The source up to its body.
function headOf(source) {
  const brace = p.indexOf(source, ') {');
  const arrow = p.indexOf(source, '=>');
  const end = brace >= 0 && (arrow < 0 || brace < arrow) ? brace + 1 : arrow >= 0 ? arrow : p.indexOf(source, '{');
  const head = p.trim(end < 0 ? source : p.slice(source, 0, end));
  for (const word of ['async ', 'function', 'class']) {
    if (p.startsWith(head, word)) return p.trim(p.slice(head, word.length));
  }
  return head;
}

function previewOf({ description, preview }) {
  let text = '';
  for (let at = 0; at < preview.properties.length; at += 1) {
    const { name, type, value, subtype } = preview.properties[at];
    const shown = type === 'string' ? quote(value) : type === 'accessor' ? '[getter]' : value === '' ? (subtype ?? type) : value;
    text += `\n  ${name}: ${shown}`;
  }
  return `${description}${text}${preview.overflow ? '\n  …' : ''}`;
}

function isComplete(code) {
  const { status, open } = imports.check(code);
  const indent = status === 'incomplete' && open ? p.repeat(INDENT, depthOf(code)) : '';
  return `{"status":"${status}","indent":${quote(indent)}}`;
}

// How many brackets are open at the end of a text.
function depthOf(text) {
  let depth = 0;
  try {
    const source = tokenizer(text, imports.OPTIONS);
    for (let { type } = source.getToken(); type !== tokTypes.eof; { type } = source.getToken()) {
      if (OPENING.has(type)) depth += 1;
      else if (CLOSING.has(type) && depth > 0) depth -= 1;
    }
  } catch {
    return 0;
  }
  return depth;
}

const OPENING = new Set([tokTypes.braceL, tokTypes.bracketL, tokTypes.parenL, tokTypes.dollarBraceL]);
const CLOSING = new Set([tokTypes.braceR, tokTypes.bracketR, tokTypes.parenR]);
