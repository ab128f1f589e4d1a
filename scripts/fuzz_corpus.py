#!/usr/bin/env python3
"""Writes what the programs in fuzz/ begin with: seeds from the golden vectors, and a dictionary from the schema.

    scripts/fuzz_corpus.py FOLDER

makes FOLDER/NAME/ for each program and FOLDER/dictionary. Files that are there already stay.
"""
import hashlib
import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "protocol" / "vectors"
SCHEMA = ROOT / "protocol" / "schema" / "repltool.v1.json"
SCREENED = ROOT / "src" / "runtime" / "screen" / "cases.toml"

# What no vector has: one example for each shape.
HELD = {
    "sandbox": 7, "session": "4kFq0bT7WmX2cVd9RzP1aE", "deadline_ns": 5, "counters": ["Cpu", "OomKills"],
    "begun": {"cpu_ns": 1, "oom_kills": 2, "refused_forks": 3},
}
LINK = [
    {"Welcome": {
        "version": 2, "config": {"data_dir": "/d", "sessions": {"max": 10}},
        "store": {"path": "/s", "user": 1000}, "boot_id": "b",
    }},
    {"Handover": HELD}, "HandoverDone", {"Lent": "Secret"}, {"Lent": "PublicKeys"}, {"Lent": "Revocations"}, {"Created": {"request": 1, "held": HELD}},
    {"NotCreated": {"request": 1, "reason": "no"}}, {"Limit": {"sandbox": 7, "limit": "cpu_time"}}, "Drain",
    {"Exited": {"sandbox": 7, "out_of_memory": True, "cpu_ns": 1, "peak_memory_bytes": 2, "limit": "memory"}},
    {"Measured": {"sandbox": 7, "cpu_ns": 1, "peak_memory_bytes": 2}},
    {"Hello": {"version": 2}}, {"Adopted": 7}, "Serving", "KeysWanted", {"Kill": 7}, {"LetGo": 7}, {"Measure": 7},
    {"Create": {
        "request": 1, "session": "4kFq0bT7WmX2cVd9RzP1aE", "language": "python", "mode": "standard",
        "environment": [["A", "b"]], "working_directory": "a", "memory_bytes": 1, "cpu_seconds": 2,
    }},
    {"Watch": {"sandbox": 7, "watch": {"begins": True, "deadline_ns": None, "cpu_ns": 1}}},
    {"Release": "4kFq0bT7WmX2cVd9RzP1aE"}, {"Seal": {"count": 5, "hash": "0" * 64}},
    {"Sealed": {"count": 5, "head": "0" * 64, "time": "2026-01-31T12:00:00.000000Z", "signature": "0" * 128}},
]
AUDIT = [
    {"n": 1, "time": "2026-01-31T12:00:00.000000Z", "kind": "file", "file": 1, "prev": "0" * 64},
    {"n": 2, "time": "2026-01-31T12:00:00.000000Z", "kind": "checkpoint", "seal": LINK[-1]["Sealed"], "prev": "0" * 64},
    {"n": 3, "time": "2026-01-31T12:00:00.000000Z", "kind": "retention", "file": 1, "dropped": 2, "prev": "0" * 64},
]
INIT = [
    {"op": "interrupt", "id": 1}, {"op": "kill_rest", "id": 2}, {"op": "fresh_stdin", "id": 3},
    {"op": "stdin", "id": 4, "text": "a\n", "end": True},
    {"op": "file", "id": 5, "what": {"do": "list", "path": "", "limit": 10}},
    {"op": "file", "id": 6, "what": {"do": "create", "path": "a/b", "temporary": "t"}},
    {"hello": {"version": 2}}, {"exit": {"signal": 9}}, {"exit": {"code": 0}}, {"id": 1, "outcome": "void"},
    {"file": {"id": 3, "errno": 2, "existed": False}}, {"path": "a", "size": 1, "modified": 2, "kind": "file"},
]
DRIVER = [
    {"t": "ready", "m": 1, "version": "3.11.2"}, {"t": "part", "n": 1, "i": 0},
    {"t": "hello", "nonce": "0123456789abcdef", "last": 3}, {"t": "owner", "m": 2, "n": 1},
    {"t": "display", "m": 2, "n": 1, "data": {"image/png": "aGk="}, "metadata": {}},
    {"t": "input_request", "m": 3, "n": 1, "prompt": "name? ", "password": True},
    {"t": "reply", "n": 1 << 32, "body": {"matches": ["print"], "cursor_start": 0, "cursor_end": 3}},
    {"t": "reply", "n": 1 << 32, "body": {"found": True, "data": {"text/plain": "x"}}},
    {"t": "reply", "n": 1 << 32, "body": {"status": "incomplete", "indent": "    "}},
    {"t": "done", "m": 4, "n": 1, "success": True, "result": [0.1, None, "x"], "result_text": "[…]", "end_ns": 5},
    {"t": "done", "m": 5, "n": 2, "success": False, "exit_code": 1, "truncated": True, "end_ns": 6,
     "exception": {"name": "ValueError", "message": "no", "traceback": ["a", "b"]}},
]
BODIES = [
    {"language": "python", "sandbox_mode": "relaxed", "environment": {"A": "b"}, "working_directory": "a/../b",
     "resource_limits": {"max_cpu_time": 1, "max_memory_mb": 64, "max_output_size": 1024, "max_expressions": 1}},
    {"language": "shell", "working_directory": "/workspace/a"},
    {"session_id": "4kFq0bT7WmX2cVd9RzP1aE", "code": "1+1", "timeout_ms": 100, "execution_id": "e1", "stdin": "a"},
    {"execution_id": "e1"}, {"data": "a\n", "eof": True}, {"code": "pri", "cursor": 3}, {},
]
CONFIGURATION = [
    'data_dir = "/d"\n[sessions]\nmax = 10\nqueue = 1\n[edge]\nlisten = "127.0.0.1:0"\nallowed_hosts = ["repl.example:80"]\n'
    'allowed_origins = ["https://a.example"]\ntrusted_proxies = ["10.0.0.0/8", "::1"]\n[rate_limit]\nenabled = false\n'
    '[auth]\nkey_file = "k"\nissuer = "me"\nalgorithms = ["HS256"]\n[store]\nsession_mb = 1\n'
    '[sandbox.max_processes]\nrelaxed = 8\n[log]\nlevel = "debug"\nformat = "json"\n',
    "\n---\nREPLTOOL_SESSIONS__MAX=5\nREPLTOOL_EDGE__LISTEN=[::]:80\nREPLTOOL_AUTH__KEY_FILE=/k\n"
    "REPLTOOL_EDGE__ALLOWED_HOSTS=a,b\nREPLTOOL_DATA_DIR=/d\nXDG_STATE_HOME=/x\n",
    "sessions.maks = 1\n", "[runtimes]\npython = 3\n",
]
CLAIMS = [
    {"sub": "ada", "exp": 4102444800, "scope": "tool:execute admin", "iss": "me", "aud": "us", "nbf": 1},
    {"sub": "ada", "exp": 4e300, "aud": ["us", "them"], "iss": "me"}, {"sub": "ada", "exp": 1, "iat": 2},
]
X = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"
Y = "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"
KEYS = [
    '{"keys":[{"kty":"EC","crv":"P-256","x":"%s","y":"%s","kid":"1","use":"sig","alg":"ES256"}]}' % (X, Y),
    '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","key_ops":["verify"]}',
    '{"keys":[{"kty":"RSA","e":"AQAB","n":"%s","kid":"r"},{"kty":"oct","k":"AA"}]}' % ("gA" + "A" * 341),
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
    "# none\njti:4711\nsub:ada\nsub:eve before 2026-11-30T04:00:00Z\n",
]
PROXIED = [
    b"\r\n\r\n\0\r\nQUIT\n" + header
    for header in (
        b"\x20\x00\x00\x00",
        b"\x21\x11\x00\x0c" + bytes(range(12)),
        b"\x21\x21\x00\x24" + bytes(range(36)),
        b"\x21\x11\x00\x12" + bytes(range(12)) + b"\x20\x00\x03abc",
    )
]
QUERIES = ["limit=10&offset=25", "after=41&follow=true", "language=python&sandbox_mode=relaxed", "q=a+b%20c%C3%A9&q2=%zz"]
PATHS = ["a/b.txt", "a%2Fb", "%C3%A9", "%252e%252e/x", "..", ".hidden", ".repltool-0.part", "//a"]
HEADS = [
    "/api/v1/ws?language=python\nHost: repl.example:8000\nOrigin: https://page.example\nConnection: keep-alive, Upgrade\n"
    "Upgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
    "Sec-WebSocket-Protocol: repltool.v1, bearer.a.b.c",
    "/\nHost: 127.0.0.1\nAuthorization: Bearer a.b.c\nAccept: text/event-stream;q=0.5, application/x-ndjson",
    "http://[::1]:80/\nOrigin: http://[::1]:80\nRange: bytes=0-499\nIf-Range: \"1-2-3\"\nIf-Match: \"1-2-3\", *",
    "/\nHost: localhost\nRange: bytes=-5\nIf-None-Match: W/\"1-2-3\"\nIf-Match: *",
]


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def vectors(name, *lists):
    document = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return [entry["text"] for entries in lists for entry in document[entries]]


