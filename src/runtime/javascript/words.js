// The shared memory between the main thread and the watcher of interrupts.
'use strict';

exports.WORDS = 5;

// The places of the words.
exports.STATE = 0; // one of the states below
exports.WANTED = 1; // 1 while an interrupt waits for the main thread
exports.RUNNING = 2; // 1 while an execution runs
exports.FENCE = 3; // the number of the last fence that was asked for
exports.FENCED = 4; // and of the last one that was reached

exports.MASKED = 0;
exports.OPEN = 1;
exports.KILLING = 2;
exports.ORDERING = 3; // on the way to KILLING
