//! What an operator names to say who is let in. Whatever is taken for public keys checks nothing that is signed with the
//! same bytes as a secret; a list of revocations that is taken says the same when its lines come in another order.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use libfuzzer_sys::fuzz_target;
use repltool::edge::auth::keys::KeySet;
use repltool::edge::auth::revoked::Revocations;
use repltool::edge::auth::{Auth, Grant, sign};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let grant = Grant { subject: "ada", ..Grant::default() };
    sign(SECRET, &grant, Duration::from_secs(1 << 30)).expect("the secret is long")
});

fn auth(keys: KeySet) -> Auth {
    Auth::new(keys, None, None, Duration::ZERO)
}

fn keys(bytes: &[u8]) {
    let Ok(keys) = KeySet::public(bytes) else { return };
    let auth = auth(keys);
    let claims = serde_json::json!({"sub": "ada", "exp": 4_102_444_800_u64});
    let key = EncodingKey::from_secret(bytes).expect("it is not empty");
    let forged = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token");
    assert!(auth.verify(&forged).is_err() && auth.verify(&TOKEN).is_err());
}

fn revocations(bytes: &[u8]) {
    let Ok(list) = Revocations::parse(bytes) else { return };
    let text = str::from_utf8(bytes).expect("it was read as text");
    let backwards: Vec<&str> = text.lines().rev().collect();
    let again = Revocations::parse(backwards.join("\n").as_bytes()).expect("each line was good");
    let verdict = |list| {
        let auth = auth(KeySet::secret(SECRET).expect("the secret is long"));
        auth.set_revoked(list);
        auth.verify(&TOKEN).is_ok()
    };
    assert_eq!(verdict(list), verdict(again));
}

fuzz_target!(|bytes: &[u8]| {
    keys(bytes);
    revocations(bytes);
});
