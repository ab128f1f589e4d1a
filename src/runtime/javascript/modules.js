// What a program finds as globals: `require` and the modules of Node, as in Node's own console; and `import`.
'use strict';

const Module = require('module');
const path = require('path');
const p = load('primordials');
const policy = load('policy');

const compile = p.uncurry(Module.prototype._compile);
const { createRequire, builtinModules } = Module;
const { join } = path;

const IMPORT = 'ímport'; // as long as `import`, so that columns stay right
exports.IMPORT = IMPORT;
const LAST = '_';

let last; // what `_` was set to by the driver

exports.install = () => {
  policy.install(directory);
  hide(IMPORT, importFor);
  const module = new Module('<repl>');
  module.paths = [];
  hide('module', module);
  hide('exports', module.exports);
  hide('require', requireHere());
  for (const name of builtinModules) {
    if (!name.startsWith('_') && !name.includes('/') && !(name in globalThis)) offer(name);
  }
  hide(LAST, undefined);
};

// {prologue, body}: the imports of the code as code of their own, or null, and the code without them.
exports.prepare = (code) => {
  if (p.indexOf(code, 'import') < 0 && p.indexOf(code, 'export') < 0 && !mayBeObject(code)) {
    return { prologue: null, body: code };
  }
  return load('imports').rewrite(code, IMPORT);
};

// Offers the last value as `_`, unless the program uses that name.
exports.keepLast = (value) => {
  const property = p.describe(globalThis, LAST);
  if (value === undefined || property === undefined || !p.hasOwn(property, 'value') || property.value !== last) return;
  if (property.writable) p.global[LAST] = last = value;
};

function hide(name, value) {
  return p.define(globalThis, name, { __proto__: null, value, configurable: true, enumerable: false, writable: true });
}

const offered = { __proto__: null };

// A module of Node that is loaded when its name is first used.
function offer(name) {
  offered[name] = function get() {
    policy.check(name, '/', get);
    const module = globalRequire(name);
    hide(name, module);
    return module;
  };
  p.define(globalThis, name, {
    __proto__: null,
    configurable: true,
    enumerable: false,
    get: offered[name],
    set: (value) => p.define(globalThis, name, { __proto__: null, value, configurable: true, enumerable: true, writable: true }),
  });
}

// Loads a module that has been offered by this name, if it is still that, and allowed.
exports.loadOffered = (name) => {
  if (!policy.allows(name)) return;
  const property = p.describe(globalThis, name);
  if (property !== undefined && offered[name] !== undefined && property.get === offered[name]) offered[name]();
};

const globalRequire = createRequire('/');

// Whether the code may be an object that looks like a block: whether it begins with a brace, after comments.
function mayBeObject(code) {
  let rest = p.trimStart(code);
  for (;;) {
    const end = p.startsWith(rest, '//') ? '\n' : '*/';
    if (!p.startsWith(rest, '//') && !p.startsWith(rest, '/*')) return p.startsWith(rest, '{');
    const at = p.indexOf(rest, end);
    if (at < 0) return false;
    rest = p.trimStart(p.slice(rest, at + end.length));
  }
}

// `require` in the working directory, wherever that is when it is called.
function requireHere() {
  const require = (id) => createRequire(join(directory(), '<repl>'))(id);
  const at = createRequire('/');
  require.resolve = (request, options) => createRequire(join(directory(), '<repl>')).resolve(request, options);
  require.resolve.paths = (request) => createRequire(join(directory(), '<repl>')).resolve.paths(request);
  require.cache = at.cache;
  require.extensions = at.extensions;
  require.main = undefined;
  return require;
}

function directory() {
  try {
    return p.apply(p.cwd, process, []);
  } catch {
    return '/';
  }
}

const importers = { __proto__: null };

// `import()` as a file in the working directory would do it.
function importer() {
  const at = directory();
  if (importers[at] === undefined) {
    const module = new Module(join(at, '<repl>'));
    const source = 'module.exports = (specifier, options) => import(specifier, options);';
    compile(module, source, join(at, '<repl>.js'));
    importers[at] = module.exports;
  }
  return importers[at];
}

// Stands in for `import()`. With `names`, for an import declaration: the module must have them.
async function importFor(specifier, options, names) {
  policy.check(specifier, directory(), importFor);
  const namespace = await importer()(specifier, attributes(specifier, options));
  for (let at = 0; names !== undefined && at < names.length; at += 1) {
    if (!(names[at] in namespace)) {
      throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${names[at]}'`);
    }
  }
  return namespace;
}

// The same options by the names of older and newer versions of Node; JSON needs no telling.
function attributes(specifier, options) {
  const given = options?.with ?? options?.assert;
  if (given !== undefined) return { with: given, assert: given };
  const isJson = typeof specifier === 'string' && p.endsWith(specifier, '.json');
  return isJson ? { with: { type: 'json' }, assert: { type: 'json' } } : undefined;
}
