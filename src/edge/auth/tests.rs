use http::HeaderValue;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn auth(issuer: Option<&str>, audience: Option<&str>) -> Auth {
    let keys = KeySet::secret(SECRET).unwrap();
    Auth::new(keys, issuer.map(Into::into), audience.map(Into::into), Duration::from_secs(30))
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn signed(header: Value, claims: Value) -> String {
    raw(header.to_string().as_bytes(), claims.to_string().as_bytes())
}

/// A token of any two texts, signed with our secret.
fn raw(header: &[u8], claims: &[u8]) -> String {
    by(SECRET, header, claims)
}

fn by(secret: &[u8], header: &[u8], claims: &[u8]) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let key = EncodingKey::from_secret(secret).unwrap();
    format!("{message}.{}", jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap())
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
    let other = Auth::new(KeySet::secret(&[0; 32]).unwrap(), None, None, Duration::ZERO);
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
    let refused = KeySet::secret(&[1; 31]).unwrap_err();
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

#[test]
fn a_header_says_what_a_token_is_and_nothing_else_of_it() {
    let claims = json!({"sub": "ada", "exp": now() + 60});
    let verdict = |header: Value| auth(None, None).verify(&signed(header, claims.clone())).err();
    for kind in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/jwt"] {
        assert_eq!(verdict(json!({"alg": "HS256", "typ": kind})), None, "{kind}");
    }
    for kind in ["", "JWS", "dpop+jwt", "logout+jwt", "secevent+jwt", "at+jwt ", "xapplication/jwt"] {
        assert_eq!(verdict(json!({"alg": "HS256", "typ": kind})), Some(AuthError::Kind), "{kind}");
    }
    assert_eq!(verdict(json!({"alg": "HS256"})), None);
    for (name, alg) in [("lower case", json!("hs256")), ("a list", json!(["HS256"])), ("null", Value::Null)] {
        assert_eq!(verdict(json!({"alg": alg})), Some(AuthError::Malformed), "{name}");
    }
    assert_eq!(verdict(json!({"typ": "JWT"})), Some(AuthError::Malformed), "no alg");
    for crit in [json!(["exp"]), json!([]), json!(["b64"])] {
        assert_eq!(verdict(json!({"alg": "HS256", "crit": crit, "b64": true})), Some(AuthError::Kind), "{crit}");
    }
    assert!(verdict(json!({"alg": "HS256", "b64": false})).is_some());
}

#[test]
fn keys_and_addresses_in_a_header_lead_nowhere() {
    let claims = json!({"sub": "ada", "exp": now() + 60});
    let jwk = json!({"kty": "oct", "k": encode(&[7; 32]), "kid": "mine"});
    for more in [
        json!({"jwk": jwk}),
        json!({"jku": "http://127.0.0.1:1/keys", "kid": "mine"}),
        json!({"x5u": "file:///etc/passwd"}),
        json!({"x5c": ["AAAA"]}),
        json!({"kid": "/dev/null"}),
        json!({"kid": "' UNION SELECT 'secret"}),
    ] {
        let mut header = json!({"alg": "HS256"});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(auth(None, None).verify(&signed(header.clone(), claims.clone())).is_ok(), "by our key: {more}");
        let forged = by(&[7; 32], header.to_string().as_bytes(), claims.to_string().as_bytes());
        assert_eq!(auth(None, None).verify(&forged), Err(AuthError::Signature), "by its own key: {more}");
    }
}

