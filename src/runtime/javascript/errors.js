// Errors as text, cut to the user's frames, and the printed form of values. All of it runs code of the user.
'use strict';

const p = load('primordials');
const { clip, quote } = load('text');

const MAX_TEXT = 1 << 16;
const MAX_NAME = 1024;
const CELL = '<cell:'; // V8 takes no name with a space
const MAX_PRINTED_STRING = 1 << 20;

const SHOWN = {
  __proto__: null,
  colors: false,
  depth: 2,
  showHidden: false,
  showProxy: false,
  customInspect: true,
  maxArrayLength: 100,
  maxStringLength: MAX_PRINTED_STRING,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
};

// The printed form of a value; of one that cannot be printed, what was wrong.
exports.print = (value) => {
  if (typeof value === 'number' && value !== 0) return `${value}`;
  try {
    return tidy(p.inspect(value, SHOWN));
  } catch (error) {
    return `[cannot be shown: ${messageOf(error)}]`;
  }
};

// {json, cut} of what was thrown. `details` say where code has a mistake of syntax; null if it has none.
exports.exception = (value, details) => {
  const name = clip(nameOf(value), MAX_NAME);
  const message = clip(messageOf(value), MAX_TEXT);
  const trace = clip(`${placeOf(value, details)}${exports.trace(value)}`, MAX_TEXT);
  let lines = '';
  eachLine(trace.text, (line) => {
    lines += lines === '' ? quote(line) : `,${quote(line)}`;
  });
  return {
    json: `{"name":${quote(name.text)},"message":${quote(message.text)},"traceback":[${lines}]}`,
    cut: name.cut || message.cut || trace.cut,
  };
};

// What was thrown, with its stack, causes and properties, as lines of text.
exports.trace = (value) => {
  const text = exports.print(value);
  return isError(value) ? text : `Uncaught ${text}`;
};

function isError(value) {
  return p.isNativeError(value);
}

function nameOf(value) {
  if (!isError(value)) return 'Uncaught';
  const name = textOf(() => value.name, 'Error');
  if (name !== 'Error') return name;
  const own = textOf(() => value.constructor.name, 'Error');
  return own === '' || own === 'Object' ? name : own;
}

function messageOf(value) {
  if (isError(value)) return textOf(() => value.message, '');
  return typeof value === 'string' ? value : exports.print(value);
}

function textOf(get, otherwise) {
  try {
    const text = get();
    return typeof text === 'string' ? text : otherwise;
  } catch {
    return otherwise;
  }
}

// Where the code has a mistake, for errors that V8 found before it ran: its stack does not say.
function placeOf(value, details) {
  if (details === null || !isError(value)) return '';
  const { name, code, line, column } = details;
  const start = lineStart(code, line);
  const end = p.indexOf(code, '\n', start);
  const text = end < 0 ? p.slice(code, start) : p.slice(code, start, end);
  const shown = clip(text, MAX_NAME).text;
  const mark = column < shown.length ? `${p.repeat(' ', column)}^\n` : '';
  return `${named(name)}:${line + 1}\n${shown}\n${mark}`;
}

function lineStart(code, line) {
  let at = 0;
  for (let passed = 0; passed < line; passed += 1) at = p.indexOf(code, '\n', at) + 1;
  return at;
}

// Takes the frames of Node and of the driver out of a printed error, and names cells as people know them.
function tidy(printed) {
  if (p.indexOf(printed, '    at ') < 0) return printed;
  let kept = '';
  let first = true;
  eachLine(printed, (line) => {
    if (isHidden(line)) {
      // The bracket that opens an error's properties stands behind its last frame.
      if (p.endsWith(line, ' {')) kept += ' {';
      return;
    }
    const text = isFrame(line) ? named(line) : line;
    kept += first ? text : `\n${text}`;
    first = false;
  });
  return kept;
}

function isHidden(line) {
  if (p.endsWith(line, ' stack trace ...')) return true;
  if (!isFrame(line)) return false;
  return p.indexOf(line, '(node:') >= 0 || p.indexOf(line, ' node:') >= 0 || p.indexOf(line, here) >= 0;
}

const isFrame = (line) => p.startsWith(p.trimStart(line), 'at ');

function named(line) {
  let rest = line;
  let done = '';
  for (let at = p.indexOf(rest, CELL); at >= 0; at = p.indexOf(rest, CELL)) {
    done += `${p.slice(rest, 0, at)}<cell `;
    rest = p.slice(rest, at + CELL.length);
  }
  return done + rest;
}

function eachLine(text, take) {
  let at = 0;
  for (;;) {
    const end = p.indexOf(text, '\n', at);
    take(end < 0 ? p.slice(text, at) : p.slice(text, at, end));
    if (end < 0) return;
    at = end + 1;
  }
}
