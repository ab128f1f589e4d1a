// process.stdout, process.stderr and console. Each write is one write(2) that is over when the call returns, so
// nothing is lost however the process ends, and what children print stands in its place.
//
// A stream that was ended or destroyed is replaced, because others of the session still need it.
'use strict';

const { Console } = require('console');
const { Writable } = require('stream');
const p = load('primordials');
const belated = load('belated');
const { Pipe, constants } = process.binding('pipe_wrap');
const setBlocking = p.uncurry(Pipe.prototype.setBlocking);

class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: false, highWaterMark: 1 << 20 });
    this.fd = fd;
    this._type = 'pipe';
    this._isStdio = true;
  }

  // Termination in the middle would leave the stream waiting for the end of this write for ever.
  write(chunk, encoding, callback) {
    const within = guard.maskWithin();
    try {
      return super.write(chunk, encoding, callback);
    } finally {
      guard.openWithin(within);
    }
  }

  _write(chunk, encoding, done) {
    try {
      const bytes = typeof chunk === 'string' ? bytesOf(chunk, encoding) : chunk;
      belated.settleOwner();
      writeWhole(this.fd, bytes);
      done();
    } catch (error) {
      done(error);
    }
  }
}

const bytesOf = (text, encoding) => (encoding === 'utf8' || encoding === 'utf-8' ? p.encode(text) : Buffer.from(text, encoding));

let guard; // keeps interrupts away (interrupts.js)
const pipes = { __proto__: null };

// Writes all of the bytes, whatever full pipes and a non-blocking mode do to the call.
function writeWhole(fd, bytes) {
  let written = 0;
  while (written < bytes.length) {
    try {
      written += p.writeSync(fd, bytes, written, bytes.length - written);
    } catch (error) {
      if (error.code === 'EAGAIN') makeBlocking(fd);
      else if (error.code !== 'EINTR') throw error;
    }
  }
}

// A child that shares the pipe may have made it non-blocking.
function makeBlocking(fd) {
  if (pipes[fd] === undefined) {
    pipes[fd] = new Pipe(constants.SOCKET);
    pipes[fd].open(fd);
    pipes[fd].unref();
  }
  setBlocking(pipes[fd], true);
}

// Writes a line to stderr, for the driver itself.
exports.warn = (text) => {
  try {
    writeWhole(2, p.encode(`${text}\n`));
  } catch {
    // A program may have closed it.
  }
};

// The stream of the program, or another one after its end.
function offer(name, fd) {
  let stream = new Output(fd);
  const get = () => {
    if (stream.destroyed || stream.writableEnded) stream = new Output(fd);
    return stream;
  };
  const set = (value) => Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get, set });
}

// What a console needs of a stream, done by whatever is that stream at the moment.
const current = (name) => ({
  get _writableState() {
    return process[name]._writableState;
  },
  write: (...args) => process[name].write(...args),
  on: (...args) => process[name].on(...args),
  once: (...args) => process[name].once(...args),
  listenerCount: (...args) => process[name].listenerCount(...args),
  removeListener: (...args) => process[name].removeListener(...args),
});

exports.install = (interrupts) => {
  guard = interrupts;
  offer('stdout', 1);
  offer('stderr', 2);
  // Node's own console also tells V8's, which would keep what was printed.
  const plain = new Console({ stdout: current('stdout'), stderr: current('stderr') });
  for (const name of Object.keys(console)) {
    if (typeof plain[name] === 'function' && name !== 'Console') console[name] = plain[name];
  }
};
