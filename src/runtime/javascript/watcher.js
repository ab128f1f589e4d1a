// A thread that waits for interrupts, and ends what the main thread runs (interrupts.js). No user code runs in it.
'use strict';

const fs = require('fs');
const inspector = require('inspector');
const net = require('net');
const { workerData } = require('worker_threads');
const { MASKED, OPEN, KILLING, ORDERING, STATE, WANTED, FENCE, FENCED, RUNNING } = require('./words.js');

// A main thread that only awaits something answers in much less. While nothing runs but timers of the user's, there is
// no hurry, and terminating might hit the reading of the next message.
const PATIENCE_RUNNING_MS = 4;
const PATIENCE_IDLE_MS = 50;
const ASK_AGAIN_MS = 2;
const ASKS_PER_TERMINATION = 12;

const { fd, words, port } = workerData;

function interrupt() {
  Atomics.store(words, WANTED, 1);
  port.postMessage(null);
  let patience = Atomics.load(words, RUNNING) === 1 ? PATIENCE_RUNNING_MS : PATIENCE_IDLE_MS;
  let session = null;
  for (let asks = 0; Atomics.wait(words, WANTED, 1, patience) === 'timed-out' && !fenceWanted(); asks += 1) {
    session ??= connect();
    if (asks % ASKS_PER_TERMINATION === 0) asks = terminate(session) ? 0 : -1;
    port.postMessage(null);
    patience = ASK_AGAIN_MS;
  }
  session?.disconnect();
}

function connect() {
  const session = new inspector.Session();
  session.connectToMainThread();
  return session;
}

// Returns false if the main thread is in the driver's code, which will soon be over.
function terminate(session) {
  const before = Atomics.load(words, STATE);
  if (before !== OPEN && before !== KILLING) return false;
  if (Atomics.compareExchange(words, STATE, before, ORDERING) !== before) return false;
  session.post('Runtime.terminateExecution');
  Atomics.store(words, STATE, KILLING);
  return true;
}

function fenceWanted() {
  return Atomics.load(words, FENCE) !== Atomics.load(words, FENCED);
}

// Takes all interrupts that were sent until now out of the pipe.
function drain() {
  const bytes = Buffer.alloc(4096);
  try {
    while (fs.readSync(fd, bytes) > 0);
  } catch (error) {
    if (error.code !== 'EAGAIN') throw error;
  }
}

port.on('message', () => {
  drain();
  Atomics.store(words, WANTED, 0);
  Atomics.store(words, FENCED, Atomics.load(words, FENCE));
  Atomics.notify(words, FENCED);
});
new net.Socket({ fd, readable: true, writable: false }).on('data', interrupt);
