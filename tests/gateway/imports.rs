//! What programs may import, of a server as it is shipped and with other lists. The drivers' own tests have every way of
//! importing; these have the levels, the settings and what clients see.

use repltool::client::Client;
use repltool_protocol::event::{Violation, ViolationLayer};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ExecutionResult;
use serde_json::{Value, json};

use crate::harness::{Server, assert_usable, exception_name, run, run_for, session};

/// What the message of a refusal in `standard` says beside the module.
const WAY_OUT: &[&str] = &["is not allowed in the level standard", "sandbox_mode \"relaxed\"", "sandbox.standard."];

async fn refused(client: &Client, id: &SessionId, code: &str, module: &str) -> ExecutionResult {
    let result = run(client, id, code).await;
    assert!(!result.success, "{code}: {result:?}");
    assert_eq!(exception_name(&result), "ImportError", "{code}: {result:?}");
    let message = &result.exception.as_ref().expect("an exception").message;
    assert!(message.contains(module), "{code}: {message}");
    result
}

async fn value(client: &Client, id: &SessionId, code: &str) -> Value {
    let result = run(client, id, code).await;
    assert!(result.success, "{code}: {result:?}");
    serde_json::from_str(result.result.0.get()).expect("JSON")
}

fn violation(module: &str) -> Option<Violation> {
    Some(Violation { rule: "import".to_owned(), detail: module.to_owned(), layer: ViolationLayer::Policy })
}

#[tokio::test]
async fn standard_refuses_by_default_what_leads_out_and_says_what_to_do() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    for (language, refusals) in [
        (
            "python",
            &[
                ("import os", "os"),
                ("import sys", "sys"),
                ("import json\nimport subprocess as s", "subprocess"),
                ("from socket import socket", "socket"),
                ("import ctypes", "ctypes"),
                ("exec('import os')", "os"),
                ("name = 'os'\n__import__(name)", "os"),
                ("import importlib\nname = 'subprocess'\nimportlib.import_module(name)", "subprocess"),
            ][..],
        ),
        (
            "javascript",
            &[
                ("require('child_process')", "child_process"),
                ("import { exec } from 'node:child_process'", "child_process"),
                ("const name = 'o' + 's'; await import(name)", "os"),
                ("eval(\"require('net')\")", "net"),
                ("child_process.execSync('id')", "child_process"),
            ][..],
        ),
    ] {
        let id = session(&client, language, json!({})).await;
        for (code, module) in refusals {
            let result = refused(&client, &id, code, module).await;
            assert!(!result.state_lost, "{code}: {result:?}");
            let exception = result.exception.expect("an exception");
            assert!(WAY_OUT.iter().all(|part| exception.message.contains(part)), "{code}: {}", exception.message);
            let frames = exception.traceback.join("\n");
            assert!(!frames.contains("/run/repltool"), "{code}: {frames}");
        }
        assert_usable(&client, &id, language).await;
    }
}

#[tokio::test]
async fn refused_import_is_the_violation_of_its_result() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    for (language, caught) in [
        ("python", "try:\n    __import__('o' + 's')\nexcept ImportError:\n    seen = 1\nseen"),
        ("javascript", "try { require('o' + 's') } catch { 1 }"),
    ] {
        let id = session(&client, language, json!({})).await;
        let result = run(&client, &id, caught).await;
        assert_eq!((result.success, result.violation), (true, violation("os")), "{language}");
        let result = run(&client, &id, "1").await;
        assert_eq!((result.success, result.violation), (true, None), "{language}");
    }
}

#[tokio::test]
async fn ordinary_modules_and_approved_packages_work_in_standard() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let library = "
import json, math, re, datetime, collections, itertools, functools, random, statistics, decimal, fractions, string
import textwrap, hashlib, base64, csv, uuid, heapq, bisect, copy, dataclasses, enum, typing, time, asyncio, threading
import logging, pathlib, sqlite3, tempfile, io, getpass, traceback, inspect, warnings, concurrent.futures
datetime.datetime.strptime('2026-01-02', '%Y-%m-%d').day + await asyncio.sleep(0, 40)";
    assert_eq!(value(&client, &id, library).await, 42);
    let table = "
import numpy as np, pandas as pd
frame = pd.DataFrame({'x': np.arange(4.0), 'g': list('abab')})
frame.to_csv('frame.csv', index=False)
frame = pd.read_csv('frame.csv')";
    // The first imports of these packages are slow on a busy machine.
    let result = run_for(&client, &id, 120_000, table).await;
    assert_eq!((result.success, result.violation), (true, None), "{:?}", result.exception);
    assert_eq!(value(&client, &id, "frame.groupby('g').x.sum().to_dict()").await, json!({"a": 2.0, "b": 4.0}));
    let plot = "import matplotlib.pyplot as plt\nplt.plot(frame.x)\nplt.show()";
    let plot = run_for(&client, &id, 120_000, plot).await;
    assert_eq!((plot.success, &plot.violation), (true, &None), "{:?}", plot.exception);
    assert!(plot.display.iter().any(|shown| shown.data.contains_key("image/png")));

    let id = session(&client, "javascript", json!({})).await;
    let code = "import { readFileSync } from 'node:fs'; fs.writeFileSync('f', 'x');
        [readFileSync('f', 'utf8'), require('crypto').createHash('md5').digest('hex').length, require('util').inspect(1)]";
    assert_eq!(value(&client, &id, code).await, json!(["x", 32, "1"]));
}

