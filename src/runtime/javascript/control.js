// The driver's end of the control socket: frames, numbers, acknowledgements.
//
// A frame is 8 decimal digits and as many bytes of JSON. Messages that must not be lost carry a number "m" and are
// kept until they are acknowledged; after a `hello` they are sent again, in order. The socket is read while no
// execution runs, and while a message waits for its acknowledgement. This file runs no user code; what is malformed
// ends the process.
'use strict';

const p = load('primordials');
const { orFault } = load('fault');
const { Pipe, constants } = process.binding('pipe_wrap');
const readStart = p.uncurry(Pipe.prototype.readStart);
const readStop = p.uncurry(Pipe.prototype.readStop);
const setBlocking = p.uncurry(Pipe.prototype.setBlocking);
const useUserBuffer = p.uncurry(Pipe.prototype.useUserBuffer);

const HEADER = 8;
const MAX_FRAME = 65536;
const EX_PROTOCOL = 76;

class Control {
  #fd;
  #pipe = new Pipe(constants.SOCKET);
  // What Node reads goes here. No byte of JSON is 0, so the rest of it shows how much that was, even if the termination
  // of JavaScript has ended the callback.
  #arrived = new p.Uint8Array(MAX_FRAME);
  #inbox = new p.Uint8Array(0);
  #oldest = null; // unacknowledged messages, in order
  #newest = null;
  #numbered = 0;
  #finished = 0; // the highest execution that is done
  #begun = 0; // the highest execution that was handed on: a new gateway sends it again while it runs
  #postponed = null; // a message that came while another waited for its acknowledgement
  #paused = false;
  #reading = true;
  #partsOf = null;
  #parts = 0;
  #text = '';
  #guard;
  #onMessage;

