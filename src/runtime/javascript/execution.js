// Runs executions: from the message that asks for one to its `done`.
//
//     begin ─▶ imports ─▶ evaluate ─▶ (await) ─▶ describe the value ─▶ finish
//     masked   └──────────── open: may end anywhere ─────────────┘     masked
//
// Whatever ends it first finishes it: its own end, an interrupt, `process.exit`. Code that runs open may be ended with
// all its stack frames, so each step leaves what the next one needs in the run, and never counts on being returned to.
'use strict';

const p = load('primordials');
const { Control } = load('control');
const { Interrupts } = load('interrupts');
const { Evaluator } = load('evaluator');
const { orFault } = load('fault');
const report = load('report');
const belated = load('belated');
const streams = load('streams');
const stdin = load('stdin');
const ends = load('ends');
const display = load('display');
const modules = load('modules');
const policy = load('policy');

const KEEP_ALIVE_MS = 0x7fffffff;
const MAX_DISPLAY = 4 << 20;

class Runner {
  #interrupts;
  #control;
  #evaluator = new Evaluator();
  #run = null;

  constructor(control, interrupts, ready) {
    this.#interrupts = new Interrupts(interrupts, (wanted) => this.#onAnswer(wanted));
    this.#control = new Control(control, ready, this.#interrupts, (message) => this.#onMessage(message));
    setInterval(() => {}, KEEP_ALIVE_MS);
  }

  // Prepares what user code finds, and begins to serve.
  serve() {
    streams.install(this.#interrupts);
    belated.install((isNobodys) => this.#own(isNobodys));
    modules.install();
    ends.install((code) => this.#exit(code));
    display.install((data, metadata) => this.#display(data, metadata));
    stdin.install((prompt, password) => this.#ask(prompt, password), (error) => this.#fail(error));
    this.#rehearse();
    this.#interrupts.open();
  }

  // Runs lines as executions do, as a script and by the inspector, for nobody, so that the first ones find compiled what
  // they need.
  #rehearse() {
    for (const line of ['1 + 1', '1 + 1 // let']) {
      const { body } = modules.prepare(line);
      this.#evaluator.evaluateAgain(body, `${here}rehearsal`, () => this.#evaluator.forgetValues());
    }
  }

  #onMessage(message) {
    const code = this.#control.codeOf(message);
    if (message.t === 'exec') {
      this.#begin(message, code);
      return;
    }
    const cursor = p.hasOwn(message, 'cursor') ? message.cursor : 0;
    this.#control.reply(message.n, load('query').answer(this.#evaluator, message.kind, code, cursor));
  }

  #begin(message, code) {
    const run = { n: message.n, count: message.count, outcome: null, inside: true };
    this.#run = run;
    this.#control.pause();
    if (this.#interrupts.begin()) {
      this.#finish(report.interrupted(), p.monotonic());
      return;
    }
    belated.beginExecution();
    stdin.beginExecution(message.stdin);
    this.#interrupts.open();
    this.#start(run, code);
    run.inside = false;
    if (!this.#conclude(run)) this.#leaveUnread(run);
  }

  // An execution that goes on takes turns with the event loop.
  #leaveUnread(run) {
    if (!this.#interrupts.mask()) return;
    if (this.#run === run) this.#control.stopReading();
    this.#interrupts.open();
  }

  // Runs the imports of the code, if it has some, and then the code.
  #start(run, code) {
    const { prologue, body } = modules.prepare(code);
    const main = () => this.#evaluator.evaluateAgain(body, `<cell:${run.count}>`, (outcome) => this.#settle(run, outcome));
    if (prologue === null) {
      main();
    } else {
      this.#evaluator.evaluateAgain(prologue, `${here}imports`, (outcome) => {
        if (outcome.threw) this.#settle(run, outcome);
        else main();
      });
    }
    if (!this.#evaluator.wasTerminated) ends.runTicks();
  }

  // Takes note of how the code ended. Rejections of the same moment are reported first, hence the turn of the loop.
  #settle(run, outcome) {
    if (this.#run !== run || run.outcome !== null) return;
    if (!outcome.threw && p.isPromise(outcome.value)) {
      this.#awaitValue(run, outcome.value);
      return;
    }
    run.outcome = outcome;
    if (!run.inside) this.#concludeSoon(run);
  }

  #concludeSoon(run) {
    p.setImmediate(() => {
      orFault(() => {
        if (this.#conclude(run)) this.#serveOn();
      });
    });
  }

  // Describes how the code ended, which runs user code, and reports it. Returns whether that was done.
  #conclude(run) {
    if (this.#run !== run || run.outcome === null) return false;
    const fields = this.#describe(run.outcome);
    this.#evaluator.forgetValues();
    const endNs = p.monotonic();
    if (!this.#interrupts.mask()) return false;
    this.#finish(fields, endNs);
    return true;
  }

  #describe({ threw, value, exit, details }) {
    if (exit !== undefined) return report.exited(exit);
    if (threw) return report.failure(value, details);
    modules.keepLast(value);
    return report.success(value);
  }

  // At once, before its rejection counts as unhandled.
  #awaitValue(run, promise) {
    awaitQuietly(
      promise,
      (value) => this.#settle(run, { threw: false, value, details: null }),
      (error) => this.#settle(run, { threw: true, value: error, details: null }),
    );
  }

  // Masked: reports the end of the execution, and reads on.
  #finish(fields, endNs) {
    const { n } = this.#run;
    this.#run = null;
    this.#interrupts.end();
    belated.endExecution();
    stdin.endExecution();
    this.#control.done(n, `${policy.takeViolations()}${fields},"end_ns":${endNs}`);
    this.#control.resume();
  }

