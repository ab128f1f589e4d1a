//! Bearer tokens: a JWT becomes a [`Principal`], or does not. Knows claims and scopes; refuses to know routes.
//!
//! The library's defaults leave much out, so all that counts is set here: one key, named by `kid` or the only one that
//! fits, with the algorithms of its kind ([`keys`]); `sub` and `exp` required, `nbf` checked, `iss` and `aud` required where
//! configured. Nothing that a token says of itself leads to a file, an address or a key from outside.

pub mod keys;
mod known;
mod limits;
pub mod revoked;
mod scopes;
mod sign;
mod tenure;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, Validation};
use serde::Deserialize;
use tokio::sync::{Notify, watch};

use self::keys::{KeyPrint, KeySet};
use self::known::Known;
pub use self::limits::ReplLimits;
use self::revoked::Revocations;
pub use self::scopes::{Scope, Scopes};
pub use self::sign::{Grant, KeyError, sign};
pub use self::tenure::Tenure;
use crate::session::registry::Owner;

/// The shortest secret, in bytes: that of the hash.
pub const MIN_SECRET_BYTES: usize = 32;
/// The longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = repltool_protocol::token::MAX_TOKEN_BYTES;
/// The longest subject, in characters.
pub const MAX_SUBJECT_CHARS: usize = 256;

/// Why a token is not accepted. The messages are constant: nothing of a token gets into a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is none.
    #[error("no bearer token")]
    Missing,
    /// There are several.
    #[error("more than one token")]
    Ambiguous,
    /// Above [`MAX_TOKEN_BYTES`].
    #[error("token too long")]
    TooLong,
    /// No JWT.
    #[error("token malformed")]
    Malformed,
    /// Signed with another algorithm, or not at all.
    #[error("token algorithm not allowed")]
    Algorithm,
    /// Signed with another key.
    #[error("token signature wrong")]
    Signature,
    /// Names no key, or one that is not there.
    #[error("token of an unknown key")]
    Key,
    /// The server's keys are still to be fetched.
    #[error("no keys to check tokens with yet")]
    NoKeys,
    /// Meant for something else, or to be read by rules that are not ours: `typ` and `crit`.
    #[error("token of another type")]
    Kind,
    /// `exp` has passed.
    #[error("token expired")]
    Expired,
    /// In the list of revocations.
    #[error("token revoked")]
    Revoked,
    /// `nbf` is to come.
    #[error("token not valid yet")]
    Early,
    /// A required claim is missing or has the wrong type.
    #[error("token claim missing or of the wrong type")]
    Claim,
    /// From another issuer.
    #[error("token from another issuer")]
    Issuer,
    /// For another audience.
    #[error("token for another audience")]
    Audience,
    /// `sub` is empty, too long or has control characters.
    #[error("token subject not allowed")]
    Subject,
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Claim `sub`: owns sessions.
    pub subject: String,
    /// Claim `scope`.
    pub scopes: Scopes,
    /// Claim `exp`.
    pub expires_at: jiff::Timestamp,
    /// Claim `repl_limits`.
    pub limits: ReplLimits,
    /// Claim `jti`.
    token_id: Option<String>,
    /// Claim `iat`.
    issued_at: Option<jiff::Timestamp>,
    /// The key that its token was checked with.
    key: KeyPrint,
    leeway: Duration,
}

impl Principal {
    /// Whose sessions it creates, and how many of them it may have.
    pub(super) fn owner(&self) -> Owner {
        let max_sessions = self.limits.max_sessions.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        Owner { name: self.subject.clone(), max_sessions, caps: self.limits.caps() }
    }

    /// How long the token is still good for, leeway included; zero once it is not.
    pub fn remaining(&self) -> Duration {
        let now = jiff::Timestamp::now();
        let left = self.expires_at.as_second().saturating_sub(now.as_second());
        let whole = left.saturating_add(i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX));
        // `exp` counts whole seconds: what has passed of this one is taken off, so that nothing lives longer.
        let passed = Duration::from_nanos(now.subsec_nanosecond().unsigned_abs().into());
        Duration::from_secs(u64::try_from(whole).unwrap_or(0)).saturating_sub(passed)
    }
}

/// Checks tokens. Cheap to clone.
#[derive(Clone)]
pub struct Auth(Arc<Checks>);

struct Checks {
    in_force: watch::Sender<Arc<InForce>>,
    /// Told of tokens of keys that are not known.
    missed: Notify,
    /// Everything but the algorithm.
    validation: Validation,
    known: Known,
    leeway: Duration,
}

/// What changes while the server runs. Whoever holds something open hears of it.
#[derive(Clone)]
struct InForce {
    keys: Arc<KeySet>,
    revoked: Arc<Revocations>,
}

impl InForce {
    /// Whether a token that was good once still is, but for its expiry.
    fn admits(&self, principal: &Principal) -> bool {
        self.keys.has(principal.key) && !self.revoked.covers(principal)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth(***)")
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: serde_json::Number,
    iat: Option<serde_json::Number>,
    jti: Option<String>,
    #[serde(default)]
    scope: String,
    repl_limits: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Auth {
    /// Checks against these keys. A given issuer or audience must be there and be this one. `leeway` counts whole seconds.
    pub fn new(keys: KeySet, issuer: Option<String>, audience: Option<String>, leeway: Duration) -> Self {
        let mut validation = Validation::default();
        let mut required = vec!["sub", "exp"];
        validation.leeway = leeway.as_secs();
        validation.validate_nbf = true;
        if let Some(issuer) = issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        match audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            None => validation.validate_aud = false,
        }
        validation.set_required_spec_claims(&required);
        let in_force = InForce { keys: Arc::new(keys), revoked: Arc::default() };
        let (in_force, missed) = (watch::Sender::new(Arc::new(in_force)), Notify::new());
        Self(Arc::new(Checks { in_force, missed, validation, known: Known::new(), leeway }))
    }

    /// Checks against other keys from now on. What was opened by those that are gone ends.
    pub fn set_keys(&self, keys: KeySet) {
        self.0.in_force.send_modify(|it| Arc::make_mut(it).keys = Arc::new(keys));
    }

    /// Lets these in no longer, and all others. What was opened by those ends.
    pub fn set_revoked(&self, revoked: Revocations) {
        self.0.in_force.send_modify(|it| Arc::make_mut(it).revoked = Arc::new(revoked));
    }

    /// Returns when a token came of a key that is not known.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn missed(&self) {
        self.0.missed.notified().await;
    }

