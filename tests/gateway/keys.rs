//! Keys of an issuer: public ones in every form, changed while the server runs, and the forgeries that they invite.

use std::path::{Path, PathBuf};

use jsonwebtoken::Algorithm;
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::harness::signer::{Signer, base64url, jwks};
use super::harness::{As, Server, binary_as, eventually};
use super::wire::{ask, bearer, open_as};

const ME: &str = "/api/v1/me";
const PUBLIC: [Algorithm; 4] = [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// A key file, which is replaced in one step.
pub struct KeyFile {
    folder: TempDir,
}

impl KeyFile {
    pub fn new(text: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().expect("a folder") };
        file.write(text);
        file
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    pub fn settings(&self) -> String {
        format!("[auth]\nkey_file = '{}'\n[rate_limit]\nfailed_logins_per_minute = 100000\n", self.path().display())
    }

    pub fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).expect("the file is written");
        std::fs::rename(&new, self.path()).expect("the file is replaced");
    }
}

pub fn claims(more: Value) -> Value {
    let exp = jiff::Timestamp::now().as_second() + 3600;
    let mut claims = json!({"sub": "ada", "scope": "tool:execute session:read", "exp": exp});
    claims.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    claims
}

pub async fn status(server: &Server, token: &str) -> u16 {
    ask(server, "GET", ME, &[("authorization", &bearer(token))], b"").await.status
}

