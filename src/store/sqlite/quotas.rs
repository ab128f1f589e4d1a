//! The statements on what subjects have used. Times are seconds since 1970.

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Result, params};

use super::rows::unsigned;
use crate::store::QuotaUsage;

pub(super) fn usage(db: &Connection) -> Result<Vec<QuotaUsage>> {
    let mut statement =
        db.prepare_cached("SELECT subject, period_start, executions, session_creations, cpu_time_ms FROM quota_usage")?;
    let rows = statement.query_map([], |row| {
        let period_start = Timestamp::from_second(row.get(1)?)
            .map_err(|error| Error::FromSqlConversionFailure(1, Type::Integer, error.into()))?;
        Ok(QuotaUsage {
            subject: row.get(0)?,
            period_start,
            executions: unsigned(row, 2)?,
            session_creations: unsigned(row, 3)?,
            cpu_time_ms: unsigned(row, 4)?,
        })
    })?;
    rows.collect()
}

/// One statement for all of them, so that a failure leaves none of them behind.
pub(super) fn keep(db: &Connection, usage: &[QuotaUsage]) -> Result<()> {
    const MOST: u64 = i64::MAX as u64;
    let clamped = usage.iter().map(|it| QuotaUsage {
        executions: it.executions.min(MOST),
        session_creations: it.session_creations.min(MOST),
        cpu_time_ms: it.cpu_time_ms.min(MOST),
        ..it.clone()
    });
    let json = serde_json::to_string(&clamped.collect::<Vec<_>>())
        .map_err(|error| Error::ToSqlConversionFailure(error.into()))?;
    let mut statement = db.prepare_cached(
        "INSERT OR REPLACE INTO quota_usage (subject, period_start, executions, session_creations, cpu_time_ms)
         SELECT value ->> 'subject', value ->> 'period_start', value ->> 'executions', value ->> 'session_creations',
                value ->> 'cpu_time_ms'
         FROM json_each(?1)",
    )?;
    statement.execute([json])?;
    Ok(())
}

pub(super) fn forget(db: &Connection, before: Timestamp) -> Result<()> {
    let mut statement = db.prepare_cached("DELETE FROM quota_usage WHERE period_start < ?1")?;
    statement.execute(params![before.as_second()])?;
    Ok(())
}
