use http::HeaderValue;
use serde_json::{Value, json};

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn auth(issuer: Option<&str>, audience: Option<&str>) -> Auth {
    Auth::new(SECRET, issuer.map(Into::into), audience.map(Into::into), Duration::from_secs(30)).unwrap()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn signed(header: Value, claims: Value) -> String {
    let part = |value: &Value| encode(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&header), part(&claims));
    let key = EncodingKey::from_secret(SECRET).unwrap();
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize] as char);
        }
    }
    text
}

fn hs256(claims: Value) -> String {
    signed(json!({"alg": "HS256", "typ": "JWT"}), claims)
}

#[test]
fn what_is_signed_is_verified() {
    let mut grant = Grant { subject: "ada", scope: "tool:execute admin other", ..Grant::default() };
    let token = sign(SECRET, &grant, Duration::from_secs(60)).unwrap();
    assert!(auth(Some("me"), Some("us")).verify(&token).is_err());
    (grant.issuer, grant.audience) = (Some("me"), Some("us"));
    let full = sign(SECRET, &grant, Duration::from_secs(60)).unwrap();
    assert!(auth(Some("me"), Some("us")).verify(&full).is_ok());
    let principal = auth(None, None).verify(&token).unwrap();
    assert_eq!(principal.subject, "ada");
    for scope in [Scope::Execute, Scope::Read, Scope::Admin] {
        assert!(principal.scopes.has(scope), "{scope:?}");
    }
    assert!(!principal.scopes.has(Scope::Relaxed));
    let left = principal.remaining().as_secs_f64();
    assert!((88.0..=90.0).contains(&left), "{left}");
}

#[test]
fn forged_and_malformed_tokens_are_refused() {
    let auth = auth(None, None);
    let good = hs256(json!({"sub": "ada", "exp": now() + 60}));
    assert!(auth.verify(&good).is_ok());
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let none = |alg: &str| encode(json!({"alg": alg, "typ": "JWT"}).to_string().as_bytes());
    let flipped = signature.chars().rev().collect::<String>();
    for (name, token) in [
        ("none", format!("{}.{payload}.", none("none"))),
        ("None", format!("{}.{payload}.", none("None"))),
        ("none with a signature", format!("{}.{payload}.{signature}", none("none"))),
        ("another algorithm", format!("{}.{payload}.{signature}", none("HS512"))),
        ("no signature", format!("{header}.{payload}.")),
        ("two segments", format!("{header}.{payload}")),
        ("changed signature", format!("{header}.{payload}.{flipped}")),
        ("abc", "abc".into()),
        ("one segment", header.into()),
        ("empty", String::new()),
        ("dots", "..".into()),
        ("trailing dots", format!("{good}..")),
        ("trailing dot", format!("{good}.")),
        ("leading space", format!(" {good}")),
        ("too long", "a".repeat(MAX_TOKEN_BYTES + 1)),
    ] {
        assert!(auth.verify(&token).is_err(), "{name}");
    }
}

#[test]
fn a_key_id_leads_nowhere() {
    let header = json!({"alg": "HS256", "kid": "../../etc/passwd"});
    assert!(auth(None, None).verify(&signed(header, json!({"sub": "ada", "exp": now() + 60}))).is_ok());
    let other = Auth::new(&[0; 32], None, None, Duration::ZERO).unwrap();
    let token = hs256(json!({"sub": "ada", "exp": now() + 60}));
    assert_eq!(other.verify(&token), Err(AuthError::Signature));
}

