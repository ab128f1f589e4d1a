//! An example of each body, by the name of its schema.

use serde_json::{Value, json};

/// The example of a schema, if it has one.
pub(super) fn of(schema: &str) -> Option<Value> {
    let example = match schema {
        "SessionConfig" => json!({ "language": "python", "resource_limits": { "max_cpu_time": 10 } }),
        "OneShotRequest" => json!({ "language": "bash", "code": "wc -l", "stdin": "a\nb\n", "timeout_ms": 5000 }),
        "Me" => me(),
        "Session" => session(),
        "SessionList" => json!({ "total": 1, "limit": 100, "offset": 0, "sessions": [session()] }),
        "ExecutionRequest" => json!({ "code": "print('hello')\n6 * 7", "timeout_ms": 5000 }),
        "ExecutionResult" => execution_result(),
        "History" => history(),
        "InterruptRequest" => json!({ "execution_id": EXECUTION }),
        "StdinRequest" => json!({ "data": "Ada\n" }),
        "CodeRequest" => json!({ "code": "pri", "cursor": 3 }),
        "Completion" => json!({ "matches": ["print"], "cursor_start": 0, "cursor_end": 3 }),
        "Inspection" => {
            json!({ "found": true, "data": { "text/plain": "len(obj, /)\n\nReturn the number of items." } })
        }
        "Completeness" => json!({ "status": "incomplete", "indent": "    " }),
        "FileList" => json!({ "truncated": false, "files": [
            { "path": "data", "size": 0, "modified": "2026-04-08T10:30:05.000Z", "kind": "directory" },
            { "path": "data/names.txt", "size": 10, "modified": "2026-04-08T10:30:05.000Z", "kind": "file" },
        ] }),
        _ => return None,
    };
    Some(example)
}

const SESSION: &str = "4kFq0bT7WmX2cVd9RzP1aE";
const EXECUTION: &str = "5f0c7d2e9a814b36";
const STARTED: &str = "2026-04-08T10:30:05.123Z";

fn session() -> Value {
    json!({
        "session_id": SESSION,
        "language": "python",
        "created_at": "2026-04-08T10:30:00.000Z",
        "last_activity": STARTED,
        "status": "active",
        "execution_state": "idle",
        "resource_limits": limits(),
        "sandbox_mode": "standard",
        "owner": "ada",
        "expression_count": 1,
        "last_seq": 5,
        "expires_at": "2026-04-08T10:35:05.123Z",
    })
}

fn me() -> Value {
    json!({
        "subject": "ada",
        "scopes": ["tool:execute", "session:read"],
        "expires_at": "2026-04-08T11:30:00.000Z",
        "limits": {
            "sessions": 100, "sockets": 2000, "requests_per_minute": 6000, "burst": 200,
            "session": {
                "max_cpu_time": 300, "max_memory_mb": 4096, "max_output_size": 10_485_760, "max_expressions": 10_000,
            },
            "quotas": {
                "period": "day", "executions": 1000, "session_creations": 100, "cpu_seconds": 3600, "stored_mb": null,
            },
        },
        "usage": {
            "sessions": 1, "sockets": 0, "requests_left": 199,
            "quotas": {
                "period_ends_at": "2026-04-09T00:00:00.000Z", "executions": 12, "session_creations": 3,
                "cpu_time_ms": 5400, "stored_bytes": 65_536,
            },
        },
    })
}

fn limits() -> Value {
    json!({ "max_cpu_time": 30, "max_memory_mb": 256, "max_output_size": 1_048_576, "max_expressions": 1000 })
}

fn usage() -> Value {
    json!({ "cpu_time_ms": 4, "peak_memory_bytes": 11_534_336, "output_bytes": 6 })
}

fn execution_result() -> Value {
    json!({
        "session_id": SESSION,
        "execution_id": EXECUTION,
        "execution_count": 1,
        "success": true,
        "output": "hello\n",
        "error": "",
        "result": 42,
        "result_text": "42",
        "display": [],
        "exception": null,
        "exit_code": null,
        "limit": null,
        "violation": null,
        "truncated": false,
        "state_lost": false,
        "usage": usage(),
        "execution_time_ms": 12,
        "timestamp": STARTED,
    })
}

fn history() -> Value {
    json!({ "session_id": SESSION, "total": 1, "limit": 100, "offset": 0, "executions": [{
        "execution_id": EXECUTION,
        "execution_count": 1,
        "code": "print('hello')\n6 * 7",
        "success": true,
        "execution_time_ms": 12,
        "timestamp": STARTED,
        "limit": null,
        "violation": null,
        "usage": usage(),
    }] })
}