#[tokio::test]
async fn uploaded_modules_are_free_and_are_asked_about_like_cells() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    client.write_file(&id, "mine.py", "import math\nhalf = math.pi / 2\n").await.expect("a file");
    client.write_file(&id, "curious.py", "import math\nimport os\n").await.expect("a file");
    assert_eq!(value(&client, &id, "import mine\nround(mine.half, 2)").await, 1.57);
    refused(&client, &id, "import curious", "os").await;

    let id = session(&client, "javascript", json!({})).await;
    client.write_file(&id, "mine.mjs", "import { sep } from 'path'; export const x = sep").await.expect("a file");
    client.write_file(&id, "curious.mjs", "export { exec } from 'child_process'").await.expect("a file");
    assert_eq!(value(&client, &id, "import { x } from './mine.mjs'; x").await, "/");
    refused(&client, &id, "await import('./curious.mjs')", "child_process").await;
}

#[tokio::test]
async fn relaxed_imports_everything_by_default() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = session(&client, "python", json!({"sandbox_mode": "relaxed"})).await;
    let code = "import os, sys, subprocess, socket, ctypes\nctypes.c_int(7).value";
    let result = run(&client, &id, code).await;
    assert_eq!((result.success, result.result.0.get(), result.violation), (true, "7", None));
    let id = session(&client, "javascript", json!({"sandbox_mode": "relaxed"})).await;
    let code = "import os from 'os'; [typeof os.cpus, typeof require('child_process').exec, typeof net.connect]";
    assert_eq!(value(&client, &id, code).await, json!(["function", "function", "function"]));
}

#[tokio::test]
async fn strict_imports_what_computes() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = session(&client, "python", json!({"sandbox_mode": "strict"})).await;
    assert_eq!(value(&client, &id, "import json, math, statistics\nstatistics.mean([1, 3])").await, 2);
    for module in ["os", "sqlite3"] {
        let result = refused(&client, &id, &format!("import {module}"), module).await;
        let message = result.exception.expect("an exception").message;
        assert!(message.contains("level strict") && message.contains("sandbox.strict.python_modules"), "{message}");
    }
    let id = session(&client, "javascript", json!({"sandbox_mode": "strict"})).await;
    assert_eq!(value(&client, &id, "require('path').join('a', 'b')").await, "a/b");
    refused(&client, &id, "require('fs')", "fs").await;
}

#[tokio::test]
async fn operators_change_what_may_be_imported() {
    let server = Server::start_as_shipped(
        "[sandbox.standard]\npython_modules = ['default', 'os', '!json']\njavascript_modules = ['*', '!net']\n\
         [sandbox.relaxed]\npolicy = 'refuse'\n",
    )
    .await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    assert_eq!(value(&client, &id, "import os.path, math\nos.sep").await, "/");
    refused(&client, &id, "import json", "json").await;
    refused(&client, &id, "from json import decoder", "json").await;
    refused(&client, &id, "import sys", "sys").await;
    let id = session(&client, "javascript", json!({})).await;
    assert_eq!(value(&client, &id, "typeof require('child_process').exec").await, "function");
    refused(&client, &id, "require('net')", "net").await;
    let id = session(&client, "python", json!({"sandbox_mode": "relaxed"})).await;
    assert_eq!(value(&client, &id, "import os, subprocess\n1").await, 1);
    let result = refused(&client, &id, "import ctypes", "ctypes").await;
    let message = result.exception.expect("an exception").message;
    assert!(message.ends_with("level relaxed; ask the operator for sandbox.relaxed.python_modules"), "{message}");
}

#[tokio::test]
async fn list_holds_for_a_fresh_interpreter_and_under_a_new_gateway() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    refused(&client, &id, "import os", "os").await;
    client.restart(&id).await.expect("a fresh interpreter");
    refused(&client, &id, "import os", "os").await;
    server.crash_gateway().await;
    refused(&client, &id, "import os", "os").await;
    assert_eq!(value(&client, &id, "import math\nmath.floor(2.5)").await, 2);
}

#[tokio::test]
async fn milder_policies_let_imports_happen() {
    for (policy, told) in [("warn", violation("os")), ("record", None)] {
        let settings = format!("[sandbox.standard]\npolicy = '{policy}'\n");
        let server = Server::start_as_shipped(&settings).await;
        let client = server.client();
        for (language, code) in [("python", "import os\nos.sep"), ("javascript", "require('os').EOL && '/'")] {
            let id = session(&client, language, json!({})).await;
            let result = run(&client, &id, code).await;
            assert_eq!((result.success, result.result.0.get()), (true, "\"/\""), "{policy} {language}: {result:?}");
            assert_eq!(result.violation, told, "{policy} {language}");
        }
    }
}
