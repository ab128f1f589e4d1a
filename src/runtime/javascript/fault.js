// The end of a driver that does not understand itself any more.
'use strict';

const p = load('primordials');

const EX_SOFTWARE = 70;

const fault = () => p.reallyExit(EX_SOFTWARE);

exports.fault = fault;

// Calls a function of the driver, which throws nothing unless user code has broken what it relies on.
exports.orFault = (call) => {
  try {
    return call();
  } catch {
    return fault();
  }
};
