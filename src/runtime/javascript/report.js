// Values and errors as a client sees them: text and JSON, within their limits.
//
// A value goes out as JSON only if it is exactly JSON: null, booleans, numbers, big integers (as digits), strings, and
// arrays and plain objects of these, without holes, accessors or hidden properties. Anything else goes out as its
// printed form. Printing runs code of the user.
'use strict';

const p = load('primordials');
const { clip, quote } = load('text');
const errors = load('errors');

const MAX_JSON = 1 << 20;
const MAX_TEXT = 1 << 16;
const MAX_DEPTH = 100; // parsers of JSON commonly stop at 128, and a result travels inside other objects

const NOT_JSON = { __proto__: null };
const TOO_BIG = { __proto__: null };

// The fields of a `done` message, all but its time, as JSON without the braces.
const fields = (success, result, text, exception, exitCode, truncated) =>
  `"success":${success},"result":${result},"result_text":${text},"exception":${exception},"exit_code":${exitCode},"truncated":${truncated}`;

exports.success = (value) => {
  if (value === undefined) return fields(true, 'null', 'null', 'null', 'null', false);
  const printed = errors.print(value);
  const { text, cut } = clip(printed, MAX_TEXT);
  const json = toJson(value, MAX_JSON);
  if (typeof json === 'string') return fields(true, json, quote(text), 'null', 'null', cut);
  if (json === NOT_JSON && printed.length <= MAX_JSON) {
    const result = quote(printed);
    if (fits(result, MAX_JSON)) return fields(true, result, quote(text), 'null', 'null', cut);
  }
  return fields(true, 'null', quote(text), 'null', 'null', true);
};

// `details` says where code has a mistake of syntax; null if it has none.
exports.failure = (thrown, details) => {
  const { json, cut } = errors.exception(thrown, details);
  return fields(false, 'null', 'null', json, 'null', cut);
};

exports.interrupted = () => {
  const message = 'execution was interrupted';
  const exception = `{"name":"Interrupted","message":"${message}","traceback":["Interrupted: ${message}"]}`;
  return fields(false, 'null', 'null', exception, 'null', false);
};

exports.exited = (code) => fields(code === 0, 'null', 'null', 'null', code, false);

// The value as JSON text of at most so many bytes if it is exactly JSON, else null.
exports.jsonOf = (value, most) => {
  const json = toJson(value, most);
  return typeof json === 'string' ? json : null;
};

// JSON text, NOT_JSON or TOO_BIG.
function toJson(value, most) {
  try {
    const writer = new JsonWriter(most);
    writer.write(value, 0);
    return fits(writer.text, most) ? writer.text : TOO_BIG;
  } catch (reason) {
    return reason === TOO_BIG ? TOO_BIG : NOT_JSON;
  }
}

// Whether a text is at most so many bytes of UTF-8, in which a character takes up to three for each of its units.
function fits(text, most) {
  return text.length <= most / 3 || (text.length <= most && p.encode(text).length <= most);
}

class JsonWriter {
  text = '';
  #most;

  constructor(most) {
    this.#most = most;
  }

  write(value, depth) {
    if (this.text.length > this.#most) throw TOO_BIG;
    const kind = typeof value;
    if (kind === 'string') {
      if (value.length > this.#most) throw TOO_BIG;
      this.text += quote(value);
    } else if (kind === 'number') {
      this.text += numberText(value);
    } else if (kind === 'bigint') {
      this.text += `"${value}"`;
    } else if (value === null || kind === 'boolean') {
      this.text += value;
    } else if (kind !== 'object' || p.isProxy(value) || depth === MAX_DEPTH) {
      throw NOT_JSON;
    } else if (p.isArray(value)) {
      this.#array(value, depth + 1);
    } else {
      this.#object(value, depth + 1);
    }
  }

  #array(values, depth) {
    const { length } = values;
    if (p.prototypeOf(values) !== p.ArrayPrototype) throw NOT_JSON;
    if (length > this.#most / 2) throw TOO_BIG;
    if (p.ownKeys(values).length !== length + 1) throw NOT_JSON;
    this.text += '[';
    for (let at = 0; at < length; at += 1) {
      if (at > 0) this.text += ',';
      this.write(dataOf(values, at), depth);
    }
    this.text += ']';
  }

  #object(value, depth) {
    const prototype = p.prototypeOf(value);
    if (prototype !== p.ObjectPrototype && prototype !== null) throw NOT_JSON;
    const keys = p.ownKeys(value);
    this.text += '{';
    for (let at = 0; at < keys.length; at += 1) {
      const key = keys[at];
      if (typeof key !== 'string') throw NOT_JSON;
      this.text += at > 0 ? `,${quote(key)}:` : `${quote(key)}:`;
      this.write(dataOf(value, key), depth);
    }
    this.text += '}';
  }
}

function dataOf(object, key) {
  const property = p.describe(object, key);
  if (property === undefined || !property.enumerable || !p.hasOwn(property, 'value')) throw NOT_JSON;
  return property.value;
}

function numberText(value) {
  if (value !== value) return '"NaN"';
  if (value === Infinity) return '"Infinity"';
  if (value === -Infinity) return '"-Infinity"';
  if (value === 0) return 1 / value < 0 ? '-0.0' : '0';
  return isLarge(value) ? `"${p.BigInt(value)}"` : `${value}`;
}

// Whether a number is an integer beyond those that a client can be trusted with, and printed with all its digits.
function isLarge(value) {
  return (value > 9007199254740991 || value < -9007199254740991) && value < 1e21 && value > -1e21;
}
