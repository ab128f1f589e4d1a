// Evaluates code by V8's inspector, which knows what a console needs: declarations that may come again, `await` at
// top level. What it answers about a value is a description; the value itself is fetched by a call.
//
// That takes longer than most code does. Code that has no word of those which mean another thing at a console is run as
// a script, which gives the same value; what V8 cannot parse goes to the inspector, which tells where it is wrong.
'use strict';

const { Session } = require('inspector');
const { Script } = require('vm');
const p = load('primordials');
const { fault } = load('fault');
const redeclare = load('redeclare');

// From Node 22 on, V8 calls us in the middle of a garbage collection, and aborts, when it collects a promise that the
// inspector waits for. So such promises are kept until they settle.
const { promiseHooks } = p.Number.parseInt(process.versions.node, 10) > 20 ? require('v8') : {};
const onInit = promiseHooks?.onInit;

const post = p.uncurry(Session.prototype.post);
const runInThisContext = p.uncurry(Script.prototype.runInThisContext);
// No escape is allowed in any of these.
const CONSOLE_WORDS = ['await', 'let', 'const', 'class', 'function', 'var', 'using', 'import', 'export'];
const QUIETLY = { __proto__: null, displayErrors: false };
const GROUP = 'execution';
const MAX_TRIES = 20;
const STOP = { __proto__: null };
// What V8 says of code that was terminated; the second is how Node 22 puts it.
const TERMINATED = ['Execution was terminated', 'Internal error'];
const HARMLESS = ['Promise was collected', 'Execution context was destroyed'];

class Evaluator {
  #session = new Session();
  #terminated = false;
  #receiver; // the inspector's name of a function that takes a value
  #received;
  #pending = new Set();
  #holds = false; // whether the inspector keeps values for us

