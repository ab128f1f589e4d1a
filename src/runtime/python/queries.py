"""Answers questions about code that is being written, from the live namespace: completion, documentation, and
whether an input is finished. No answer runs that code; little of the user's other code runs (`__dir__`, `__doc__`).
"""

import __future__
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT

_library = load("imports").library
ast, inspect, re, warnings = map(_library, ("ast", "inspect", "re", "warnings"))
INCOMPLETE_INPUT = _library("codeop").PyCF_ALLOW_INCOMPLETE_INPUT
expressions, completion = load("expressions"), load("completion")
jsontext, report = load("jsontext"), load("report")
quote = jsontext.quote

MAX_MATCHES = 500
MAX_BYTES = 1 << 16
LEAVES_BLOCK = re.compile(r"\s*(?:return|raise|pass|break|continue)\b")


def answer(query, namespace, flags):
    """The body of the reply as JSON, None if nothing is found. May raise anything that the user's code raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _answer(query, namespace, flags)


def _answer(query, namespace, flags):
    kind, code = query["kind"], query["code"]
    if kind == "is_complete":
        status, indent = is_complete(code, flags)
        return f'{{"status":"{status}","indent":{quote(indent)}}}'
    cursor = query["cursor"]
    if kind == "complete":
        matches, start = completion.complete(code[:cursor], namespace)
        return f'{{"matches":[{_list(matches)}],"cursor_start":{start},"cursor_end":{cursor}}}'
    text = describe(code, cursor, namespace)
    return text and f'{{"found":true,"data":{{"text/plain":{quote(report.clip(text)[0])}}}}}'


def _list(matches):
    room, listed = MAX_BYTES - 128, []
    for match in matches[:MAX_MATCHES]:
        text = quote(match)
        room -= len(text.encode()) + 1
        if room < 0:
            break
        listed.append(text)
    return ",".join(listed)


def describe(code, cursor, namespace):
    """Signature, type and documentation of what the cursor is on, or of the call that it is in; None if unknown."""
    while cursor and code[cursor - 1 : cursor] == "?":
        cursor -= 1
    end = cursor
    while end < len(code) and (code[end] == "_" or code[end].isalnum()):
        end += 1
    scan = expressions.Scan(code[:end])
    if scan.comment:
        return None
    ends = [] if scan.string is not None or code[scan.start_of_name(end) : end][:1].isdigit() else [end]
    ends += [place for place in reversed(scan.open) if code[place] == "("]
    for end in ends:
        source = code[scan.start_of_primary(end) : end]
        try:
            return _documentation(source, expressions.resolve(source, namespace))
        except expressions.Unknown:
            continue
    return None


def _documentation(source, value):
    parts = []
    if callable(value):
        try:
            parts.append(f"Signature: {source.rpartition('.')[2]}{inspect.signature(value)}")
        except Exception:
            pass  # not every callable tells
    parts.append(f"Type: {type(value).__name__}")
    if type(value) in (bool, int, float, complex, str, bytes):
        parts.append(f"Value: {value!r}" if len(str(value)) <= 1000 else f"Length: {len(str(value))}")
    try:
        documentation = inspect.getdoc(value)
    except Exception:
        documentation = None
    if type(documentation) is str:
        parts.append(f"Documentation:\n{documentation}")
    return "\n".join(parts)


def is_complete(code, flags):
    """Returns (complete, incomplete or invalid; what an editor puts at the beginning of the next line)."""
    flags |= PyCF_ALLOW_TOP_LEVEL_AWAIT | INCOMPLETE_INPUT
    try:
        tree = compile(code, "<input>", "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        compile(tree, "<input>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        return ("incomplete", _next_indent(code)) if "incomplete input" in str(error) else ("invalid", "")
    last_line = code.rpartition("\n")[2]
    in_block = tree.body and hasattr(tree.body[-1], "body") and last_line[:1] in (" ", "\t") and last_line.strip()
    return ("incomplete", _next_indent(code)) if in_block else ("complete", "")


def _next_indent(code):
    scan = expressions.Scan(code)
    if scan.string is not None:
        return ""
    lines = [line for line in code.split("\n") if line.strip()]
    last = lines[-1] if lines else ""
    indent = last[: len(last) - len(last.lstrip())]
    if scan.open or last.endswith("\\"):
        return indent or "    "
    if last.partition("#")[0].rstrip().endswith(":"):
        return indent + "    "
    return indent[:-4] if LEAVES_BLOCK.match(last) else indent