  // `onMessage` is called with each query and each execution that is no repeat. `guard` (interrupts.js) keeps user
  // interrupts away while messages are served.
  constructor(fd, ready, guard, onMessage) {
    this.#fd = fd;
    this.#guard = guard;
    this.#onMessage = onMessage;
    this.#keep(frameOf(ready));
    if (this.#pipe.open(fd) !== 0) p.reallyExit(EX_PROTOCOL);
    useUserBuffer(this.#pipe, this.#arrived);
    this.#pipe.onread = () => {
      if (!this.#takeArrived()) p.reallyExit(0);
      this.#serveGuarded();
    };
    this.#pipe.unref(); // else `process._getActiveHandles` would show it
    readStart(this.#pipe);
  }

  // Serves nothing more until `resume`.
  pause() {
    this.#paused = true;
  }

  // Reads nothing more until `resume`, which matters only if the event loop has its turn before.
  stopReading() {
    this.#reading = false;
    readStop(this.#pipe);
  }

  resume() {
    this.#paused = false;
    if (!this.#reading) readStart(this.#pipe);
    this.#reading = true;
  }

  // Serves what has been read, until an execution pauses it.
  serve() {
    this.#takeArrived();
    while (!this.#paused) {
      const message = this.#postponed ?? this.#next();
      if (message === null) return;
      this.#postponed = null;
      if (this.#serveAtOnce(message)) continue;
      if (message.t === 'exec') this.#begun = message.n;
      this.#onMessage(message);
    }
  }

  get finished() {
    return this.#finished;
  }

  // Sends a message that is kept until it is acknowledged; returns its number. `fields` are the rest of it, as JSON
  // without the braces. With `most`, a message of more bytes is not sent, and the result is 0.
  sendReliable(kind, fields, most = Infinity) {
    const frame = frameOf(`{"t":"${kind}","m":${this.#numbered + 1},${fields}}`);
    if (frame.length - HEADER > most) return 0;
    this.#keep(frame);
    this.#write(frame);
    return this.#numbered;
  }

  // Reports the end of execution `n`.
  done(n, fields) {
    this.#finished = n;
    this.sendReliable('done', `"n":${n},${fields}`);
  }

  reply(n, body) {
    this.#write(frameOf(`{"t":"reply","n":${n},"body":${body}}`));
  }

  // Waits, with all of JavaScript, until message `number` is stored.
  waitFor(number) {
    setBlocking(this.#pipe, true);
    while (this.#oldest !== null && this.#oldest.number <= number) {
      const message = this.#next();
      if (message === null) this.#readMore();
      else if (!this.#serveAtOnce(message)) this.#postpone(message);
    }
    setBlocking(this.#pipe, false);
    p.setImmediate(() => this.#serveGuarded());
  }

  // The code of an execution or a query, wherever it came in.
  codeOf(message) {
    if (!p.hasOwn(message, 'parts')) return message.code;
    if (this.#partsOf !== message.n || this.#parts !== message.parts) p.reallyExit(EX_PROTOCOL);
    const text = this.#text;
    this.#partsOf = null;
    this.#text = '';
    return text;
  }

  #serveGuarded() {
    if (this.#paused || !this.#guard.mask()) return;
    orFault(() => this.serve());
    if (!this.#paused) this.#guard.open();
  }

  #serveAtOnce(message) {
    const kind = message.t;
    if (kind === 'hello') this.#greet(message.nonce);
    else if (kind === 'part') this.#collect(message);
    else if (kind === 'ack') this.#forget(message.m);
    else if (kind === 'begin') load('beginning').begin(message);
    else if (kind === 'exec') {
      if (p.hasOwn(message, 'ack')) this.#forget(message.ack);
      return message.n <= this.#begun;
    } else return kind !== 'query';
    return true;
  }

  #postpone(message) {
    if (this.#postponed !== null) p.reallyExit(EX_PROTOCOL);
    this.#postponed = message;
  }

  // Answers a gateway that wants to synchronise. It looks for these very bytes: the order of keys matters.
  #greet(nonce) {
    this.#guard.fence();
    this.#write(frameOf(`{"t":"hello","nonce":${p.stringify(nonce)},"last":${this.#finished}}`));
    for (let kept = this.#oldest; kept !== null; kept = kept.next) this.#write(kept.frame);
  }

  #collect({ n, i, s }) {
    if (i === 0) {
      this.#partsOf = n;
      this.#parts = 0;
      this.#text = '';
    }
    if (this.#partsOf !== n || i > this.#parts) p.reallyExit(EX_PROTOCOL);
    if (i === this.#parts) {
      this.#parts += 1;
      this.#text += s;
    }
    this.#write(frameOf(`{"t":"part","n":${n},"i":${i}}`));
  }

  #keep(frame) {
    this.#numbered += 1;
    const kept = { number: this.#numbered, frame, next: null };
    if (this.#oldest === null) this.#oldest = kept;
    else this.#newest.next = kept;
    this.#newest = kept;
  }

  #forget(number) {
    while (this.#oldest !== null && this.#oldest.number <= number) this.#oldest = this.#oldest.next;
  }

  // The next whole message, or null.
  #next() {
    const inbox = this.#inbox;
    if (inbox.length < HEADER) return null;
    let size = 0;
    for (let at = 0; at < HEADER; at += 1) {
      const digit = inbox[at] - 48;
      if (digit < 0 || digit > 9) p.reallyExit(EX_PROTOCOL);
      size = size * 10 + digit;
    }
    if (size > MAX_FRAME) p.reallyExit(EX_PROTOCOL);
    if (inbox.length < HEADER + size) return null;
    this.#inbox = p.subarray(inbox, HEADER + size);
    try {
      return p.parseJson(p.decode(p.subarray(inbox, HEADER, HEADER + size)));
    } catch {
      return p.reallyExit(EX_PROTOCOL);
    }
  }

  #takeArrived() {
    const end = p.indexOfByte(this.#arrived, 0);
    const size = end < 0 ? this.#arrived.length : end;
    if (size === 0) return false;
    this.#append(p.sliceBytes(this.#arrived, 0, size));
    p.fillBytes(this.#arrived, 0, 0, size);
    return true;
  }

  #append(bytes) {
    if (this.#inbox.length === 0) {
      this.#inbox = bytes;
      return;
    }
    const joined = new p.Uint8Array(this.#inbox.length + bytes.length);
    p.setBytes(joined, this.#inbox);
    p.setBytes(joined, bytes, this.#inbox.length);
    this.#inbox = joined;
  }

  #readMore() {
    const room = new p.Uint8Array(MAX_FRAME);
    const size = this.#retried(() => p.readSync(this.#fd, room, 0, MAX_FRAME, null));
    if (size === 0) p.reallyExit(0);
    this.#append(p.subarray(room, 0, size));
  }

  #write(frame) {
    let written = 0;
    while (written < frame.length) {
      written += this.#retried(() => p.writeSync(this.#fd, frame, written, frame.length - written));
    }
  }

  // Waits where the socket has no room or nothing to read. A lost peer ends the process.
  #retried(call) {
    let blocking = false;
    for (;;) {
      try {
        const size = call();
        if (blocking) setBlocking(this.#pipe, false);
        return size;
      } catch (error) {
        if (error.code !== 'EAGAIN' && error.code !== 'EINTR') p.reallyExit(0);
        setBlocking(this.#pipe, true);
        blocking = true;
      }
    }
  }
}

function frameOf(payload) {
  const frame = p.encode(`00000000${payload}`);
  let size = frame.length - HEADER;
  for (let at = HEADER - 1; size > 0; at -= 1) {
    frame[at] = 48 + (size % 10);
    size = (size - (size % 10)) / 10;
  }
  return frame;
}

exports.Control = Control;