  constructor() {
    ownSymbols(this.#session);
    this.#session.connect();
    const name = `repltool${process.hrtime.bigint()}`;
    globalThis[name] = (value) => {
      this.#received = value;
    };
    this.#receiver = this.ask('Runtime.evaluate', { expression: name }).result.objectId;
    delete globalThis[name];
  }

  // Runs code and calls back with {threw, value, details}, where details say where a mistake of syntax is. Nothing is
  // called back if the code was terminated.
  evaluate(code, name, callback) {
    this.#terminated = false;
    const script = has(code, CONSOLE_WORDS) ? null : compile(code, name);
    if (script === null) this.#inspect(code, name, callback);
    else callback(outcomeOf(script));
  }

  #inspect(code, name, callback) {
    const expression = `${code}\n//# sourceURL=${name}`;
    const parameters = { expression, replMode: true, awaitPromise: true, objectGroup: GROUP, silent: true };
    const pending = this.#keepPromise();
    this.#post('Runtime.evaluate', parameters, (error, answer) => {
      p.deleteFrom(this.#pending, pending);
      if (error !== null) return this.#lost(error);
      if (!p.hasOwn(answer, 'exceptionDetails')) {
        return callback({ threw: false, value: this.#fetch(answer.result), details: null });
      }
      const { exception, lineNumber: line, columnNumber: column } = answer.exceptionDetails;
      const details = isFoundByParser(answer.exceptionDetails) ? { name, code, line, column } : null;
      return callback({ threw: true, value: this.#fetch(exception), details });
    });
    pending?.stop();
  }

  // The same, for code that may declare what exists as another kind: nothing of it has run when V8 finds that.
  evaluateAgain(code, name, callback) {
    let first = null; // what V8 says of the code as it came
    let tries = MAX_TRIES;
    const attempt = (text) => {
      this.evaluate(text, name, (outcome) => {
        const conflict = outcome.details === null ? null : redeclare.nameOf(outcome.value);
        const other = conflict === null ? null : redeclare.rewrite(text, conflict, this.#isLexical(conflict));
        first ??= outcome;
        tries -= 1;
        if (other !== null && tries > 0) attempt(other);
        else callback(conflict === null ? outcome : first);
      });
    };
    attempt(code);
  }

  // Keeps the next promise that is made: that of the code which is about to run.
  #keepPromise() {
    if (onInit === undefined) return undefined;
    const pending = { promise: null, stop: null };
    pending.stop = onInit((promise) => {
      pending.promise ??= promise;
      pending.stop();
    });
    p.addTo(this.#pending, pending);
    return pending;
  }

  // Whether a name was declared by `let`, `const` or `class`.
  #isLexical(name) {
    const { names } = this.ask('Runtime.globalLexicalScopeNames', {});
    for (let at = 0; at < names.length; at += 1) if (names[at] === name) return true;
    return false;
  }

  // {remote, value} of an expression without side effects that takes at most `timeout` milliseconds; else null.
  peek(expression, timeout) {
    const limits = { throwOnSideEffect: true, timeout, silent: true, generatePreview: true, objectGroup: GROUP };
    const answer = this.ask('Runtime.evaluate', { expression, ...limits });
    if (answer === null || p.hasOwn(answer, 'exceptionDetails')) return null;
    const value = this.#fetch(answer.result);
    this.forgetValues();
    return { remote: answer.result, value };
  }

  // Ends the JavaScript that calls this, whatever it does. V8 refuses a second time until all of it has returned; what
  // is thrown then can be caught.
  terminate() {
    let refused = false;
    this.#post('Runtime.terminateExecution', undefined, (error) => {
      refused = error !== null;
    });
    while (!refused);
    throw STOP;
  }

  // Whether the last evaluation was terminated. Until the event loop has its turn nothing else can be.
  get wasTerminated() {
    return this.#terminated;
  }

  // The inspector keeps what it has described until it is told.
  forgetValues() {
    if (!this.#holds) return;
    this.#holds = false;
    this.#post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
  }

  #fetch(remote) {
    if (!p.hasOwn(remote, 'objectId')) return primitive(remote);
    this.#holds = true;
    this.#received = undefined;
    this.ask('Runtime.callFunctionOn', {
      objectId: this.#receiver,
      functionDeclaration: 'function (value) { this(value); }',
      arguments: [{ objectId: remote.objectId }],
      silent: true,
    });
    const value = this.#received;
    this.#received = undefined;
    return value;
  }

  // The answer to a request that V8 answers at once; null if it is an error.
  ask(method, parameters) {
    let answer = null;
    this.#post(method, parameters, (error, result) => {
      if (error === null) answer = result;
    });
    return answer;
  }

  // A `toJSON` that user code has given to all objects would change what is sent to the inspector.
  #post(method, parameters, callback) {
    const hook = p.describe(p.ObjectPrototype, 'toJSON');
    if (hook !== undefined && !p.remove(p.ObjectPrototype, 'toJSON')) fault();
    try {
      post(this.#session, method, parameters, callback);
    } finally {
      if (hook !== undefined) p.define(p.ObjectPrototype, 'toJSON', hook);
    }
  }

  #lost(error) {
    this.#terminated = has(error.message, TERMINATED);
    // Of a promise that was collected nothing will ever come, so it is waited for as for any that never settles.
    if (!this.#terminated && !has(error.message, HARMLESS)) fault();
  }
}

// A script, or null if V8 cannot parse it.
function compile(code, name) {
  try {
    return new Script(code, { __proto__: null, filename: name });
  } catch {
    return null;
  }
}

function outcomeOf(script) {
  try {
    return { threw: false, value: runInThisContext(script, QUIETLY), details: null };
  } catch (error) {
    return { threw: true, value: error, details: null };
  }
}

function has(text, phrases) {
  for (let at = 0; at < phrases.length; at += 1) if (p.indexOf(text, phrases[at]) >= 0) return true;
  return false;
}

// Node 18 keeps methods that the session calls on itself where user code could replace them.
function ownSymbols(session) {
  const keys = p.ownKeys(Session.prototype);
  for (let at = 0; at < keys.length; at += 1) {
    if (typeof keys[at] === 'symbol') p.define(session, keys[at], { __proto__: null, value: Session.prototype[keys[at]] });
  }
}

// The code never ran: there is no stack, and the error is one of syntax.
function isFoundByParser(details) {
  return !p.hasOwn(details, 'stackTrace') && details.exception.className === 'SyntaxError';
}

function primitive(remote) {
  if (!p.hasOwn(remote, 'unserializableValue')) return p.hasOwn(remote, 'value') ? remote.value : undefined;
  const text = remote.unserializableValue;
  if (remote.type === 'bigint') return p.BigInt(p.slice(text, 0, -1));
  return text === '-0' ? -0 : p.Number(text);
}

exports.Evaluator = Evaluator;
exports.STOP = STOP;
