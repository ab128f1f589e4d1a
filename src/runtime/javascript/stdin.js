// process.stdin: a fresh stream for each execution, on the pipe that is descriptor 0.
//
// In the mode `ask` the gateway is told before the program waits for a line. A readline interface that has been asked
// nothing and whose lines nobody hears is not waiting, although it reads; so the question is put one turn of the event
// loop after the stream wants something. What readline would print as its question goes with it instead.
'use strict';

const { Readable } = require('stream');
const p = load('primordials');
const { clip, quote } = load('text');
const { Pipe, constants } = process.binding('pipe_wrap');
const open = p.uncurry(Pipe.prototype.open);
const readStart = p.uncurry(Pipe.prototype.readStart);
const readStop = p.uncurry(Pipe.prototype.readStop);
const setBlocking = p.uncurry(Pipe.prototype.setBlocking);
const toBuffer = Buffer.from;
const activeResources = process.getActiveResourcesInfo;

const MAX_PROMPT = 4096;
const CHUNK = 65536;
const FILE_TYPE = 0o170000;
const STREAMS = { __proto__: null, [0o010000]: true, [0o140000]: true }; // FIFO and socket
const PIPE = 'PipeWrap'; // the driver's, and those of children, who count themselves
const OWN_RESOURCES = 1; // beside pipes: the timer that keeps the process alive
const NEWLINE = 10;

let mode = 'none';
let input = null; // that of the current execution, once it was asked for
let pipe = null;
let ask;
let fail;

class Input extends Readable {
  fd = 0;
  waiting = false; // wants data
  reading = false; // gets them when they come
  question = null; // the text that readline is to print
  unanswered = false; // whether no line has come since
  rest = null; // bytes that wait until somebody wants them
  interfaces = new Set();

  constructor(asks) {
    super({ highWaterMark: 0 }); // else it would read, and ask, ahead
    this.asks = asks;
  }

  _read() {
    this.waiting = true;
    if (this !== input || mode === 'none') p.setImmediate(() => this.take(undefined));
    else this.proceed();
  }

  resume() {
    super.resume();
    this.proceed();
    return this;
  }

  // Reads, if the stream wants data; asks first, if that is the mode and somebody waits for them.
  proceed() {
    if (this.wants()) p.setImmediate(() => this.begin());
  }

  wants() {
    return this.waiting && !this.reading && this === input && mode !== 'none';
  }

  begin() {
    if (!this.wants() || !this.isAwaited()) return;
    if (this.rest !== null) {
      this.take(this.rest);
      return;
    }
    if (this.asks) {
      const question = clip(this.question ?? '', MAX_PROMPT).text;
      this.question = null;
      ask(quote(question), false);
    }
    this.reading = true;
    read();
  }

  isAwaited() {
    if (this.readableFlowing === false && this.listenerCount('readable') === 0) return false;
    const interfaces = this.openInterfaces();
    return interfaces.length === 0 || this.unanswered || interfaces.some(hearsLines);
  }

  openInterfaces() {
    return [...this.interfaces].filter((it) => !it.closed && it.input === this);
  }

  // Takes bytes, or undefined for the end. An interface that nobody listens to would drop what follows its answer.
  take(bytes) {
    this.waiting = this.reading = false;
    this.rest = null;
    if (bytes === undefined) {
      if (this.unanswered) p.setImmediate(() => p.setImmediate(failIfStuck));
      this.push(null);
      return;
    }
    const end = bytes.indexOf(NEWLINE) + 1;
    const split = this.unanswered && end > 0 && end < bytes.length && !this.openInterfaces().some(hearsLines);
    if (split) this.rest = bytes.subarray(end);
    if (end > 0) this.unanswered = false;
    this.push(split ? bytes.subarray(0, end) : bytes);
  }

  // Readline has a question. Returns whether it is to print it itself.
  note(question) {
    this.unanswered = true;
    this.question = question;
    this.proceed();
    return !this.asks;
  }
}

const hearsLines = (it) => it.listenerCount('line') > 0;

// Begins to read; the current input takes what comes.
function read() {
  if (pipe === null && !openPipe()) {
    const bytes = Buffer.allocUnsafeSlow(CHUNK);
    const size = p.readSync(0, bytes, 0, CHUNK, null);
    const got = size === 0 ? undefined : bytes.subarray(0, size);
    p.setImmediate(() => input?.take(got));
    return;
  }
  readStart(pipe);
}

// Returns false if descriptor 0 is a file, which never makes anybody wait.
function openPipe() {
  if (STREAMS[p.fstatSync(0).mode & FILE_TYPE] === undefined) return false;
  const made = new Pipe(constants.SOCKET);
  if (open(made, 0) !== 0) return false;
  setBlocking(made, true); // children and fs.readSync share it
  made.unref();
  made.onread = (bytes) => {
    readStop(made);
    input?.take(bytes === undefined ? undefined : toBuffer(bytes));
  };
  pipe = made;
  return true;
}

// After the end of the input: a program that waits for an answer, and for nothing else, would wait for ever.
function failIfStuck() {
  const resources = p.apply(activeResources, process, []);
  let others = 0;
  for (let at = 0; at < resources.length; at += 1) if (resources[at] !== PIPE) others += 1;
  if (others > OWN_RESOURCES) return;
  const error = new Error('the input has ended, and the program waits for an answer');
  error.name = 'EndOfInput';
  fail(error);
}

// Lets the methods that interfaces of readline inherit tell the input what they do.
let hooked = false;
function hookReadline() {
  if (hooked) return;
  hooked = true;
  let shared = require('readline').Interface.prototype;
  while (!Object.hasOwn(shared, 'prompt')) shared = Object.getPrototypeOf(shared);
  const { prompt, setPrompt } = shared;
  hook(shared, 'setPrompt', function (text) {
    if (input !== null && !input.interfaces.has(this)) {
      input.interfaces.add(this);
      this.on('newListener', (event) => {
        if (event === 'line') p.setImmediate(() => input?.proceed());
      });
    }
    return setPrompt.call(this, text);
  });
  hook(shared, 'prompt', function (preserveCursor) {
    if (this.input !== input || input === null || this.terminal || input.note(this.getPrompt())) {
      return prompt.call(this, preserveCursor);
    }
    if (this.paused) this.resume();
    return undefined;
  });
}

const hook = (object, name, value) => Object.defineProperty(object, name, { value, configurable: true, writable: true });

// `askGateway` waits until a question, as JSON, stands in the log; `failRun` ends the execution with an error.
exports.install = (askGateway, failRun) => {
  ask = askGateway;
  fail = failRun;
  const get = () => {
    if (input === null) {
      hookReadline();
      input = new Input(mode === 'ask');
    }
    return input;
  };
  Object.defineProperty(process, 'stdin', { configurable: true, enumerable: true, get });
};

exports.beginExecution = (newMode) => {
  mode = newMode;
  input = null;
};

// What still reads finds the end.
exports.endExecution = () => {
  const old = input;
  mode = 'none';
  input = null;
  if (pipe !== null) readStop(pipe);
  if (old !== null) p.setImmediate(() => old.push(null));
};
