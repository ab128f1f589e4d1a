// Output of timers that an earlier execution has set, while another one runs: it is no part of that one's, and the
// gateway is told so before it is written, and again before the next output of that one.
'use strict';

const { AsyncResource, executionAsyncId, executionAsyncResource } = require('async_hooks');
const { setTimeout, clearTimeout } = require('timers');
const p = load('primordials');

const asyncId = p.uncurry(AsyncResource.prototype.asyncId);
const sample = setTimeout(() => {}, 0);
const timerPrototype = p.prototypeOf(sample);
clearTimeout(sample);

const UNTRACKED = { __proto__: null, requireManualDestroy: true };

let running = false;
let first = 0; // what asynchronous things of the execution that runs are numbered from
let told = false; // whether the gateway takes output for nobody's
let tell; // (isNobodys), returns when the gateway knows

exports.install = (tellGateway) => {
  tell = tellGateway;
};

exports.beginExecution = () => {
  running = true;
  told = false;
  first = asyncId(new AsyncResource('execution', UNTRACKED));
};

exports.endExecution = () => {
  running = false;
};

// Call it before something is written.
exports.settleOwner = () => {
  if (!running) return;
  const isNobodys = executionAsyncId() < first && p.prototypeOf(executionAsyncResource()) === timerPrototype;
  if (isNobodys === told) return;
  told = isNobodys;
  tell(isNobodys);
};
