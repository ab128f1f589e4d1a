// Comes before the JavaScript of every attempt.
var fs = require('fs');
var { execFileSync, spawnSync } = require('child_process');

var attempt = async (what) => {
  try {
    const result = await what();
    console.log('ESCAPED:', result);
  } catch (error) {
    console.log('refused:', error.code ?? error.name, error.message.slice(0, 200));
  }
};

// What a program may do, and which shows nothing of others: it finds `nothing`, or it has escaped.
var find = async (what, nothing) => {
  const found = JSON.stringify(await what());
  console.log(found === JSON.stringify(nothing) ? 'refused: nothing' : 'ESCAPED:', found);
};

var connect = (options) =>
  new Promise((resolve, reject) => {
    const socket = require('net').connect(options, () => resolve('connected'));
    socket.on('error', reject);
    socket.setTimeout(3000, () => reject(new Error('timeout')));
  });
