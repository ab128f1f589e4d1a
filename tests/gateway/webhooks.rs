//! Alerts on their way to a webhook: from what happens in a server to what the receiver gets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::site::{Asked, Site};
use crate::harness::tls::write;
use crate::harness::{As, Server, descendants, eventually, kill, python};
use crate::wire::{ask, bearer, local_token};

const SECRET: &str = "a secret of more than twenty-four bytes";

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What came, if our secret signed it.
fn alert(asked: &Asked) -> Value {
    let (id, at) = (asked.header("webhook-id"), asked.header("webhook-timestamp"));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let text = [format!("{id}.{at}.").as_bytes(), &asked.body].concat();
    let signed = STANDARD.decode(asked.header("webhook-signature").strip_prefix("v1,").expect("version 1"));
    aws_lc_rs::hmac::verify(&key, &text, &signed.expect("base64")).expect("our signature");
    serde_json::from_slice(&asked.body).expect("JSON")
}

/// The process that calls outside.
fn caller(server: &Server) -> Option<u32> {
    let is_caller = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"outbound")
    };
    descendants(server.pid()).into_iter().find(is_caller)
}

#[tokio::test]
async fn alerts_reach_the_webhook_also_when_the_process_that_calls_outside_has_died() {
    let (site, folder) = (Site::new().await, TempDir::with_prefix("repltool-test-").expect("a folder"));
    site.say("204 No Content", "", "");
    let secret = folder.path().join("webhook.secret");
    write(&secret, SECRET);
    let server = Server::start_with(
        As::Me,
        &format!(
            "[alerts]\nwebhook_url = 'http://127.0.0.1:{}/hook'\nwebhook_secret_file = '{}'\n\
             failed_logins_per_minute = 2\nviolations_per_minute = 1\n\
             [traces]\notlp_url = 'http://127.0.0.1:9/v1/traces'\nsample_ratio = 0.0\n",
            site.port,
            secret.display()
        ),
    )
    .await;
    ask(&server, "GET", "/api/v1/me", &[("authorization", "Bearer a.b.c")], b"").await;
    let reply = ask(&server, "GET", "/api/v1/me", &[("authorization", "Bearer a.b.c")], b"").await;
    let first = eventually("a webhook", || async { site.asked().first().cloned() }).await;
    assert_eq!(first.header("traceparent"), reply.header("traceresponse"), "of the request that was one too many");
    assert_eq!(first.header("traceparent").len(), 55);
    let first = alert(&first);
    assert_eq!(
        (&first["type"], &first["kind"], &first["count"]),
        (&json!("repltool.alert"), &json!("failed_logins"), &json!(2))
    );

    let process = caller(&server).expect("it runs");
    kill(process, "KILL");
    eventually("another one runs", || async { caller(&server).filter(|pid| *pid != process) }).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let token = bearer(&local_token(&server));
    let code = json!({"code": "import os\ntry: os.execv('/bin/true', ['true'])\nexcept OSError: pass"}).to_string();
    let headers = [("authorization", &*token), ("content-type", "application/json"), ("traceparent", PARENT)];
    let path = format!("/api/v1/sessions/{id}/execute");
    assert_eq!(ask(&server, "POST", &path, &headers, code.as_bytes()).await.status, 200);
    let violations = || async { site.asked().into_iter().find(|it| alert(it)["kind"] == "violations") };
    let second = eventually("another webhook", violations).await;
    assert_eq!(second.header("traceparent").split('-').nth(1), PARENT.split('-').nth(1), "of the execution's request");
    let second = alert(&second);
    assert_eq!(second["session_id"], json!(id));
    assert!(!second.to_string().contains("execv"), "no code leaves");
}
