// Rewrites what V8 refuses outside of modules. Import declarations become code that runs before the rest; in their
// place stand blanks, so that lines and columns stay right. `import(` becomes a call of a global of equal length, and
// `export` is blank. Code that looks like a block but is an object becomes an expression. What cannot be parsed stays
// as it is, for the errors are to be V8's.
'use strict';

const p = load('primordials');
const acorn = load('vendor/acorn');
const { Parser, parse: acornParse, tokTypes } = acorn;

const OPTIONS = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowHashBang: true,
};
const LINE_ENDS = '\n\r\u2028\u2029';

// {prologue, body}: the imports as code, or null, and the rest; `name` is that global.
exports.rewrite = (code, name) => {
  try {
    const rewriter = new Rewriter(code, name);
    const tree = rewriter.parseObject() ?? rewriter.parse();
    if (tree === null) return { prologue: null, body: code };
    rewriter.declarations(tree.body);
    rewriter.calls(tree);
    return { prologue: rewriter.prologue === '' ? null : rewriter.prologue, body: rewriter.text };
  } catch {
    return { prologue: null, body: code }; // too deep, or patched prototypes have misled the parser
  }
};

exports.OPTIONS = OPTIONS;

// Whether code is `complete`, `incomplete` or `invalid`, and if it is incomplete, whether more code is what it lacks
// (and not the end of a comment or of a string).
exports.check = (code) => {
  const error = errorOf(code);
  if (error === null || new Rewriter(code, '').parseObject() !== null) return { status: 'complete', open: false };
  const { message, pos, readAll } = error;
  const lacksCode = readAll && (pos >= p.trim(code).length || p.startsWith(message, 'Missing catch'));
  if (lacksCode) return { status: 'incomplete', open: true };
  const goesOn =
    p.startsWith(message, 'Unterminated template') ||
    p.startsWith(message, 'Unterminated comment') ||
    (p.startsWith(message, 'Unterminated string') && p.endsWith(code, '\\\n'));
  return { status: goesOn ? 'incomplete' : 'invalid', open: false };
};

// {message, pos, readAll} of the first error, where `readAll` says that the parser had come to the end; or null.
function errorOf(code) {
  let readAll = false;
  const Watched = Parser.extend((Base) =>
    class extends Base {
      nextToken() {
        super.nextToken();
        readAll ||= this.type === tokTypes.eof;
      }
    },
  );
  try {
    Watched.parse(code, OPTIONS);
    return null;
  } catch ({ message, pos }) {
    return { message: `${message}`, pos, readAll };
  }
}

class Rewriter {
  prologue = '';
  text;
  #name;

  constructor(code, name) {
    this.text = code;
    this.#name = name;
  }

  parse() {
    return parse(this.text);
  }

  // The tree of code that is an expression and begins with a brace; null if it is no such thing.
  parseObject() {
    const wrapped = `(${this.text}\n)`;
    const tree = parse(wrapped);
    if (tree === null || tree.body.length !== 1 || tree.body[0].type !== 'ExpressionStatement') return null;
    if (wrapped[tree.body[0].expression.start] !== '{') return null;
    this.text = wrapped;
    return tree;
  }

  declarations(statements) {
    for (let at = 0; at < statements.length; at += 1) {
      const it = statements[at];
      if (it.type === 'ImportDeclaration') this.#import(it);
      else if (it.type === 'ExportAllDeclaration') this.#take(it);
      else if (it.type === 'ExportDefaultDeclaration') this.#blank(it.start, it.declaration.start);
      else if (it.type === 'ExportNamedDeclaration') this.#export(it);
    }
  }

  // All calls of `import` below a node.
  calls(tree) {
    let todo = { node: tree, next: null };
    while (todo !== null) {
      const { node } = todo;
      todo = todo.next;
      if (node.type === 'ImportExpression') this.#replace(node.start, this.#name);
      const keys = p.ownKeys(node);
      for (let at = 0; at < keys.length; at += 1) {
        const child = node[keys[at]];
        if (typeof child === 'object' && child !== null && !(child instanceof RegExp)) todo = { node: child, next: todo };
      }
    }
  }

  // Namespaces have a declaration of their own, because a pattern cannot bind them beside names.
  #import({ start, end, specifiers, source, attributes }) {
    const call = (names) => `await ${this.#name}(${p.stringify(source.value)}, ${optionsOf(attributes)}, [${names}])`;
    let pattern = '';
    let names = '';
    for (let at = 0; at < specifiers.length; at += 1) {
      const it = specifiers[at];
      if (it.type === 'ImportNamespaceSpecifier') {
        this.prologue += `const ${it.local.name} = ${call('')};\n`;
        continue;
      }
      const key = p.stringify(it.type === 'ImportDefaultSpecifier' ? 'default' : nameOf(it.imported));
      pattern += `${key}: ${it.local.name}, `;
      names += `${key}, `;
    }
    if (pattern !== '' || specifiers.length === 0) this.prologue += `const {${pattern}} = ${call(names)};\n`;
    this.#blank(start, end);
  }

  #export(it) {
    if (it.declaration !== null) this.#blank(it.start, it.declaration.start);
    else this.#take(it);
  }

  // An export of other names: only the module it takes them from matters.
  #take({ start, end, source }) {
    if (source !== null) this.prologue += `await ${this.#name}(${p.stringify(source.value)});\n`;
    this.#blank(start, end);
  }

  #blank(start, end) {
    let blanks = '';
    for (let at = start; at < end; at += 1) blanks += p.indexOf(LINE_ENDS, this.text[at]) < 0 ? ' ' : this.text[at];
    this.#replace(start, blanks);
  }

  #replace(start, text) {
    this.text = p.slice(this.text, 0, start) + text + p.slice(this.text, start + text.length);
  }
}

// The names of the modules that a file imports: all but those that it computes.
exports.sources = (code) => {
  const names = [];
  let todo = { node: parse(code), next: null };
  while (todo !== null) {
    const { node } = todo;
    todo = todo.next;
    if (node === null) continue;
    const { source } = node; // of an `import`, or an `export` of what another module has
    if (source?.type === 'Literal' && typeof source.value === 'string') names[names.length] = source.value;
    const keys = p.ownKeys(node);
    for (let at = 0; at < keys.length; at += 1) {
      const child = node[keys[at]];
      if (typeof child === 'object' && child !== null && !(child instanceof RegExp)) todo = { node: child, next: todo };
    }
  }
  return names;
};

const nameOf = (imported) => (imported.type === 'Literal' ? imported.value : imported.name);

function optionsOf(attributes) {
  if (attributes === undefined || attributes.length === 0) return 'undefined';
  let text = '';
  for (let at = 0; at < attributes.length; at += 1) {
    const { key, value } = attributes[at];
    text += `${p.stringify(nameOf(key))}: ${p.stringify(value.value)}, `;
  }
  return `{ with: { ${text}} }`;
}

// The tree of code; null if it cannot be parsed.
exports.parse = parse;
function parse(code) {
  try {
    return acornParse(code, OPTIONS);
  } catch {
    return null;
  }
}
