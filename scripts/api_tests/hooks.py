"""What a description cannot say: which sessions there are, and what of a request depends on them.

An id that is made up names no session, and every answer would be 404. So each valid one is replaced by that of a live
session, unless the request follows up an answer that brought it. Sessions that were created on the way are deleted.
"""
import collections
import itertools
import json
import os

import jsonschema_rs
import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

API = f"{os.environ['REPLTOOL_URL']}/api/v1"
HEADERS = {"Authorization": f"Bearer {os.environ['REPLTOOL_TOKEN']}"}
# A file that is there in each session of ours, and one that is there to be removed.
FILE = "data/names.txt"
OTHER = "data/old.txt"
# The longest that a program may run, in milliseconds.
PATIENCE_MS = 2000
# How many of the sessions that were created are left for what may follow.
KEPT = 16

created = collections.OrderedDict()
languages = itertools.cycle(["python", "javascript", "bash"])
forms = itertools.cycle(["application/json", "application/x-ndjson", "text/event-stream"])
turns = itertools.count()
ours = {}


def session(language):
    """A live session in a language, the same one each time."""
    if language not in ours or requests.get(f"{API}/sessions/{ours[language]}", headers=HEADERS).status_code != 200:
        ours[language] = fresh(language)
    return ours[language]


def fresh(language):
    body = {"language": language, "resource_limits": {"max_expressions": 10_000}}
    answer = requests.post(f"{API}/sessions", json=body, headers=HEADERS)
    answer.raise_for_status()
    name = answer.json()["session_id"]
    write(name, FILE)
    return name


def write(name, path):
    requests.put(f"{API}/sessions/{name}/files/{path}", data=b"Ada\nGrace\n", headers=HEADERS).raise_for_status()


def delete(name):
    requests.delete(f"{API}/sessions/{name}", headers=HEADERS)


def is_valid(case, location):
    """Whether a part of the request is meant to be right."""
    part = case.meta.components.get(location) if case.meta else None
    return part is None or part.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw.get("operationId")
    if case.path_parameters and is_valid(case, ParameterLocation.PATH):
        choose_path(case, operation)
    if case.query and case.query.get("follow") in (True, "true"):
        # Such an answer ends with its session.
        case.query["follow"] = "false"
    if operation == "followSecurity" and (case.query or {}).get("once", "false") in (True, False, "true", "false"):
        # Else the answer ends with the token.
        case.query = {**(case.query or {}), "once": "true"}
    if operation in ("execute", "executeOnce", "getEvents", "followSecurity"):
        case.headers["Accept"] = next(forms)
    if isinstance(case.body, dict) and is_valid(case, ParameterLocation.BODY):
        case.body = in_digits(case.body)
        choose_body(case, operation)


def choose_path(case, operation):
    is_followed_up = case.meta and case.meta.phase.name == TestPhase.STATEFUL
    if not is_followed_up or case.path_parameters.get("id") not in created:
        language = next(languages)
        case.path_parameters["id"] = fresh(language) if operation == "deleteSession" else session(language)
        if operation == "readFile" and next(turns) % 2:
            case.path_parameters["path"] = FILE
        if operation == "deleteFile" and next(turns) % 2:
            write(case.path_parameters["id"], OTHER)
            case.path_parameters["path"] = OTHER


def in_digits(value):
    """The same value; JSON Schema calls 5.0 a whole number, and the server wants it to be written as one."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: in_digits(it) for name, it in value.items()}
    return value


def choose_body(case, operation):
    body = case.body
    if operation in ("createSession", "executeOnce") and body.get("sandbox_mode") == "strict":
        # It has no directory, which a schema of single fields does not say.
        body.pop("working_directory", None)
    if body.get("session_id") is not None and "id" in case.path_parameters:
        body["session_id"] = case.path_parameters["id"]
    if operation in ("execute", "executeOnce"):
        body["timeout_ms"] = min(body.get("timeout_ms") or PATIENCE_MS, PATIENCE_MS)
    if isinstance(body.get("code"), str):
        # A shell cannot run code with NUL in it, and of which language the session is stands elsewhere.
        body["code"] = body["code"].replace("\0", " ")
    if isinstance(body.get("cursor"), int) and isinstance(body.get("code"), str):
        body["cursor"] = min(body["cursor"], len(body["code"]))


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw.get("operationId")
    if operation != "createSession" or response.status_code != 201:
        return
    created[response.json()["session_id"]] = None
    while len(created) > KEPT:
        delete(created.popitem(last=False)[0])


@schemathesis.check
def items_of_streams(ctx, response, case):
    """Each item of a stream is what the description says of it."""
    media_type = response.headers.get("content-type", [""])[0]
    text = response.content.decode()
    if media_type == "application/x-ndjson":
        items = [line for line in text.split("\n") if line]
    elif media_type == "text/event-stream":
        items = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    else:
        return
    document = case.operation.schema.raw_schema
    content = document["paths"][case.operation.path][case.operation.method]["responses"]["200"]["content"]
    schema = {**content[media_type]["x-itemSchema"], "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)
    for item in items:
        validator.validate(json.loads(item))
