//! Tokens: a text is never one, since nobody can sign it; the same text as claims, signed, is one only if they say what
//! they must; as a subject it comes back as it was.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use libfuzzer_sys::fuzz_target;
use repltool::edge::auth::keys::KeySet;
use repltool::edge::auth::{Auth, Grant, MAX_SUBJECT_CHARS, Principal, Scope, Scopes, sign};
use serde_json::{Map, Value};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const OTHER: &[u8] = b"fedcba9876543210fedcba9876543210";
const LEEWAY: Duration = Duration::from_secs(30);

static AUTH: LazyLock<Auth> = LazyLock::new(|| Auth::new(keys(SECRET), None, None, LEEWAY));
static STRICT: LazyLock<Auth> =
    LazyLock::new(|| Auth::new(keys(SECRET), Some("me".to_owned()), Some("us".to_owned()), LEEWAY));
static STRANGER: LazyLock<Auth> = LazyLock::new(|| Auth::new(keys(OTHER), None, None, LEEWAY));
static KEY: LazyLock<EncodingKey> = LazyLock::new(|| EncodingKey::from_secret(SECRET).expect("the secret is long"));

fn keys(secret: &[u8]) -> KeySet {
    KeySet::secret(secret).expect("the secret is long")
}

fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT_CHARS).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

fn check(principal: &Principal, claims: &Map<String, Value>) {
    assert_eq!(claims.get("sub").and_then(Value::as_str), Some(principal.subject.as_str()));
    assert!(is_subject(&principal.subject));
    let scope = claims.get("scope").map_or("", |it| it.as_str().expect("a scope is a text"));
    assert_eq!(principal.scopes, Scopes::parse(scope));
    assert!(!principal.scopes.has(Scope::Admin) || scope.contains("admin"));
    let now = seconds();
    assert!(claims["exp"].as_f64().expect("a number") > now - 31.0);
    assert!(claims.get("nbf").and_then(Value::as_f64).is_none_or(|it| it < now + 32.0));
}

fn seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |it| it.as_secs_f64())
}

fuzz_target!(|text: &str| {
    assert!(AUTH.verify(text).is_err());
    let grant = Grant { subject: text, scope: text, ..Grant::default() };
    match sign(SECRET, &grant, Duration::from_secs(60)) {
        Ok(token) if token.len() <= repltool::edge::auth::MAX_TOKEN_BYTES => {
            assert_eq!(AUTH.verify(&token).map(|it| it.subject).as_deref(), Ok(text));
            assert!(STRANGER.verify(&token).is_err() && STRICT.verify(&token).is_err());
        }
        Ok(token) => assert!(AUTH.verify(&token).is_err()),
        Err(_) => assert!(!is_subject(text)),
    }
    let Ok(claims) = serde_json::from_str::<Map<String, Value>>(text) else { return };
    let Ok(token) = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &KEY) else { return };
    if let Ok(principal) = AUTH.verify(&token) {
        check(&principal, &claims);
    }
    if STRICT.verify(&token).is_ok() {
        assert!(claims["iss"].to_string().contains("me") && claims["aud"].to_string().contains("us"));
    }
    assert!(STRANGER.verify(&token).is_err());
});