#[test]
fn texts_that_readers_could_take_in_two_ways_are_refused() {
    let (head, later) = (r#"{"alg":"HS256"}"#, now() + 60);
    let good = format!(r#"{{"sub":"ada","exp":{later}}}"#);
    let verdict = |header: &str, claims: &str| auth(None, None).verify(&raw(header.as_bytes(), claims.as_bytes()));
    assert!(verdict(head, &good).is_ok());
    for (what, header, claims) in [
        ("two alg", r#"{"alg":"HS256","alg":"none"}"#, good.clone()),
        ("two alg, the other way", r#"{"alg":"none","alg":"HS256"}"#, good.clone()),
        ("two kid", r#"{"alg":"HS256","kid":"a","kid":"b"}"#, good.clone()),
        ("two typ", r#"{"alg":"HS256","typ":"x","typ":"JWT"}"#, good.clone()),
        ("two sub", head, format!(r#"{{"sub":"ada","sub":"eve","exp":{later}}}"#)),
        ("two exp", head, format!(r#"{{"sub":"ada","exp":1,"exp":{later}}}"#)),
        ("two scope", head, format!(r#"{{"sub":"ada","exp":{later},"scope":"","scope":"admin"}}"#)),
        ("more after the header", r#"{"alg":"HS256"} {}"#, good.clone()),
        ("more after the claims", head, format!("{good}{good}")),
        ("no object", "[]", good.clone()),
        ("claims are no object", head, "[]".to_owned()),
        ("claims are text", head, "\"ada\"".to_owned()),
    ] {
        assert!(verdict(header, &claims).is_err(), "{what}");
    }
    let not_utf8 = [&br#"{"sub":"ad"#[..], &[0xff], format!(r#"","exp":{later}}}"#).as_bytes()].concat();
    assert!(auth(None, None).verify(&raw(head.as_bytes(), &not_utf8)).is_err());
    let token = raw(head.as_bytes(), good.as_bytes());
    for odd in [
        format!("{token} "),
        format!("{token}\n"),
        format!("\t{token}"),
        format!("{token} {token}"),
        format!("{token},{token}"),
        token.replacen('.', " .", 1),
        format!("{token}="),
        token.replace('.', "\u{2024}"),
    ] {
        assert!(auth(None, None).verify(&odd).is_err(), "{odd:?}");
    }
}

#[test]
fn revoked_tokens_are_refused_and_others_are_not() {
    let auth = auth(None, None);
    let token = |more: Value| {
        let mut claims = json!({"sub": "ada", "exp": now() + 60});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hs256(claims)
    };
    let tokens = [
        token(json!({})),
        token(json!({"jti": "a", "iat": 1_767_225_600})),
        token(json!({"jti": "b", "iat": 1_767_225_599.5})),
        token(json!({"sub": "eve", "jti": "c"})),
    ];
    let verdicts = |list: &str| {
        auth.set_revoked(Revocations::parse(list.as_bytes()).unwrap());
        tokens.each_ref().map(|token| auth.verify(token).err())
    };
    let revoked = Some(AuthError::Revoked);
    assert_eq!(verdicts(""), [None, None, None, None]);
    assert_eq!(verdicts("jti:a\njti:c"), [None, revoked, None, revoked]);
    assert_eq!(verdicts("sub:ada"), [revoked, revoked, revoked, None]);
    assert_eq!(verdicts("sub:ada before 2026-01-01T00:00:00Z"), [revoked, None, revoked, None]);
    assert_eq!(verdicts("jti:A\nsub:ad\nsub:ada2"), [None, None, None, None]);
    assert_eq!(auth.verify(&token(json!({"jti": 7}))), Err(AuthError::Malformed));
}

#[tokio::test(start_paused = true)]
async fn a_tenure_ends_with_the_first_thing_that_ends_its_token() {
    let auth = auth(None, None);
    let tenure = |more: Value| {
        let mut claims = json!({"sub": "ada", "exp": now() + 3600});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        auth.tenure(auth.verify(&hs256(claims)).unwrap())
    };
    let (first, second) = (tenure(json!({"jti": "1"})), tenure(json!({"jti": "2"})));
    let mut ended = std::pin::pin!(first.ended());
    assert!(futures::poll!(ended.as_mut()).is_pending() && !first.has_ended());
    auth.set_revoked(Revocations::parse(b"jti:1").unwrap());
    ended.await;
    assert!(first.has_ended() && !second.has_ended());
    auth.set_keys(KeySet::secret(SECRET).unwrap());
    assert!(!second.has_ended(), "the same key, read again");
    auth.set_keys(KeySet::secret(&[9; 40]).unwrap());
    second.ended().await;
    assert!(second.has_ended());
    assert!(!format!("{second:?}").contains(&format!("{:?}", SECRET)));
}

#[test]
fn a_token_that_was_good_is_asked_again_whether_it_is() {
    let auth = auth(None, None);
    let token = hs256(json!({"sub": "ada", "exp": now() + 60, "jti": "4711"}));
    let first = auth.verify(&token).unwrap();
    assert_eq!((auth.verify(&token), auth.0.known.len()), (Ok(first), 1));
    assert_eq!(auth.verify(&format!("{token}x")), Err(AuthError::Signature));
    auth.set_revoked(Revocations::parse(b"jti:4711").unwrap());
    assert_eq!(auth.verify(&token), Err(AuthError::Revoked));
    auth.set_revoked(Revocations::default());
    assert!(auth.verify(&token).is_ok());
    auth.set_keys(KeySet::secret(&[7; 32]).unwrap());
    assert_eq!(auth.verify(&token), Err(AuthError::Signature));
    assert_eq!(auth.0.known.len(), 1, "what is refused is not remembered");
}

#[test]
fn a_token_that_was_good_expires() {
    let auth = Auth::new(KeySet::secret(SECRET).unwrap(), None, None, Duration::ZERO);
    let expires = now() + 2;
    let token = hs256(json!({"sub": "ada", "exp": expires}));
    let refused = loop {
        if let Err(error) = auth.verify(&token) {
            break error;
        }
        assert!(now() < expires + 1, "it is good for too long");
        std::thread::yield_now();
    };
    assert_eq!((refused, auth.0.known.len()), (AuthError::Expired, 1));
}