def driver_streams():
    """Each message by itself and all of them, as the socket carries them, awaited and not, in pieces of 1 and 60 bytes."""
    frames = [message.encode() for message in map(text, DRIVER)]
    frames = [b"%08d" % len(frame) + frame for frame in frames]
    return [bytes([first]) + stream for stream in [*frames, b"".join(frames)] for first in (2, 3, 120, 121)]


def screened():
    """Code of each kind, after the byte that chooses its language, and the level standard with the policy refuse."""
    cases = tomllib.loads(SCREENED.read_text(encoding="utf-8"))["case"]
    first = {"python": 3, "javascript": 4, "bash": 5}
    return [bytes([first[case["language"]]]) + case["code"].encode() for case in cases]


def seeds():
    """{program: its seeds}; what makes its own records needs no more than bytes to choose by."""
    server = vectors("server.json", "frames", "unknown")
    choices = [bytes((i * step) % 256 for i in range(200)) for step in (1, 7, 31, 101)]
    return {
        "audit_log": [line + "\n" for line in map(text, AUDIT)] + ["\n".join(map(text, AUDIT)) + "\n"],
        "body": list(map(text, BODIES)),
        "client_frame": vectors("client.json", "frames", "errors"),
        "configuration": CONFIGURATION,
        "driver_message": driver_streams(),
        "file_path": PATHS,
        "head": HEADS,
        "init_packet": list(map(text, INIT)),
        "key_set": KEYS,
        "link_packet": list(map(text, LINK)),
        "log_files": choices,
        "log_record": choices,
        "output_text": [b"\x01\x02\x03" + "aé€😀".encode(), b"\x03\x01\x01" + "😀\xff".encode("latin-1", "replace"), *choices],
        "proxied": PROXIED,
        "query": QUERIES,
        "screen": screened(),
        "server_frame": server,
        "token": ["ada", *map(text, CLAIMS)],
    }


