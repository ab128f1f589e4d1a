//! Bearer tokens: a JWT becomes a [`Principal`], or does not. Knows claims and scopes; refuses to know routes.
//!
//! The library's defaults leave much out, so all that counts is set here: one key, named by `kid` or the only one that
//! fits, with the algorithms of its kind ([`keys`]); `sub` and `exp` required, `nbf` checked, `iss` and `aud` required where
//! configured. Nothing that a token says of itself leads to a file, an address or a key from outside.

pub mod keys;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::keys::KeySet;

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
    /// Meant for something else, or to be read by rules that are not ours: `typ` and `crit`.
    #[error("token of another type")]
    Kind,
    /// `exp` has passed.
    #[error("token expired")]
    Expired,
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

/// Why there can be no token.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Below [`MIN_SECRET_BYTES`].
    #[error("a signing secret has {0} bytes; at least {MIN_SECRET_BYTES} are needed")]
    Short(usize),
    /// The subject of a token to be signed breaks the rules.
    #[error("a subject is 1 to {MAX_SUBJECT_CHARS} characters without control characters")]
    Subject,
    /// The library refused.
    #[error("the signing key cannot be used")]
    Library(#[from] jsonwebtoken::errors::Error),
}

/// What a token may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// `tool:execute`: whatever creates, runs or changes; implies reading.
    Execute = 1,
    /// `session:read`
    Read = 2,
    /// `sandbox:relaxed`
    Relaxed = 4,
    /// `admin`: sees everybody's sessions.
    Admin = 8,
}

impl Scope {
    /// Its name in the claim `scope`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Execute => "tool:execute",
            Self::Read => "session:read",
            Self::Relaxed => "sandbox:relaxed",
            Self::Admin => "admin",
        }
    }
}

/// A set of scopes. Names that are not ours are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Reads the claim `scope`: names with spaces between them.
    pub fn parse(text: &str) -> Self {
        let mut set = 0;
        for name in text.split_ascii_whitespace() {
            for scope in [Scope::Execute, Scope::Read, Scope::Relaxed, Scope::Admin] {
                if scope.name() == name {
                    set |= scope as u8;
                }
            }
        }
        if set & Scope::Execute as u8 != 0 {
            set |= Scope::Read as u8;
        }
        Self(set)
    }

    /// The names of all that it has, also of what is implied.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [Scope::Execute, Scope::Read, Scope::Relaxed, Scope::Admin];
        all.into_iter().filter(move |scope| self.has(*scope)).map(Scope::name)
    }

    /// Whether the set has it.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope as u8 != 0
    }
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
    /// The key that its token was checked with.
    key: u64,
    leeway: Duration,
}

impl Principal {
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
    keys: watch::Sender<Arc<KeySet>>,
    /// Everything but the algorithm.
    validation: Validation,
    leeway: Duration,
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
    #[serde(default)]
    scope: String,
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
        Self(Arc::new(Checks { keys: watch::Sender::new(Arc::new(keys)), validation, leeway }))
    }

    /// Checks against other keys from now on.
    pub fn set_keys(&self, keys: KeySet) {
        self.0.keys.send_replace(Arc::new(keys));
    }

    /// Says whom a token stands for.
    ///
    /// # Errors
    /// [`AuthError`]; all of them are the same to a client but expiry.
    pub fn verify(&self, token: &str) -> Result<Principal, AuthError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::TooLong);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|error| reason(error.kind()))?;
        check_header(&header)?;
        let keys = self.0.keys.borrow().clone();
        let key = keys.find(header.alg, header.kid.as_deref())?;
        let validation = Validation { algorithms: vec![header.alg], ..self.0.validation.clone() };
        let decoded = jsonwebtoken::decode::<Claims>(token, key.decoding(), &validation);
        let principal = self.principal(decoded.map_err(|error| reason(error.kind()))?.claims, key.print())?;
        // The library counts whole seconds and lets the last one pass, in which open sockets are closed already.
        if principal.remaining().is_zero() {
            return Err(AuthError::Expired);
        }
        Ok(principal)
    }

    fn principal(&self, claims: Claims, key: u64) -> Result<Principal, AuthError> {
        if !subject_is_valid(&claims.sub) {
            return Err(AuthError::Subject);
        }
        Ok(Principal {
            subject: claims.sub,
            scopes: Scopes::parse(&claims.scope),
            expires_at: expiry(&claims.exp),
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

/// Whom a token is to stand for.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Grant<'a> {
    /// Who.
    #[serde(rename = "sub")]
    pub subject: &'a str,
    /// What is allowed, separated by spaces.
    pub scope: &'a str,
    /// The issuer that the server asks for, if it asks for one.
    #[serde(rename = "iss", skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    /// The audience that the server asks for, if it asks for one.
    #[serde(rename = "aud", skip_serializing_if = "Option::is_none")]
    pub audience: Option<&'a str>,
}

/// Signs an HS256 token that [`Auth::verify`] accepts for `ttl` from now.
///
/// # Errors
/// [`KeyError`] if the secret is too short or the subject breaks the rules.
pub fn sign(secret: &[u8], grant: &Grant<'_>, ttl: Duration) -> Result<String, KeyError> {
    #[derive(Serialize)]
    struct Signed<'a> {
        #[serde(flatten)]
        grant: &'a Grant<'a>,
        iat: u64,
        exp: u64,
    }
    if secret.len() < MIN_SECRET_BYTES {
        return Err(KeyError::Short(secret.len()));
    }
    if !subject_is_valid(grant.subject) {
        return Err(KeyError::Subject);
    }
    let iat = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
    let claims = Signed { grant, iat, exp: iat.saturating_add(ttl.as_secs()) };
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret)?)?)
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
fn expiry(exp: &serde_json::Number) -> jiff::Timestamp {
    let seconds = exp.as_i64().or_else(|| exp.as_f64().filter(|it| *it < 1e12).map(|it| it.floor() as i64));
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
