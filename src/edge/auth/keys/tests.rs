use std::time::Duration;

use serde_json::json;

use super::super::Auth;
use super::*;

#[path = "../../../../tests/gateway/harness/signer.rs"]
mod signer;

use signer::{Signer, base64url, jwks};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const PUBLIC: [Algorithm; 4] = [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

fn auth(keys: KeySet) -> Auth {
    Auth::new(keys, None, None, Duration::from_secs(30))
}

fn of(text: &str) -> Auth {
    auth(KeySet::public(text.as_bytes()).unwrap())
}

fn claims() -> Value {
    json!({"sub": "ada", "exp": jiff::Timestamp::now().as_second() + 60})
}

fn refused(text: &str) -> String {
    KeySet::public(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn every_algorithm_checks_with_its_own_public_key_in_every_form() {
    for algorithm in PUBLIC {
        let (signer, stranger) = (Signer::new(algorithm), Signer::new(algorithm));
        let jwk = signer.jwk("a");
        for (form, text) in
            [("PEM", signer.public_pem()), ("JWK", jwk.to_string()), ("JWKS", jwks([jwk.clone(), stranger.jwk("b")]))]
        {
            let auth = of(&text);
            let good = auth.verify(&signer.token(Some("a"), &claims()));
            assert_eq!(good.map(|it| it.subject).as_deref(), Ok("ada"), "{algorithm:?} {form}");
            let forged = auth.verify(&stranger.token(Some("a"), &claims()));
            assert_eq!(forged, Err(AuthError::Signature), "{algorithm:?} {form}");
        }
    }
}

#[test]
fn a_public_key_is_never_taken_for_a_secret() {
    for algorithm in PUBLIC {
        let signer = Signer::new(algorithm);
        let (pem, jwk) = (signer.public_pem(), signer.jwk("a"));
        let bytes = jwk["n"].as_str().or(jwk["x"].as_str()).unwrap().as_bytes();
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), jwk.to_string().as_bytes(), bytes] {
            for kid in [None, Some("a")] {
                let forged = Signer::secret(secret).token(kid, &claims());
                for text in [&pem, &jwk.to_string(), &jwks([jwk.clone()])] {
                    assert_eq!(of(text).verify(&forged), Err(AuthError::Algorithm), "{algorithm:?}");
                }
            }
        }
        // Nor is a secret a key of another kind.
        let by_secret = auth(KeySet::secret(SECRET).unwrap());
        assert_eq!(by_secret.verify(&signer.token(None, &claims())), Err(AuthError::Algorithm));
    }
}

#[test]
fn keys_of_all_kinds_in_one_set_are_told_apart_by_name_and_algorithm() {
    let signers = PUBLIC.map(Signer::new);
    let names = ["r", "p", "e", "d"];
    let auth = of(&jwks(signers.iter().zip(names).map(|(signer, name)| signer.jwk(name))));
    for (signer, name) in signers.iter().zip(names) {
        assert!(auth.verify(&signer.token(Some(name), &claims())).is_ok(), "{name}");
        for other in names.into_iter().filter(|other| *other != name) {
            // A name belongs to one key: that of another kind, or of another algorithm, is no key for this token.
            assert_eq!(auth.verify(&signer.token(Some(other), &claims())), Err(AuthError::Key), "{name} as {other}");
        }
        for unknown in ["", "R", "../../etc/passwd", "' OR 1=1 --", &"r".repeat(5000)] {
            assert_eq!(auth.verify(&signer.token(Some(unknown), &claims())), Err(AuthError::Key), "{name}");
        }
        // Without a name there is one key for each of these algorithms, since `alg` stands in the keys.
        assert!(auth.verify(&signer.token(None, &claims())).is_ok(), "{name}");
    }
}

#[test]
fn without_a_name_two_keys_are_no_choice() {
    let (first, second) = (Signer::new(Algorithm::ES256), Signer::new(Algorithm::ES256));
    let auth = of(&jwks([first.jwk("1"), second.jwk("2")]));
    for signer in [&first, &second] {
        assert_eq!(auth.verify(&signer.token(None, &claims())), Err(AuthError::Key));
    }
    assert!(auth.verify(&first.token(Some("1"), &claims())).is_ok());
    assert_eq!(auth.verify(&first.token(Some("2"), &claims())), Err(AuthError::Signature));
    // A set in which one key has no name takes that one for names that it does not know.
    let mut nameless = second.jwk("");
    nameless.as_object_mut().unwrap().shift_remove("kid");
    let auth = of(&jwks([first.jwk("1"), nameless]));
    assert!(auth.verify(&second.token(Some("whatever"), &claims())).is_ok());
    assert_eq!(auth.verify(&second.token(Some("1"), &claims())), Err(AuthError::Signature));
}

#[test]
fn an_algorithm_is_that_of_the_key_and_of_the_configuration() {
    let rsa = Signer::new(Algorithm::RS256);
    let mut jwk = rsa.jwk("a");
    jwk.as_object_mut().unwrap().shift_remove("alg");
    let pss = rsa.with(Algorithm::PS256);
    let only = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        KeySet::new(&KeyFile::Document(jwk.to_string().into_bytes()), &names)
    };
    assert!(auth(only(&[]).unwrap()).verify(&pss.token(Some("a"), &claims())).is_ok());
    assert!(auth(only(&["PS256", "HS256"]).unwrap()).verify(&pss.token(Some("a"), &claims())).is_ok());
    let refused = auth(only(&["RS256"]).unwrap()).verify(&pss.token(Some("a"), &claims()));
    assert_eq!(refused, Err(AuthError::Algorithm));
    assert!(matches!(only(&["ES256", "HS256"]), Err(KeySetError::Useless)));
    // What a key says of itself narrows it, too.
    jwk["alg"] = "RS256".into();
    assert_eq!(of(&jwk.to_string()).verify(&pss.token(Some("a"), &claims())), Err(AuthError::Algorithm));
}

