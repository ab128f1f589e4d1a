// What a session has of its own, laid over an interpreter that booted before anybody knew of that session.
'use strict';

const WORKSPACE = '/workspace/';

// Takes over the session's variables and goes to its directory. No user code has run yet.
exports.begin = ({ directory, environment }) => {
  for (const variable of environment) {
    const at = variable.indexOf('=');
    process.env[variable.slice(0, at)] = variable.slice(at + 1);
  }
  if (directory !== '') process.chdir(WORKSPACE + directory);
};
