//! The statements, and what a row looks like. Times are microseconds since 1970, small values JSON.

use jiff::Timestamp;
use repltool_protocol::event::SessionStatus;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::HistoryEntry;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::{SessionRow, SessionState};

pub(super) fn create_session(db: &Connection, row: &SessionRow) -> Result<()> {
    let mut statement = db.prepare_cached(
        "INSERT INTO session (id, owner, config, created_at, ended_at, last_activity, status, expression_count, state_lost)
         VALUES (?1, ?2, ?3, ?4, ?5, ?4, ?6, 0, FALSE)",
    )?;
    let ended_at = row.ended_at.map(Timestamp::as_microsecond);
    let created_at = row.created_at.as_microsecond();
    let status = json(&SessionStatus::Active)?;
    statement.execute(params![row.id.as_str(), row.owner, json(&row.config)?, created_at, ended_at, status])?;
    Ok(())
}

pub(super) fn sessions(db: &Connection) -> Result<Vec<SessionRow>> {
    let mut statement =
        db.prepare_cached("SELECT id, owner, config, created_at, ended_at FROM session ORDER BY created_at, rowid")?;
    let rows = statement.query_map([], |row| {
        Ok(SessionRow {
            id: parsed(row, 0)?,
            owner: row.get(1)?,
            config: from_json(row, 2)?,
            created_at: time(3, row.get(3)?)?,
            ended_at: row.get::<_, Option<i64>>(4)?.map(|at| time(4, at)).transpose()?,
        })
    })?;
    rows.collect()
}

pub(super) fn state(db: &Connection, id: &SessionId) -> Result<Option<SessionState>> {
    let mut statement =
        db.prepare_cached("SELECT last_activity, status, expression_count, state_lost FROM session WHERE id = ?1")?;
    let state = statement.query_row([id.as_str()], |row| {
        Ok(SessionState {
            last_activity: time(0, row.get(0)?)?,
            status: from_json(row, 1)?,
            expression_count: unsigned(row, 2)?,
            state_lost: row.get(3)?,
        })
    });
    state.optional()
}

pub(super) fn touch(db: &Connection, id: &SessionId, at: Timestamp) -> Result<()> {
    let mut statement = db.prepare_cached("UPDATE session SET last_activity = ?2 WHERE id = ?1")?;
    statement.execute(params![id.as_str(), at.as_microsecond()])?;
    Ok(())
}

pub(super) fn update(db: &Connection, id: &SessionId, state: SessionState) -> Result<()> {
    let mut statement = db.prepare_cached(
        "UPDATE session SET last_activity = ?2, status = ?3, expression_count = ?4, state_lost = ?5 WHERE id = ?1",
    )?;
    let (at, count) = (state.last_activity.as_microsecond(), signed(state.expression_count)?);
    statement.execute(params![id.as_str(), at, json(&state.status)?, count, state.state_lost])?;
    Ok(())
}

pub(super) fn end(db: &Connection, id: &SessionId, at: Timestamp) -> Result<()> {
    let mut statement = db.prepare_cached("UPDATE session SET ended_at = ?2, status = ?3 WHERE id = ?1")?;
    statement.execute(params![id.as_str(), at.as_microsecond(), json(&SessionStatus::Terminated)?])?;
    Ok(())
}

/// Takes the executions with it.
pub(super) fn delete_session(db: &Connection, id: &SessionId) -> Result<()> {
    db.prepare_cached("DELETE FROM session WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

/// Nothing comes of it if the session was deleted meanwhile.
pub(super) fn finish(db: &Connection, id: &SessionId, entry: &HistoryEntry) -> Result<()> {
    let mut statement = db.prepare_cached(
        "INSERT INTO execution (session, execution_id, execution_count, code, success, execution_time_ms, timestamp,
                                \"limit\", violation, usage)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM session WHERE id = ?1
         ON CONFLICT (session, execution_id) DO NOTHING",
    )?;
    statement.execute(params![
        id.as_str(),
        entry.execution_id.as_str(),
        signed(entry.execution_count)?,
        entry.code,
        entry.success,
        signed(entry.execution_time_ms)?,
        entry.timestamp,
        entry.limit.as_ref().map(json).transpose()?,
        entry.violation.as_ref().map(json).transpose()?,
        json(&entry.usage)?,
    ])?;
    Ok(())
}

pub(super) fn history(db: &Connection, id: &SessionId, limit: u64, offset: u64) -> Result<(u64, Vec<HistoryEntry>)> {
    let total = db
        .prepare_cached("SELECT count(*) FROM execution WHERE session = ?1")?
        .query_row([id.as_str()], |row| unsigned(row, 0))?;
    let mut statement = db.prepare_cached(
        "SELECT execution_id, execution_count, code, success, execution_time_ms, timestamp, \"limit\", violation, usage
         FROM execution WHERE session = ?1 ORDER BY position LIMIT ?2 OFFSET ?3",
    )?;
    let rows = statement.query_map(params![id.as_str(), signed(limit)?, signed(offset)?], |row| {
        Ok(HistoryEntry {
            execution_id: parsed(row, 0)?,
            execution_count: unsigned(row, 1)?,
            code: row.get(2)?,
            success: row.get(3)?,
            execution_time_ms: unsigned(row, 4)?,
            timestamp: row.get(5)?,
            limit: maybe_json(row, 6)?,
            violation: maybe_json(row, 7)?,
            usage: from_json(row, 8)?,
        })
    })?;
    Ok((total, rows.collect::<Result<_>>()?))
}

/// SQLite's integers have a sign.
fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}

pub(super) fn unsigned(row: &Row<'_>, at: usize) -> Result<u64> {
    let value: i64 = row.get(at)?;
    u64::try_from(value).map_err(|_| Error::IntegralValueOutOfRange(at, value))
}

fn time(at: usize, microseconds: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(microseconds).map_err(|error| wrong(at, Type::Integer, error))
}

fn parsed<T: std::str::FromStr>(row: &Row<'_>, at: usize) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get::<_, String>(at)?.parse().map_err(|error| wrong(at, Type::Text, error))
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<T> {
    serde_json::from_str(&row.get::<_, String>(at)?).map_err(|error| wrong(at, Type::Text, error))
}

fn maybe_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<Option<T>> {
    row.get::<_, Option<String>>(at)?.map(|_| from_json(row, at)).transpose()
}

fn wrong(at: usize, kind: Type, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::FromSqlConversionFailure(at, kind, Box::new(error))
}