#[test]
fn keys_that_are_unfit_are_refused_in_words_that_help() {
    let signer = Signer::new(Algorithm::ES256);
    let jwk = signer.jwk("a");
    let with = |name: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[name] = value;
        jwk
    };
    let rsa = |bytes: usize| json!({"kty": "RSA", "e": "AQAB", "n": base64url(&vec![0x80; bytes])}).to_string();
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let oct = json!({"kty": "oct", "k": base64url(SECRET), "alg": "HS256"});
    for (text, told) in [
        (signer.private_pem(), "openssl pkey -in FILE -pubout"),
        (format!("{}{}", signer.public_pem(), signer.private_pem()), "private key"),
        (with("d", "AAAA".into()).to_string(), "private key"),
        (jwks([with("d", "AAAA".into())]), "private key"),
        (certificate.to_owned(), "openssl x509 -in FILE -noout -pubkey"),
        (signer.public_pem().repeat(2), "several PEM keys"),
        (oct.to_string(), "symmetric"),
        (jwks([jwk.clone(), oct]), "symmetric"),
        (rsa(128), "1024 bits"),
        (rsa(1025), "8200 bits"),
        (jwks([jwk.clone(), jwk.clone()]), "two keys with the kid \"a\""),
        (jwks(vec![jwk.clone(); 101]), "101 keys"),
        (jwks([]), "no key for a signature algorithm"),
        (with("use", "enc".into()).to_string(), "no key for a signature algorithm"),
        (with("key_ops", json!(["sign"])).to_string(), "no key for a signature algorithm"),
        (with("crv", "P-384".into()).to_string(), "no key for a signature algorithm"),
        (with("alg", "HS256".into()).to_string(), "no key for a signature algorithm"),
        (with("x", "AAAA".into()).to_string(), "no key for a signature algorithm"),
        (with("kid", 7.into()).to_string(), "neither a PEM"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned(), "neither a PEM"),
        ("{\"keys\": 1}".to_owned(), "neither a PEM"),
        ("{}".to_owned(), "neither a PEM"),
        ("[".repeat(100_000), "neither a PEM"),
        ("{\"keys\":".repeat(10_000), "neither a PEM"),
    ] {
        let shown: String = text.chars().take(60).collect();
        assert!(refused(&text).contains(told), "{shown}: {}", refused(&text));
    }
    assert!(KeySet::public(&[0xff, 0xfe]).is_err());
}

#[test]
fn keys_for_something_else_do_not_spoil_a_set() {
    let signer = Signer::new(Algorithm::EdDSA);
    let others = [
        json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "k"}),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "q"}),
        json!({"kty": "OKP", "crv": "X25519", "x": "AA", "kid": "x"}),
        json!({"kty": "RSA", "alg": "RSA-OAEP", "use": "enc", "e": "AQAB", "n": "AQ", "kid": "o"}),
    ];
    let auth = of(&jwks(others.into_iter().chain([signer.jwk("a")])));
    assert!(auth.verify(&signer.token(Some("a"), &claims())).is_ok());
    assert_eq!(auth.verify(&signer.token(Some("x"), &claims())), Err(AuthError::Key));
}

#[test]
fn keys_that_are_taken_away_check_nothing_any_more() {
    let (old, new) = (Signer::new(Algorithm::ES256), Signer::new(Algorithm::ES256));
    let set = |keys: &[(&Signer, &str)]| {
        KeySet::public(jwks(keys.iter().map(|(signer, kid)| signer.jwk(kid))).as_bytes()).unwrap()
    };
    let auth = auth(set(&[(&old, "old")]));
    let tokens = [old.token(Some("old"), &claims()), new.token(Some("new"), &claims())];
    let verdicts = || tokens.each_ref().map(|token| auth.verify(token).is_ok());
    assert_eq!(verdicts(), [true, false]);
    auth.set_keys(set(&[(&old, "old"), (&new, "new")]));
    assert_eq!(verdicts(), [true, true]);
    auth.set_keys(set(&[(&new, "new")]));
    assert_eq!(verdicts(), [false, true]);
}

#[test]
fn without_keys_no_token_is_good_and_a_missing_one_is_told_of() {
    let signer = Signer::new(Algorithm::ES256);
    let claims = serde_json::json!({"sub": "ada", "exp": jiff::Timestamp::now().as_second() + 60});
    let auth = Auth::new(KeySet::default(), None, None, Duration::ZERO);
    assert!(!auth.has_keys());
    assert_eq!(auth.verify(&signer.token(Some("a"), &claims)).unwrap_err(), AuthError::NoKeys);
    assert!(futures::FutureExt::now_or_never(auth.missed()).is_some());
    auth.set_keys(KeySet::public(jwks([signer.jwk("a")]).as_bytes()).unwrap());
    assert!(auth.has_keys() && auth.verify(&signer.token(Some("a"), &claims)).is_ok());
    assert!(futures::FutureExt::now_or_never(auth.missed()).is_none(), "none is missing");
    assert_eq!(auth.verify(&signer.token(Some("b"), &claims)).unwrap_err(), AuthError::Key);
    assert!(futures::FutureExt::now_or_never(auth.missed()).is_some());
}
