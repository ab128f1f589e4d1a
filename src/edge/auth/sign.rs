//! Tokens of the server's own secret: for `repltool token`, and for the command line on the server's machine.

use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use super::{MAX_SUBJECT_CHARS, MIN_SECRET_BYTES, subject_is_valid};

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
