//! `create`, `sessions`, `history`, `interrupt`, `restart`, `terminate`: one question to the server each, and its answer.

use repltool_protocol::event::{ExecutionState, SessionStatus};
use repltool_protocol::rest::{History, HistoryEntry, MAX_PAGE, Session, SessionList};
use serde::Serialize;
use serde_json::json;

use super::args::{Create, Interrupt, OfSession, Sessions, Terminate};
use super::print::{json, print};
use super::{Output, connect, table};
use crate::client::Client;

/// Creates a session and prints its id.
pub(super) async fn create(args: Create) -> anyhow::Result<u8> {
    let client = connect::client(args.server)?;
    let session = client.create(&args.session.config()).await.map_err(connect::explain)?;
    match args.output {
        Output::Text => print(&format!("{}\n", session.session_id))?,
        Output::Json => json(&session)?,
    }
    Ok(0)
}

/// Lists the caller's sessions.
pub(super) async fn sessions(args: Sessions) -> anyhow::Result<u8> {
    let client = connect::client(args.server)?;
    let list = all_sessions(&client).await?;
    if args.output == Output::Json {
        return json(&list).map(|()| 0);
    }
    let rows: Vec<_> = list.sessions.iter().map(row).collect();
    print(&table::lines(["ID", "LANGUAGE", "LEVEL", "STATUS", "STATE", "RUNS", "CREATED", "ENDS UNUSED"], &rows))?;
    Ok(0)
}

/// Every page of the list as one.
async fn all_sessions(client: &Client) -> anyhow::Result<SessionList> {
    let mut all = client.list(MAX_PAGE, 0).await.map_err(connect::explain)?;
    loop {
        let so_far = all.sessions.len() as u64;
        if so_far >= all.total {
            return Ok(all);
        }
        let page = client.list(MAX_PAGE, so_far).await.map_err(connect::explain)?;
        if page.sessions.is_empty() {
            return Ok(all);
        }
        all.sessions.extend(page.sessions);
    }
}

fn row(session: &Session) -> [String; 8] {
    let status = match session.status {
        SessionStatus::Active => "active",
        SessionStatus::Idle => "idle",
        SessionStatus::Terminated => "terminated",
        SessionStatus::Error => "error",
    };
    let state = match session.execution_state {
        ExecutionState::Starting => "starting",
        ExecutionState::Idle => "idle",
        ExecutionState::Busy => "busy",
    };
    [
        session.session_id.to_string(),
        word(&session.language),
        word(&session.sandbox_mode),
        status.to_owned(),
        state.to_owned(),
        session.expression_count.to_string(),
        seconds(&session.created_at).to_owned(),
        session.expires_at.as_deref().map_or("-", seconds).to_owned(),
    ]
}

/// The protocol's own word for a value.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A time without its fraction of a second.
fn seconds(time: &str) -> &str {
    time.split('.').next().unwrap_or(time)
}

/// Prints the past executions of a session.
pub(super) async fn history(args: OfSession) -> anyhow::Result<u8> {
    let client = connect::client(args.server)?;
    let mut history = client.history(&args.session, MAX_PAGE, 0).await.map_err(connect::explain)?;
    while let Some(page) = next_page(&client, &history).await? {
        history.executions.extend(page.executions);
    }
    match args.output {
        Output::Text => print(&history.executions.iter().map(in_text).collect::<String>())?,
        Output::Json => json(&history)?,
    }
    Ok(0)
}

async fn next_page(client: &Client, history: &History) -> anyhow::Result<Option<History>> {
    let so_far = history.executions.len() as u64;
    if so_far >= history.total {
        return Ok(None);
    }
    let page = client.history(&history.session_id, MAX_PAGE, so_far).await.map_err(connect::explain)?;
    Ok(Some(page).filter(|page| !page.executions.is_empty()))
}

/// One line on how it went, then the code.
fn in_text(entry: &HistoryEntry) -> String {
    let ended = match (entry.success, entry.limit) {
        (true, _) => "ok".to_owned(),
        (false, Some(limit)) => format!("failed: {}", word(&limit)),
        (false, None) => "failed".to_owned(),
    };
    let HistoryEntry { execution_count, execution_time_ms, .. } = entry;
    let head = format!("[{execution_count}] {}  {ended}, {execution_time_ms} ms\n", seconds(&entry.timestamp));
    entry.code.lines().fold(head, |text, line| format!("{text}    {line}\n"))
}

/// Interrupts what runs, or the named execution.
pub(super) async fn interrupt(args: Interrupt) -> anyhow::Result<u8> {
    let Interrupt { execution, of } = args;
    let client = connect::client(of.server)?;
    client.interrupt(&of.session, execution.as_ref()).await.map_err(connect::explain)?;
    if of.output == Output::Json {
        json(&client.get(&of.session).await.map_err(connect::explain)?)?;
    }
    Ok(0)
}

/// Gives a session a fresh interpreter.
pub(super) async fn restart(args: OfSession) -> anyhow::Result<u8> {
    let client = connect::client(args.server)?;
    let session = client.restart(&args.session).await.map_err(connect::explain)?;
    if args.output == Output::Json {
        json(&session)?;
    }
    Ok(0)
}

/// Ends sessions, as many as it can; those that it cannot are named.
pub(super) async fn terminate(args: Terminate) -> anyhow::Result<u8> {
    let client = connect::client(args.server)?;
    let (mut ended, mut code) = (Vec::new(), 0);
    for session in &args.sessions {
        match client.delete(session).await {
            Ok(()) => ended.push(session),
            Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => {
                eprintln!("repltool: {session}: {error}");
                code = 1;
            }
            Err(error) => return Err(connect::explain(error).context(format!("{session} was not terminated"))),
        }
    }
    if args.output == Output::Json {
        json(&json!({ "terminated": ended }))?;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_of_the_past_is_shown_with_its_end() {
        let entry: HistoryEntry = serde_json::from_value(json!({
            "execution_id": "e1", "execution_count": 3, "code": "while True:\n    pass", "success": false,
            "execution_time_ms": 1003, "timestamp": "2026-11-29T15:06:24.489Z", "limit": "wall_time", "violation": null,
            "usage": { "cpu_time_ms": 990, "peak_memory_bytes": 1, "output_bytes": 0 }
        }))
        .unwrap();
        let told = "[3] 2026-11-29T15:06:24  failed: wall_time, 1003 ms\n    while True:\n        pass\n";
        assert_eq!(in_text(&entry), told);
    }
}
