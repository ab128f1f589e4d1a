//! The claim `repl_limits`: what the holder of a token may have at most, beside what the server allows to everybody. It
//! only ever lowers.

use repltool_protocol::rest::ResourceLimits;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::AuthError;
use crate::session::quotas::Caps;

/// What a token allows; none: as much as the server does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReplLimits {
    /// Sessions of the subject at once.
    pub max_sessions: Option<u64>,
    /// Sockets and streams of the subject at once.
    pub max_sockets: Option<u64>,
    /// Requests in a minute, and messages of each socket.
    pub requests_per_minute: Option<u64>,
    /// How many of them may come at once.
    pub burst: Option<u64>,
    /// `max_cpu_time` of a session, in seconds.
    pub max_cpu_time: Option<u64>,
    /// `max_memory_mb` of a session.
    pub max_memory_mb: Option<u64>,
    /// `max_output_size` of a session, in bytes.
    pub max_output_size: Option<u64>,
    /// `max_expressions` of a session.
    pub max_expressions: Option<u64>,
    /// Executions of the subject in a period.
    pub executions: Option<u64>,
    /// Sessions that the subject creates in a period.
    pub session_creations: Option<u64>,
    /// Seconds of CPU time of the subject in a period.
    pub cpu_seconds: Option<u64>,
    /// MiB in the logs of the subject's sessions.
    pub stored_mb: Option<u64>,
}

impl ReplLimits {
    /// Reads the claim. Members that are not known are left out.
    ///
    /// # Errors
    /// [`AuthError::Claim`] for members of another type: a limit that cannot be read must not be taken for none.
    pub(super) fn read(claim: Option<Map<String, Value>>) -> Result<Self, AuthError> {
        let Some(claim) = claim else { return Ok(Self::default()) };
        serde_json::from_value(Value::Object(claim)).map_err(|_| AuthError::Claim)
    }

    /// Lowers what a session asks for. A limit below what a session may ask for counts as the least that it may.
    pub fn lower(&self, asked: &mut ResourceLimits, min_memory_mb: u64) {
        let lower = |value: &mut u64, most: Option<u64>, least: u64| {
            *value = (*value).min(most.map_or(u64::MAX, |most| most.max(least)));
        };
        lower(&mut asked.max_cpu_time, self.max_cpu_time, *ResourceLimits::CPU_TIME.start());
        lower(&mut asked.max_memory_mb, self.max_memory_mb, min_memory_mb);
        lower(&mut asked.max_output_size, self.max_output_size, *ResourceLimits::OUTPUT_SIZE.start());
        lower(&mut asked.max_expressions, self.max_expressions, *ResourceLimits::EXPRESSIONS.start());
    }

    /// The most that a session may ask for.
    pub fn most(&self) -> ResourceLimits {
        let mut most = ResourceLimits {
            max_cpu_time: *ResourceLimits::CPU_TIME.end(),
            max_memory_mb: *ResourceLimits::MEMORY_MB.end(),
            max_output_size: *ResourceLimits::OUTPUT_SIZE.end(),
            max_expressions: *ResourceLimits::EXPRESSIONS.end(),
        };
        self.lower(&mut most, *ResourceLimits::MEMORY_MB.start());
        most
    }

    /// What the quotas are lowered to.
    pub fn caps(&self) -> Caps {
        let Self { executions, session_creations, cpu_seconds, stored_mb, .. } = *self;
        Caps { executions, session_creations, cpu_seconds, stored_mb }
    }

    /// The smaller of a cap of the server and one of the token.
    pub fn at_most(cap: usize, lowered: Option<u64>) -> usize {
        lowered.map_or(cap, |lowered| cap.min(usize::try_from(lowered).unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(claim: Value) -> Result<ReplLimits, AuthError> {
        ReplLimits::read(claim.as_object().cloned())
    }

    #[test]
    fn limits_of_a_token_only_lower() {
        let limits = read(json!({"max_cpu_time": 5, "max_memory_mb": 9999, "max_output_size": 1})).unwrap();
        let mut asked = ResourceLimits::default();
        limits.lower(&mut asked, 32);
        let expected = ResourceLimits { max_cpu_time: 5, max_output_size: 1024, ..ResourceLimits::default() };
        assert_eq!(asked, expected);
        let mut little = ResourceLimits { max_cpu_time: 2, ..asked };
        limits.lower(&mut little, 32);
        assert_eq!(little.max_cpu_time, 2);
        let zero = read(json!({"max_memory_mb": 0, "max_cpu_time": 0, "max_expressions": 0})).unwrap();
        zero.lower(&mut asked, 64);
        assert_eq!((asked.max_memory_mb, asked.max_cpu_time, asked.max_expressions), (64, 1, 1));
        assert_eq!(ReplLimits::default().most().max_memory_mb, 4096);
        assert_eq!((ReplLimits::at_most(5, Some(7)), ReplLimits::at_most(5, Some(0))), (5, 0));
        assert_eq!(ReplLimits::at_most(5, None), 5);
    }

    #[test]
    fn what_cannot_be_read_is_no_absence_of_a_limit() {
        for member in [
            "max_sessions",
            "max_sockets",
            "requests_per_minute",
            "burst",
            "max_cpu_time",
            "max_memory_mb",
            "executions",
            "stored_mb",
        ] {
            for wrong in [json!("5"), json!(-1), json!(1.5), json!([5]), json!({}), json!(true), json!(1e30)] {
                assert_eq!(read(json!({ member: wrong })), Err(AuthError::Claim), "{member}: {wrong}");
            }
        }
        assert_eq!(read(json!({"max_gold": "much"})), Ok(ReplLimits::default()), "unknown members are left out");
        assert_eq!(read(json!({"max_sessions": null})), Ok(ReplLimits::default()));
    }
}
