// Lets a declaration come again as another kind. V8 takes `let` after `let`, but neither `const` after `let` nor `let`
// after `var`; somebody who edits a cell and runs it again means just that. So the statement is rewritten to the kind
// that the name has had.
'use strict';

const p = load('primordials');

const START = "Identifier '";
const END = "' has already been declared";
const FIXED = { __proto__: null, undefined: true, NaN: true, Infinity: true };

// The name that code has declared although it exists as another kind; null if the error is a different one.
exports.nameOf = (error) => {
  const property = p.describe(error, 'message');
  const message = property === undefined ? undefined : property.value;
  if (typeof message !== 'string' || !p.startsWith(message, START) || !p.endsWith(message, END)) return null;
  return p.slice(message, START.length, message.length - END.length);
};

// The code with another kind for `name`; null if there is none to try. `isLexical` says that the name has been one of
// `let`, `const` and `class`; which one, nobody tells.
exports.rewrite = (code, name, isLexical) => {
  const tree = load('imports').parse(code);
  for (let at = 0; tree !== null && !FIXED[name] && at < tree.body.length; at += 1) {
    const it = tree.body[at];
    if (declares(it, name)) {
      const kind = isLexical ? nextKind(it) : 'var';
      return it.kind === kind ? null : rewritten(code, it, kind);
    }
  }
  return null;
};

const nextKind = ({ type, kind }) => (kind === 'let' || type === 'ClassDeclaration' ? 'const' : 'let');

function declares({ type, id, declarations }, name) {
  if (type === 'FunctionDeclaration' || type === 'ClassDeclaration') return id !== null && id.name === name;
  if (type !== 'VariableDeclaration') return false;
  for (let at = 0; at < declarations.length; at += 1) if (binds(declarations[at].id, name)) return true;
  return false;
}

// Whether a pattern binds a name.
function binds(pattern, name) {
  if (pattern === null) return false;
  if (pattern.type === 'Identifier') return pattern.name === name;
  if (pattern.type === 'AssignmentPattern') return binds(pattern.left, name);
  if (pattern.type === 'RestElement') return binds(pattern.argument, name);
  const parts = pattern.type === 'ObjectPattern' ? pattern.properties : pattern.elements;
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at];
    if (binds(part !== null && part.type === 'Property' ? part.value : part, name)) return true;
  }
  return false;
}

// Where the new kind is shorter, blanks keep the columns of what follows.
function rewritten(code, { type, start, kind, id }, to) {
  if (type !== 'VariableDeclaration') return `${p.slice(code, 0, start)}${to} ${id.name} = ${p.slice(code, start)}`;
  const end = start + kind.length;
  const padded = to.length < kind.length ? to + p.repeat(' ', kind.length - to.length) : to;
  return p.slice(code, 0, start) + padded + p.slice(code, end);
}
