// The JavaScript driver: runs executions for a gateway and keeps their variables.
//
// Started as `node driver.js CONTROL INTERRUPTS`, the numbers of the control socket and of the pipe of interrupts.
// This file only prepares the interpreter; the files beside it do the work, each loaded by `load` below:
//
//     primordials.js  the language and Node as they were at start
//     control.js      frames, numbers and acknowledgements on the control socket
//     beginning.js    variables and directory of a session that gets an interpreter which was ready before
//     interrupts.js   who may be interrupted when; watcher.js is the thread that waits for interrupts
//     execution.js    runs one execution, from its message to its `done`
//     evaluator.js    V8's inspector: evaluates code and hands out live values
//     imports.js      rewrites `import`, which V8 refuses outside of modules
//     policy.js       which modules a program may import
//     redeclare.js    lets a declaration come again as another kind
//     report.js       values and errors as the text that a client sees
//     streams.js      process.stdout, process.stderr and console: nothing waits in a buffer
//     belated.js      output of timers that an earlier execution has set
//     stdin.js        process.stdin, a fresh one for each execution
//     ends.js         process.exit, uncaught errors, unhandled rejections
//     display.js      the global `display`
//     query.js        completion, documentation, "is this input finished?"
//     fault.js        the end of a driver that does not understand itself any more
//
// It refuses to know about sandboxes, time limits and clients. It never speaks over stdio.
//
// Rules that keep a session from harming its own driver:
// - Nothing of the driver is a global or in `require.cache`, and it calls nothing that user code could have patched:
//   it has what it uses from primordials.js, or lives among built-in objects of its own (`APART`). Where that was not
//   enough, the process ends: a session that is lost is told of, a wrong reply would not be.
// - Terminating JavaScript ends whatever runs. So driver code that must not end halfway is masked (interrupts.js),
//   and what it has to do after user code never depends on a stack frame that user code has returned to.
// - `ready` is sent before the larger part is loaded; the gateway's first message waits in the socket meanwhile.
'use strict';

const fs = require('fs');
const control = +process.argv[2];
const interrupts = +process.argv[3];
const ready = `{"t":"ready","m":1,"version":"${process.versions.node}"}`;
fs.writeSync(control, String(ready.length).padStart(8, '0') + ready);

const { compileFunction, createContext } = require('vm');
const { readFileSync } = fs;
const { apply } = Reflect;
const here = `${__dirname}/`;
const driverRequire = require;
const loaded = Object.create(null);
const globals = { process, Buffer, Object, Set, Error, TypeError, RangeError, SyntaxError, globalThis };
const PARAMETERS = ['exports', 'module', 'load', 'require', 'here'];
const WITH_GLOBALS = [...PARAMETERS, ...Object.keys(globals)]; // user code may replace or delete them
const APART = { __proto__: null, 'vendor/acorn': true, imports: true, query: true };
let apart; // a set of built-in objects that user code cannot patch

// Runs a file beside this one once, as a module that only the driver can see.
function load(name) {
  if (loaded[name] === undefined) {
    const filename = `${here}${name}.js`;
    const source = readFileSync(filename, 'utf8');
    const module = { exports: {} };
    const own = [module.exports, module, load, driverRequire, here];
    if (APART[name]) {
      apart ??= createContext();
      apply(compileFunction(source, PARAMETERS, { __proto__: null, filename, parsingContext: apart }), undefined, own);
    } else {
      const body = compileFunction(source, WITH_GLOBALS, { __proto__: null, filename });
      apply(body, undefined, [...own, ...Object.values(globals)]);
    }
    loaded[name] = module.exports;
  }
  return loaded[name];
}

delete require.cache[__filename];
process.mainModule = undefined;
process.argv.length = 1;

load('primordials');
load('execution').serve(control, interrupts, ready);
