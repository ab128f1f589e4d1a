// Which modules a program may import: asks before each import of the user's own, and lets packages import what they need.
// Advice with an early and clear error; what the program can do is decided by the kernel. Who wants to get around it can:
// workers have modules of their own, and `import()` of a name that a file computes is not seen.
//
// The user's own are the cells, and the files where only the program can write, but for those in `node_modules`.
'use strict';

const Module = require('module');
const { fileURLToPath } = require('url');
const p = load('primordials');
const { clip, quote } = load('text');

const OWN_PLACES = ['/workspace/', '/tmp/'];
const MAX_REPORTED = 16;
const MAX_NAME = 100;
const CELL = '/<repl>'; // what stands for a cell in whatever directory it requires from
const CODE = 'ERR_ACCESS_DENIED';

const { createRequire, builtinModules } = Module;
const { captureStackTrace } = Error;

let list = null; // what imports.json says; null while everything may be imported
let found = emptyTable();
let count = 0;

function emptyTable() {
  return { __proto__: null };
}

class ImportError extends Error {
  code = CODE;
}
p.define(ImportError.prototype, 'name', { __proto__: null, value: 'ImportError', writable: true, configurable: true });

// Begins to ask. `directory` gives the working directory.
exports.install = (directory) => {
  list = readList();
  if (list === null) return;
  guardRequire(directory);
  guardGetBuiltin();
};

function readList() {
  let told;
  try {
    told = p.parseJson(p.readFileSync(`${here}imports.json`, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
  const { level, action, modules, way_out: wayOut } = told;
  const read = { everything: false, allowed: emptyTable(), denied: emptyTable(), refuses: action === 'refuse' };
  read.why = `is not allowed in the level ${level}; ${wayOut}`;
  let free = true;
  for (const entry of modules) {
    if (entry === '*') read.everything = true;
    else if (entry[0] === '!') read.denied[entry.slice(1)] = true;
    else read.allowed[entry] = true;
    free &&= entry[0] !== '!';
  }
  return free && read.everything ? null : read;
}

// The field of a `done` message for what was found since the last one, with a comma behind it; or nothing.
exports.takeViolations = () => {
  if (count === 0) return '';
  const names = p.ownKeys(found);
  found = emptyTable();
  count = 0;
  let listed = '';
  for (let at = 0; at < names.length; at += 1) {
    listed += `${at === 0 ? '' : ','}{"rule":"import","detail":${quote(names[at])}}`;
  }
  return `"violations":[${listed}],`;
};

// Whether the list has a module by this name.
exports.allows = (name) => list === null || allows(plain(name));

// Throws if a cell must not import this, whose relative names are those of a directory; or a file by this name, that it
// would load, something else. `caller` is the function that the error shall not show.
exports.check = (request, directory, caller) => {
  if (list !== null) check(request, `${directory}${CELL}`, { caller, loaded: emptyTable(), seen: emptyTable() });
};

function check(request, from, way) {
  if (typeof request !== 'string') return; // the import itself will say so
  const name = plain(request);
  if (isBuiltin(request, name)) {
    if (!allows(name)) violate(name, way.caller);
    return;
  }
  if (p.startsWith(request, 'data:')) return;
  const filename = locate(request, from);
  if (filename === null) return; // the import itself will say so
  if (isInOwnPlace(filename)) checkFile(filename, way);
  else if (isPath(request) || !allows(name)) violate(request, way.caller);
}

// A file of the user's own is asked about as a whole, before it runs: V8 asks nobody when a module imports another.
function checkFile(filename, way) {
  if (!isOwn(filename) || !isSource(filename) || way.loaded[filename] !== undefined || way.seen[filename]) return;
  way.seen[filename] = true;
  let source;
  try {
    source = p.readFileSync(filename, 'utf8');
  } catch {
    return;
  }
  if (p.indexOf(source, 'import') < 0 && p.indexOf(source, 'export') < 0) return;
  const names = load('imports').sources(source);
  for (let at = 0; at < names.length; at += 1) check(names[at], filename, way);
}

function violate(name, caller) {
  const shown = clip(name, MAX_NAME).text;
  if (found[shown] === undefined && count < MAX_REPORTED) {
    found[shown] = true;
    count += 1;
  }
  if (!list.refuses) return;
  const error = new ImportError(`import ${shown} ${list.why}`);
  captureStackTrace(error, caller);
  throw error;
}

function allows(name) {
  let allowed = list.everything;
  for (let at = name.length; at > 0; at = p.lastIndexOf(p.slice(name, 0, at), '/')) {
    const part = p.slice(name, 0, at);
    if (list.denied[part]) return false;
    allowed ||= list.allowed[part] === true;
  }
  return allowed;
}

const plain = (request) => (p.startsWith(request, 'node:') ? p.slice(request, 5) : request);
const isPath = (request) => p.startsWith(request, '/') || p.startsWith(request, '.') || p.startsWith(request, 'file:');
const isSource = (filename) =>
  p.endsWith(filename, '.js') || p.endsWith(filename, '.mjs') || p.endsWith(filename, '.cjs');

const builtins = emptyTable();
for (const name of builtinModules) builtins[name] = true;

const isBuiltin = (request, name) => request !== name || builtins[name] === true;

// The file that a name stands for; null if there is none.
function locate(request, from) {
  try {
    const end = p.indexOf(request, '?');
    const asked = end < 0 || !isPath(request) ? request : p.slice(request, 0, end);
    return createRequire(from).resolve(p.startsWith(asked, 'file:') ? fileURLToPath(asked) : asked);
  } catch {
    return null;
  }
}

function isInOwnPlace(filename) {
  for (let at = 0; at < OWN_PLACES.length; at += 1) if (p.startsWith(filename, OWN_PLACES[at])) return true;
  return false;
}

// Whether code of this file is the user's; a cell has no file.
function isOwn(filename) {
  if (typeof filename !== 'string' || !p.startsWith(filename, '/') || p.endsWith(filename, CELL)) return true;
  return isInOwnPlace(filename) && p.indexOf(filename, '/node_modules/') < 0;
}

function guardRequire(directory) {
  const loadModule = Module._load;
  const loaded = Module._cache;
  Module._load = function _load(request, parent, isMain) {
    if (parent && isOwn(parent.filename)) {
      const from = parent.filename ?? `${directory()}${CELL}`;
      check(request, from, { caller: _load, loaded, seen: emptyTable() });
    }
    return p.apply(loadModule, this, [request, parent, isMain]);
  };
}

// Node tells nobody who has called.
function guardGetBuiltin() {
  const get = process.getBuiltinModule;
  if (get === undefined) return;
  process.getBuiltinModule = function getBuiltinModule(id) {
    if (typeof id === 'string' && isBuiltin(id, plain(id)) && !allows(plain(id)) && isOwn(callerOf(getBuiltinModule))) {
      violate(plain(id), getBuiltinModule);
    }
    return p.apply(get, process, [id]);
  };
}

// The file of the code that has called a function; undefined if it is a cell.
function callerOf(callee) {
  const before = p.describe(Error, 'prepareStackTrace');
  const read = (_, sites) => sites[0]?.getFileName();
  p.define(Error, 'prepareStackTrace', { __proto__: null, value: read, configurable: true, writable: true });
  const holder = {};
  captureStackTrace(holder, callee);
  const file = holder.stack;
  if (before === undefined) p.remove(Error, 'prepareStackTrace');
  else p.define(Error, 'prepareStackTrace', before);
  if (typeof file !== 'string') return undefined;
  return p.startsWith(file, 'file:') ? fileURLToPath(file) : p.startsWith(file, 'node:') ? '/node' : file;
}