    /// Whether there are keys: those that are fetched may still be on their way.
    pub fn has_keys(&self) -> bool {
        !self.0.in_force.borrow().keys.is_empty()
    }

    /// The principal for as long as its token is good.
    pub fn tenure(&self, principal: Principal) -> Tenure {
        Tenure::new(principal, self.0.in_force.subscribe())
    }

    /// Says whom a token stands for.
    ///
    /// # Errors
    /// [`AuthError`]; all of them are the same to a client but expiry.
    pub fn verify(&self, token: &str) -> Result<Principal, AuthError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::TooLong);
        }
        let in_force = self.0.in_force.borrow().clone();
        let name = Known::name(token);
        // What a token says does not change, but its time passes, and keys and revocations come and go.
        let still_good = |it: &Principal| !it.remaining().is_zero() && in_force.admits(it);
        if let Some(principal) = self.0.known.find(&name).filter(still_good) {
            return Ok(principal);
        }
        let principal = self.check(token, &in_force)?;
        self.0.known.remember(name, principal.clone());
        Ok(principal)
    }

    fn check(&self, token: &str, in_force: &InForce) -> Result<Principal, AuthError> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| reason(error.kind()))?;
        check_header(&header)?;
        let key = in_force.keys.find(header.alg, header.kid.as_deref()).inspect_err(|_| self.0.missed.notify_one())?;
        let validation = Validation { algorithms: vec![header.alg], ..self.0.validation.clone() };
        let decoded = jsonwebtoken::decode::<Claims>(token, key.decoding(), &validation);
        let principal = self.principal(decoded.map_err(|error| reason(error.kind()))?.claims, key.print())?;
        // The library counts whole seconds and lets the last one pass, in which open sockets are closed already.
        if principal.remaining().is_zero() {
            return Err(AuthError::Expired);
        }
        if !in_force.admits(&principal) {
            return Err(AuthError::Revoked);
        }
        Ok(principal)
    }

    fn principal(&self, claims: Claims, key: KeyPrint) -> Result<Principal, AuthError> {
        if !subject_is_valid(&claims.sub) {
            return Err(AuthError::Subject);
        }
        Ok(Principal {
            subject: claims.sub,
            scopes: Scopes::parse(&claims.scope),
            expires_at: instant(&claims.exp),
            limits: ReplLimits::read(claims.repl_limits)?,
            token_id: claims.jti,
            // Beyond the calendar is no time at which anything was issued.
            issued_at: claims.iat.as_ref().map(instant).filter(|at| *at < jiff::Timestamp::MAX),
            key,
            leeway: self.0.leeway,
        })
    }
}

/// The token of the header `Authorization`, if there is one.
///
/// # Errors
/// [`AuthError`] if there are several such headers, or another scheme than `Bearer`.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(AuthError::Ambiguous);
    }
    let text = value.to_str().map_err(|_| AuthError::Malformed)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthError::Malformed);
    }
    Ok(Some(token.trim_matches(' ')))
}

/// What is to be known before a key is looked for. `b64` and all else that a token calls critical is foreign to us.
fn check_header(header: &Header) -> Result<(), AuthError> {
    let kind = header.typ.as_deref().map(str::to_ascii_lowercase);
    let kind = kind.as_deref().map(|it| it.strip_prefix("application/").unwrap_or(it));
    let is_access_token = matches!(kind, None | Some("jwt" | "at+jwt"));
    if header.crit.is_some() || !is_access_token {
        return Err(AuthError::Kind);
    }
    Ok(())
}

fn subject_is_valid(subject: &str) -> bool {
    !subject.is_empty() && subject.chars().count() <= MAX_SUBJECT_CHARS && !subject.chars().any(char::is_control)
}

/// Whole seconds; what lies beyond the calendar is its end.
fn instant(seconds: &serde_json::Number) -> jiff::Timestamp {
    let seconds = seconds.as_i64().or_else(|| seconds.as_f64().filter(|it| *it < 1e12).map(|it| it.floor() as i64));
    seconds.and_then(|it| jiff::Timestamp::from_second(it).ok()).unwrap_or(jiff::Timestamp::MAX)
}

fn reason(kind: &ErrorKind) -> AuthError {
    match kind {
        ErrorKind::InvalidSignature => AuthError::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => AuthError::Algorithm,
        ErrorKind::ExpiredSignature => AuthError::Expired,
        ErrorKind::ImmatureSignature => AuthError::Early,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => AuthError::Claim,
        ErrorKind::InvalidIssuer => AuthError::Issuer,
        ErrorKind::InvalidAudience => AuthError::Audience,
        ErrorKind::InvalidSubject => AuthError::Subject,
        // The library's enum is open; whatever else it finds makes the token unreadable.
        _ => AuthError::Malformed,
    }
}

#[cfg(test)]
mod tests;