  // Masked: serves what has come meanwhile.
  #serveOn() {
    this.#control.serve();
    if (this.#run === null) this.#interrupts.open();
  }

  // Masked. What a termination has kept from being served is served now.
  #onAnswer(wanted) {
    if (wanted && this.#run !== null) this.#finish(report.interrupted(), p.monotonic());
    else if (wanted) this.#interrupts.disregard();
    if (this.#run === null) this.#control.serve();
  }

  #exit(code) {
    const run = this.#run;
    if (run !== null && run.outcome?.exit === undefined) {
      run.outcome = { exit: code };
      this.#concludeSoon(run);
    }
    this.#evaluator.terminate();
  }

  #fail(error) {
    if (this.#run !== null) this.#settle(this.#run, { threw: true, value: error, details: null });
  }

  // Shows JSON texts at their place in the output. Returns false if they are too large.
  #display(data, metadata) {
    belated.settleOwner();
    const within = this.#interrupts.maskWithin();
    const n = this.#run === null ? 0 : this.#run.n;
    const number = this.#control.sendReliable('display', `"n":${n},"data":${data},"metadata":${metadata}`, MAX_DISPLAY);
    if (number > 0) this.#control.waitFor(number);
    this.#interrupts.openWithin(within);
    return number > 0;
  }

  // Tells whose output comes next.
  #own(isNobodys) {
    const within = this.#interrupts.maskWithin();
    const n = isNobodys || this.#run === null ? 0 : this.#run.n;
    this.#control.waitFor(this.#control.sendReliable('owner', `"n":${n}`));
    this.#interrupts.openWithin(within);
  }

  #ask(prompt, password) {
    const within = this.#interrupts.maskWithin();
    const n = this.#run === null ? 0 : this.#run.n;
    this.#control.waitFor(this.#control.sendReliable('input_request', `"n":${n},"prompt":${prompt},"password":${password}`));
    this.#interrupts.openWithin(within);
  }
}

async function awaitQuietly(promise, onValue, onError) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    onError(error);
    return;
  }
  onValue(value);
}

exports.serve = (control, interrupts, ready) => new Runner(control, interrupts, ready).serve();
