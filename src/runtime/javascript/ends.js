// What would end a Node process and here ends less: process.exit, uncaught errors, unhandled rejections, SIGINT.
'use strict';

const p = load('primordials');
const errors = load('errors');
const { STOP } = load('evaluator');
const streams = load('streams');

const { SIGINT } = require('os').constants.signals;
const REASON = 'The promise rejected with the reason "';

const captureUncaught = process.setUncaughtExceptionCaptureCallback;
const hasCapture = process.hasUncaughtExceptionCaptureCallback;
const fatal = process._fatalException;
const listenerCount = p.uncurry(process.listenerCount);
const emit = p.uncurry(process.emit);

let kept; // else it would be collected

// `exit` ends the execution that runs, and does not return.
exports.install = (exit) => {
  ignoreInterruptSignals();
  process.exit = function (code) {
    const asked = code === undefined ? process.exitCode : code;
    exit(statusOf(asked));
  };
  const property = { __proto__: null, value: onUncaught, writable: false, configurable: false, enumerable: false };
  p.define(process, '_fatalException', property);
};

// Runs the callbacks and reactions of promises that are due, and reports what they throw and what nobody handles.
exports.runTicks = () => {
  for (;;) {
    try {
      p.runTicks();
      return;
    } catch (error) {
      handle(error, false);
    }
  }
};

// A listener could be removed by the program.
function ignoreInterruptSignals() {
  const before = process.noDeprecation;
  process.noDeprecation = true;
  const { Signal } = process.binding('signal_wrap');
  process.noDeprecation = before;
  const signal = new Signal();
  signal.onsignal = () => {};
  signal.unref();
  signal.start(SIGINT);
  kept = signal;
}

function statusOf(code) {
  if (code === undefined || code === null) return 0;
  const number = p.Number(code);
  return number === number ? number & 0xff : 1;
}

// Stands in for Node's own, which would end the process if nobody handles the error.
function onUncaught(error, fromPromise) {
  const captured = p.apply(hasCapture, process, []);
  if (!captured) captureUncaught((it) => handle(it, fromPromise));
  try {
    return p.apply(fatal, process, [error, fromPromise]);
  } catch {
    return true; // user code has broken what Node does before it asks us
  } finally {
    if (!captured) captureUncaught(null);
  }
}

function handle(error, fromPromise) {
  if (listenerCount(process, 'uncaughtException') > 0) {
    try {
      emit(process, 'uncaughtException', error, fromPromise ? 'unhandledRejection' : 'uncaughtException');
      return;
    } catch (another) {
      tell(another, false);
    }
  }
  tell(error, fromPromise);
}

function tell(error, fromPromise) {
  if (error === STOP) return;
  const text = (fromPromise ? reasonOf(error) : null) ?? errors.print(error);
  streams.warn(`Uncaught ${fromPromise ? '(in promise) ' : ''}${text}`);
}

// The printed form of what a promise was rejected with, if that is no error: Node packs it into one, in quotes.
function reasonOf(error) {
  const code = p.isNativeError(error) ? p.describe(error, 'code') : undefined;
  if (code === undefined || code.value !== 'ERR_UNHANDLED_REJECTION') return null;
  const message = p.describe(error, 'message').value;
  const start = p.indexOf(message, REASON);
  return start < 0 ? null : p.slice(message, start + REASON.length, -2);
}