fn failed(args: &[&str], folder: &Path) -> String {
    let output = binary_as(As::Me).args(args).current_dir(folder).output().expect("it runs");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_server_with_public_keys_takes_tokens_of_their_issuer_and_signs_none() {
    let signers = PUBLIC.map(Signer::new);
    let names = ["r", "p", "e", "d"];
    let file = KeyFile::new(&jwks(signers.iter().zip(names).map(|(signer, name)| signer.jwk(name))));
    let server = Server::start_with(As::Me, &file.settings()).await;
    for (signer, name) in signers.iter().zip(names) {
        let token = signer.token(Some(name), &claims(json!({})));
        let me = ask(&server, "GET", ME, &[("authorization", &bearer(&token))], b"").await;
        assert_eq!((me.status, &me.json()["subject"]), (200, &json!("ada")), "{name}");
        drop(open_as(&server, "/api/v1/ws?language=bash", &token).await.expect("a socket"));
    }
    assert!(!server.data().join("token").exists(), "nothing here can sign");
    let data = server.data();
    let data = data.to_str().expect("a path");
    let told = failed(&["sessions", "--data-dir", data], server.dir.path());
    assert!(told.contains("REPLTOOL_TOKEN"), "{told}");
    let config = server.dir.path().join("repltool.toml");
    let config = config.to_str().expect("a path");
    let sign = ["token", "--subject", "ada", "--scope", "admin", "--data-dir", data, "--config", config];
    let told = failed(&sign, server.dir.path());
    assert!(told.contains("where its private half is kept"), "{told}");
}

/// Tokens that invite a checker with public keys to a mistake.
fn forgeries(signer: &Signer, kid: &str, of_other: &Signer) -> Vec<(&'static str, String)> {
    let (pem, jwk, good) = (signer.public_pem(), signer.jwk(kid), claims(json!({})));
    let (head, body) = (json!({"alg": signer.jwk(kid)["alg"], "kid": kid}), good.to_string());
    let with = |more: Value| {
        let mut head = head.clone();
        head.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        head.to_string()
    };
    let none = |alg: &str| {
        let head = json!({"alg": alg, "kid": kid}).to_string();
        format!("{}.{}.", base64url(head.as_bytes()), base64url(body.as_bytes()))
    };
    let stranger = Signer::new(signer.algorithm);
    let token = signer.token(Some(kid), &good);
    let other_way = match signer.algorithm {
        Algorithm::RS256 => signer.with(Algorithm::PS256).token(Some(kid), &good),
        _ => stranger.token(Some(kid), &good),
    };
    vec![
        ("an algorithm that the key is not for, or another key", other_way),
        ("HS256 by the PEM", Signer::secret(pem.as_bytes()).token(Some(kid), &good)),
        ("HS256 by the JWK", Signer::secret(jwk.to_string().as_bytes()).token(None, &good)),
        ("none", none("none")),
        ("NONE", none("NONE")),
        ("a lower-case algorithm", signer.sign(&with(json!({"alg": "rs256"})), &body)),
        ("an unknown key", signer.token(Some("other"), &good)),
        ("a path as key", signer.token(Some("../../../dev/null"), &good)),
        ("SQL as key", signer.token(Some("x' UNION SELECT 'k"), &good)),
        ("a long key", signer.token(Some(&"k".repeat(10 * 1024)), &good)),
        ("the name of another kind of key", of_other.token(Some(kid), &good)),
        ("a stranger's key, brought along", stranger.sign(&with(json!({"jwk": stranger.jwk(kid)})), &body)),
        ("a stranger's key by address", stranger.sign(&with(json!({"jku": "http://127.0.0.1/jwks"})), &body)),
        ("a stranger's certificate", stranger.sign(&with(json!({"x5u": "http://127.0.0.1/c", "x5c": ["AA"]})), &body)),
        ("crit", signer.sign(&with(json!({"crit": ["exp"]})), &body)),
        ("another type", signer.sign(&with(json!({"typ": "logout+jwt"})), &body)),
        ("two algorithms", signer.sign(&with(json!({})).replacen('{', r#"{"alg":"none","#, 1), &body)),
        ("no exp", signer.sign(&with(json!({})), r#"{"sub":"ada","scope":"admin"}"#)),
        ("exp is text", signer.token(Some(kid), &claims(json!({"exp": "4102444800"})))),
        ("exp is negative", signer.token(Some(kid), &claims(json!({"exp": -5})))),
        ("exp is beyond numbers", signer.sign(&with(json!({})), r#"{"sub":"ada","exp":1e999}"#)),
        ("nbf is ahead", signer.token(Some(kid), &claims(json!({"nbf": 4_102_444_800_u64})))),
        ("an empty sub", signer.token(Some(kid), &claims(json!({"sub": ""})))),
        ("no UTF-8", signer.sign_bytes(with(json!({})).as_bytes(), b"{\"sub\":\"\xff\",\"exp\":4102444800}")),
        ("too long", signer.token(Some(kid), &claims(json!({"more": "x".repeat(9000)})))),
        ("two tokens", format!("{token} {token}")),
        ("a space inside", token.replacen('.', ". ", 1)),
    ]
}

#[tokio::test]
async fn forgeries_against_public_keys_are_refused_in_the_same_words() {
    let (rsa, ec) = (Signer::new(Algorithm::RS256), Signer::new(Algorithm::ES256));
    let file = KeyFile::new(&jwks([rsa.jwk("r"), ec.jwk("e")]));
    let server = Server::start_with(As::Me, &file.settings()).await;
    let mut words = std::collections::BTreeSet::new();
    let all = forgeries(&rsa, "r", &ec).into_iter().chain(forgeries(&ec, "e", &rsa));
    for (what, token) in all {
        let reply = ask(&server, "GET", ME, &[("authorization", &bearer(&token))], b"").await;
        let challenge = "Bearer realm=\"repltool\"";
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, challenge), "{what}: {reply:?}");
        let problem = reply.problem(ProblemCode::Unauthorized);
        // A token that is only early says so: who signed it is known, and its holder can do something about it.
        if what != "nbf is ahead" {
            words.insert(problem.detail);
        }
        let refused = open_as(&server, "/api/v1/ws?language=bash", &token).await.expect_err("no socket");
        assert!(matches!(refused.status, 400 | 401), "{what}: {refused:?}");
        assert!(!server.log().contains(&token), "{what}: the token is in the log");
    }
    assert_eq!(words.into_iter().collect::<Vec<_>>(), ["the token is not valid here"]);
    for (signer, kid) in [(&rsa, "r"), (&ec, "e")] {
        let aud = claims(json!({"aud": ["here", "there"]}));
        assert_eq!(status(&server, &signer.token(Some(kid), &aud)).await, 200, "what is right is taken");
    }
}

#[tokio::test]
async fn keys_are_rotated_while_the_server_runs_and_bad_ones_are_not_taken() {
    let (old, new) = (Signer::new(Algorithm::ES256), Signer::new(Algorithm::EdDSA));
    let file = KeyFile::new(&old.public_pem());
    let server = Server::start_with(As::Me, &file.settings()).await;
    let tokens = [old.token(None, &claims(json!({}))), new.token(Some("new"), &claims(json!({})))];
    let verdicts = async || [status(&server, &tokens[0]).await, status(&server, &tokens[1]).await];
    let become_ = async |wanted: [u16; 2]| {
        eventually("the keys are in force", || async { (verdicts().await == wanted).then_some(()) }).await;
    };
    assert_eq!(verdicts().await, [200, 401]);
    file.write(&jwks([old.jwk("old"), new.jwk("new")]));
    become_([200, 200]).await;
    file.write(&jwks([new.jwk("new")]));
    become_([401, 200]).await;

    for bad in [old.private_pem(), "nothing at all".to_owned(), jwks([])] {
        let told = server.log().matches("is not taken").count();
        file.write(&bad);
        eventually("the log says so", || async { (server.log().matches("is not taken").count() > told).then_some(()) })
            .await;
        assert_eq!(verdicts().await, [401, 200]);
    }
    server.crash_gateway().await;
    assert_eq!(verdicts().await, [401, 200], "what was good last is there for the next gateway");
    file.write(&old.public_pem());
    server.signal("HUP");
    become_([200, 401]).await;
}

#[tokio::test]
async fn a_key_that_is_none_keeps_the_server_from_starting_and_says_what_to_do() {
    let signer = Signer::new(Algorithm::EdDSA);
    for (text, told) in [
        (signer.private_pem(), "openssl pkey"),
        (jwks([json!({"kty": "oct", "k": "AAAA"})]), "symmetric"),
        ("{}".to_owned(), "neither a PEM"),
    ] {
        let file = KeyFile::new(&text);
        let folder = file.folder.path();
        std::fs::write(folder.join("repltool.toml"), file.settings()).expect("the settings are written");
        for command in ["serve", "config check"] {
            let mut args: Vec<&str> = command.split(' ').collect();
            args.extend(["--config", "repltool.toml", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
            let said = failed(&args, folder);
            assert!(said.contains(told) && said.contains("key"), "{command}: {said}");
        }
    }
}
