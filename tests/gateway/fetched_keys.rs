//! Keys that are fetched from their issuer: when, from whom, and what happens while that fails.

use jsonwebtoken::Algorithm;
use serde_json::json;

use super::harness::signer::{Signer, jwks};
use super::harness::site::Site;
use super::harness::{As, Server, eventually};
use super::keys::{claims, status};

async fn server(issuer: &Site, refresh_s: u64) -> Server {
    let settings = format!(
        "[auth]\njwks_url = '{}'\njwks_refresh_s = {refresh_s}\n[rate_limit]\nfailed_logins_per_minute = 100000\n",
        issuer.url()
    );
    Server::start_with(As::Me, &settings).await
}

#[tokio::test]
async fn keys_are_fetched_anew_and_the_last_good_ones_stay() {
    let issuer = Site::new().await;
    let (old, new) = (Signer::new(Algorithm::ES256), Signer::new(Algorithm::RS256));
    let tokens = [old.token(Some("old"), &claims(json!({}))), new.token(Some("new"), &claims(json!({})))];
    issuer.say("503 Service Unavailable", "", "");
    let asked_again = async {
        eventually("it is asked again", || async { (issuer.asked().len() > 1).then_some(()) }).await;
        issuer.say("200 OK", "", &jwks([old.jwk("old")]));
    };
    let (server, ()) = tokio::join!(server(&issuer, 1), asked_again);
    assert!(issuer.asked().len() > 2, "it is not ready without keys");
    assert!(!server.data().join("token").exists());
    let verdicts = async || [status(&server, &tokens[0]).await, status(&server, &tokens[1]).await];
    let in_force = async |wanted: [u16; 2]| {
        eventually("the keys are in force", || async { (verdicts().await == wanted).then_some(()) }).await;
    };
    assert_eq!(verdicts().await, [200, 401]);
    issuer.say("200 OK", "", &jwks([old.jwk("old"), new.jwk("new")]));
    in_force([200, 200]).await;
    issuer.say("200 OK", "", &jwks([new.jwk("new")]));
    in_force([401, 200]).await;
    let elsewhere = Site::new().await;
    elsewhere.say("200 OK", "", &jwks([old.jwk("old")]));
    let oct = jwks([json!({"kty": "oct", "k": "c2VjcmV0", "kid": "old"})]);
    let large = " ".repeat(300 * 1024);
    let location = format!("location: {}\r\n", elsewhere.url());
    for (answer, head, body) in [
        ("200 OK", "", "no keys"),
        ("200 OK", "", &*oct),
        ("200 OK", "", &*large),
        ("302 Found", &*location, &*jwks([old.jwk("old")])),
        ("404 Not Found", "", &*jwks([old.jwk("old")])),
    ] {
        issuer.say(answer, head, body);
        let before = issuer.asked().len();
        eventually("it is asked again", || async { (issuer.asked().len() > before + 1).then_some(()) }).await;
        assert_eq!(verdicts().await, [401, 200], "{answer}");
    }
    assert!(elsewhere.asked().is_empty(), "no redirect is followed");
    server.crash_gateway().await;
    assert_eq!(verdicts().await, [401, 200], "the next gateway has them");
    let head = &issuer.asked()[0].head;
    assert!(head.starts_with("GET /.well-known/jwks.json?v=1 HTTP/1.1\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("authorization"), "{head}");
    assert!(server.log().contains("what was good last stays"), "{}", server.log());
}

#[tokio::test]
async fn an_unknown_key_has_them_fetched_before_their_time_but_not_again_and_again() {
    let issuer = Site::new().await;
    let (old, new) = (Signer::new(Algorithm::EdDSA), Signer::new(Algorithm::EdDSA));
    issuer.say("200 OK", "", &jwks([old.jwk("old")]));
    let server = server(&issuer, 86_400).await;
    assert_eq!(status(&server, &old.token(Some("old"), &claims(json!({})))).await, 200);
    assert_eq!(issuer.asked().len(), 1);
    issuer.say("200 OK", "", &jwks([old.jwk("old"), new.jwk("new")]));
    for n in 0..50 {
        let token = new.token(Some(&format!("k{n}")), &claims(json!({})));
        assert_eq!(status(&server, &token).await, 401);
    }
    let token = new.token(Some("new"), &claims(json!({})));
    eventually("the new key is fetched", || async { (status(&server, &token).await == 200).then_some(()) }).await;
    assert_eq!(issuer.asked().len(), 2, "fifty unknown keys are one reason");
}