#[test]
fn claims_are_checked() {
    let auth = auth(None, None);
    for (claims, expected) in [
        (json!({"sub": "ada"}), Some(AuthError::Malformed)),
        (json!({"exp": now() + 60}), Some(AuthError::Malformed)),
        (json!({"sub": 7, "exp": now() + 60}), Some(AuthError::Malformed)),
        (json!({"sub": "ada", "exp": "2100"}), Some(AuthError::Malformed)),
        (json!({"sub": "ada", "exp": -1}), Some(AuthError::Claim)),
        (json!({"sub": "", "exp": now() + 60}), Some(AuthError::Subject)),
        (json!({"sub": "a\nb", "exp": now() + 60}), Some(AuthError::Subject)),
        (json!({"sub": "é".repeat(257), "exp": now() + 60}), Some(AuthError::Subject)),
        (json!({"sub": "é".repeat(256), "exp": now() + 60}), None),
        (json!({"sub": "ada", "exp": now() - 31}), Some(AuthError::Expired)),
        (json!({"sub": "ada", "exp": now() - 25}), None),
        (json!({"sub": "ada", "exp": now() as f64 + 60.5}), None),
        (json!({"sub": "ada", "exp": u64::MAX}), None),
        (json!({"sub": "ada", "exp": 1e300}), Some(AuthError::Claim)),
        (json!({"sub": "ada", "exp": now() + 60, "nbf": now() + 40}), Some(AuthError::Early)),
        (json!({"sub": "ada", "exp": now() + 60, "nbf": now() + 20}), None),
        (json!({"sub": "ada", "exp": now() + 60, "nbf": "soon"}), Some(AuthError::Claim)),
        (json!({"sub": "ada", "exp": now() + 60, "aud": "elsewhere"}), None),
        (json!({"sub": "ada", "exp": now() + 60, "scope": ["admin"]}), Some(AuthError::Malformed)),
    ] {
        let got = auth.verify(&hs256(claims.clone()));
        assert_eq!(got.as_ref().err(), expected.as_ref(), "{claims}");
        if let Ok(principal) = got {
            assert!(principal.remaining() > Duration::ZERO, "{claims}");
        }
    }
}

#[test]
fn issuer_and_audience_are_required_where_configured() {
    let auth = auth(Some("https://id.example"), Some("repl"));
    let token = |more: Value| {
        let mut claims = json!({"sub": "ada", "exp": now() + 60});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hs256(claims)
    };
    assert!(auth.verify(&token(json!({"iss": "https://id.example", "aud": ["x", "repl"]}))).is_ok());
    for (claims, expected) in [
        (json!({}), AuthError::Claim),
        (json!({"iss": "https://id.example"}), AuthError::Claim),
        (json!({"aud": "repl"}), AuthError::Claim),
        (json!({"iss": "https://evil.example", "aud": "repl"}), AuthError::Issuer),
        (json!({"iss": "https://id.example", "aud": "other"}), AuthError::Audience),
    ] {
        assert_eq!(auth.verify(&token(claims.clone())), Err(expected), "{claims}");
    }
}

#[test]
fn critical_headers_are_refused() {
    let claims = json!({"sub": "ada", "exp": now() + 60});
    for header in [
        json!({"alg": "HS256", "crit": ["exp"]}),
        json!({"alg": "HS256", "crit": []}),
        json!({"alg": "HS256", "crit": ["b64"], "b64": false}),
    ] {
        assert!(auth(None, None).verify(&signed(header.clone(), claims.clone())).is_err(), "{header}");
    }
}

#[test]
fn short_secrets_and_odd_subjects_are_refused() {
    assert!(matches!(
        sign(b"short", &Grant { subject: "ada", ..Grant::default() }, Duration::ZERO),
        Err(KeyError::Short(5))
    ));
    assert!(matches!(sign(SECRET, &Grant::default(), Duration::ZERO), Err(KeyError::Subject)));
    let refused = Auth::new(&[1; 31], None, None, Duration::ZERO).unwrap_err();
    assert_eq!(refused.to_string(), "a signing secret has 31 bytes; at least 32 are needed");
}

#[test]
fn one_authorization_header_with_a_bearer() {
    let mut headers = HeaderMap::new();
    assert_eq!(bearer(&headers), Ok(None));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("bEaReR  a.b.c"));
    assert_eq!(bearer(&headers), Ok(Some("a.b.c")));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer"));
    assert_eq!(bearer(&headers), Ok(Some("")));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
    assert_eq!(bearer(&headers), Err(AuthError::Malformed));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer a.b.c"));
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a.b.c"));
    assert_eq!(bearer(&headers), Err(AuthError::Ambiguous));
}