def names(value):
    """Names of fields and words with a meaning, as they stand in a schema."""
    if isinstance(value, dict):
        yield from value.get("properties", {}) if isinstance(value.get("properties"), dict) else ()
        yield from filter(lambda it: isinstance(it, str), [value.get("const"), *value.get("enum", [])])
        for part in value.values():
            yield from names(part)
    elif isinstance(value, list):
        for part in value:
            yield from names(part)


def dictionary():
    words = set(names(json.loads(SCHEMA.read_text(encoding="utf-8"))))
    for shapes in (LINK, INIT, DRIVER, CLAIMS):
        words |= {word for word in text(shapes).split('"')[1::2] if word.replace("_", "").isalnum()}
    words |= {line.split(" = ")[0].strip("[]") for file in CONFIGURATION for line in file.splitlines()}
    plain = sorted(word for word in words if word.isascii() and word.isprintable() and word and '"' not in word)
    return "".join(f'"{word}"\n' for word in plain if "\\" not in word)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    for program, inputs in seeds().items():
        (folder / program).mkdir(parents=True, exist_ok=True)
        for seed in inputs:
            data = seed if isinstance(seed, bytes) else seed.encode()
            path = folder / program / hashlib.sha1(data).hexdigest()
            if not path.exists():
                path.write_bytes(data)
    (folder / "dictionary").write_text(dictionary(), encoding="utf-8")


if __name__ == "__main__":
    main()
