// Who may be interrupted when.
//
// An interrupt is a byte on a pipe that a thread of its own waits for (watcher.js). It first asks the main thread by
// a message, which ends an execution that awaits something. If no answer comes, JavaScript is running, and is
// terminated: that unwinds whatever runs, catchable by nobody. The two threads agree on a word of shared memory:
//
//     MASKED ── open() ──▶ OPEN ── the watcher ──▶ KILLING          MASKED: driver code, which must not end halfway.
//       ▲                   │                         │             OPEN: user code may be running.
//       └───── mask() ──────┘                         │             KILLING: a termination has been ordered. Driver
//       └────────────── the watcher's message ────────┘             code that finds this leaves everything to the
//                                                                   watcher's next message, before which it happens.
'use strict';

const p = load('primordials');
const { fault, orFault } = load('fault');
const { Worker, MessageChannel } = require('worker_threads');
const { MASKED, OPEN, KILLING, ORDERING, STATE, WANTED, RUNNING, FENCE, FENCED, WORDS } = load('words');
const { load: read, store, compareExchange, notify, wait } = Atomics;

// The method by which Node hands a message to a port. Ours does without the events, which user code could break.
const DISPATCH = Symbol.for('nodejs.internal.kHybridDispatch');
const FENCE_MS = 5000;
const YIELD_MS = 10;

class Interrupts {
  #words = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  #port;
  #postMessage;
  #early = false; // whether an interrupt came that may be for an execution which is still in the socket

  // `onAnswer` is called, masked, after each message of the watcher, and told whether what runs is to end.
  constructor(fd, onAnswer) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#postMessage = p.uncurry(port1.postMessage);
    port1.onmessage = () => this.#answer(onAnswer);
    if (typeof port1[DISPATCH] === 'function') {
      p.define(port1, DISPATCH, { __proto__: null, value: port1.onmessage });
    }
    const thread = new Worker(`${here}watcher.js`, {
      workerData: { fd, words: this.#words, port: port2 },
      transferList: [port2],
      env: {},
      execArgv: [],
      stdout: true, // else Node would open its own streams on the descriptors
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, codeRangeSizeMb: 8, stackSizeMb: 1 },
    });
    thread.unref();
    port1.unref();
  }

  // Begins an execution. Returns whether an interrupt is here for it already.
  begin() {
    store(this.#words, RUNNING, 1);
    return this.#early || read(this.#words, WANTED) === 1;
  }

  // Ends an execution: what interrupts came so far were for it.
  end() {
    store(this.#words, RUNNING, 0);
    this.#answered();
  }

  // Lets user code run.
  open() {
    compareExchange(this.#words, STATE, MASKED, OPEN);
  }

  // Begins driver code. If it returns false, leave everything as it is and return to the event loop.
  mask() {
    return compareExchange(this.#words, STATE, OPEN, MASKED) === OPEN;
  }

  // Begins driver code that user code has called. The result is for `openWithin`: masked code may be within such.
  maskWithin() {
    for (;;) {
      const state = compareExchange(this.#words, STATE, OPEN, MASKED);
      if (state === OPEN || state === MASKED) return state === OPEN;
    }
  }

  // Ends what `maskWithin` has begun. A program that does little else would hardly ever be found open, so it waits.
  openWithin(within) {
    if (!within) return;
    this.open();
    if (read(this.#words, WANTED) === 1) wait(this.#words, STATE, OPEN, YIELD_MS);
  }

  // Makes sure that no interrupt that was sent before this call ends anything.
  fence() {
    if (read(this.#words, RUNNING) === 1) return;
    this.#answered();
    const fence = read(this.#words, FENCE) + 1;
    store(this.#words, FENCE, fence);
    this.#postMessage(this.#port, null);
    if (wait(this.#words, FENCED, fence - 1, FENCE_MS) === 'timed-out') fault();
    this.#answered();
  }

  // A termination that was ordered before it read KILLING would have ended this in the last loop.
  #answer(onAnswer) {
    while (read(this.#words, STATE) === ORDERING);
    if (read(this.#words, STATE) === KILLING) {
      for (let turns = 0; turns < 3; turns += 1) read(this.#words, STATE);
      compareExchange(this.#words, STATE, KILLING, OPEN);
    }
    if (!this.mask()) return;
    orFault(() => onAnswer(read(this.#words, WANTED) === 1));
    this.open();
  }

  // Takes note of an interrupt that came while nothing ran. An execution that is still in the socket may be meant, so the
  // event loop has its turn before it is forgotten.
  disregard() {
    this.#answered();
    this.#early = true;
    p.setImmediate(() => {
      p.setImmediate(() => {
        this.#early = false;
      });
    });
  }

  #answered() {
    this.#early = false;
    store(this.#words, WANTED, 0);
    notify(this.#words, WANTED);
  }
}

exports.Interrupts = Interrupts;
