//! Limits that a token lowers for its holder.

use repltool::client::Client;
use repltool_protocol::event::Limit;
use repltool_protocol::rest::{ProblemCode, SessionConfig};
use serde_json::{Value, json};

use super::harness::signer::Signer;
use super::harness::{As, Server, python, run, session};
use super::wire::{ask, bearer, open_as};

fn token(server: &Server, limits: Value) -> String {
    let secret = repltool::keys::load(&server.data(), None).expect("the server's key");
    let claims = json!({
        "sub": "ada", "scope": "tool:execute", "exp": jiff::Timestamp::now().as_second() + 3600,
        "repl_limits": limits,
    });
    Signer::secret(&secret).token(None, &claims)
}

fn client(server: &Server, limits: Value) -> Client {
    Client::new(&server.url, Some(&token(server, limits))).expect("a client")
}

async fn refused(client: &Client) -> ProblemCode {
    let config: SessionConfig = serde_json::from_value(json!({"language": "bash"})).expect("a configuration");
    let error = client.create(&config).await.expect_err("refused");
    error.problem().unwrap_or_else(|| panic!("{error:?}")).code
}

#[tokio::test]
async fn sessions_of_a_limited_token_get_no_more_than_it_says() {
    let server = Server::start().await;
    let limits = json!({"max_cpu_time": 1, "max_output_size": 1024, "max_expressions": 3, "max_memory_mb": 64});
    let limited = client(&server, limits.clone());
    let id = python(&limited, json!({"resource_limits": {"max_cpu_time": 300, "max_memory_mb": 4096}})).await;
    let shown = limited.get(&id).await.expect("the session").resource_limits;
    assert_eq!((shown.max_cpu_time, shown.max_memory_mb, shown.max_output_size), (1, 64, 1024));
    assert_eq!(run(&limited, &id, "print('x' * 5000)").await.limit, Some(Limit::Output));
    assert_eq!(run(&limited, &id, "while True: pass").await.limit, Some(Limit::CpuTime));
    assert!(run(&limited, &id, "1").await.success);
    let beyond = limited.execute(&id, &super::harness::code("1")).await.expect_err("refused");
    assert_eq!(beyond.problem().expect("a problem").code, ProblemCode::ExpressionLimit);
    // By a socket and at once, too.
    let mut socket = open_as(&server, "/api/v1/ws?language=bash", &token(&server, limits.clone())).await.expect("one");
    assert_eq!(socket.next_of("ready").await["session"]["resource_limits"]["max_cpu_time"], 1);
    let body = json!({"language": "bash", "code": "while :; do :; done", "resource_limits": {"max_cpu_time": 60}});
    let headers = [("authorization", &*bearer(&token(&server, limits))), ("content-type", "application/json")];
    let reply = ask(&server, "POST", "/api/v1/execute", &headers, body.to_string().as_bytes()).await;
    assert_eq!(reply.json()["limit"], "cpu_time", "{reply:?}");
}

#[tokio::test]
async fn a_token_lowers_how_many_sessions_and_sockets_its_holder_has() {
    let server = Server::start().await;
    let limited = client(&server, json!({"max_sessions": 1, "max_sockets": 1}));
    let id = session(&limited, "bash", json!({})).await;
    assert_eq!(refused(&limited).await, ProblemCode::SessionLimit);
    let path = format!("/api/v1/sessions/{id}/ws");
    let socket = open_as(&server, &path, &token(&server, json!({"max_sockets": 1}))).await.expect("a socket");
    let refused_socket = open_as(&server, &path, &token(&server, json!({"max_sockets": 1}))).await.expect_err("one");
    refused_socket.problem(ProblemCode::RateLimited);
    drop(socket);
    // What another token of the same subject may is another matter.
    session(&client(&server, json!({"max_sessions": 1000})), "bash", json!({})).await;
    assert_eq!(refused(&client(&server, json!({"max_sessions": 2}))).await, ProblemCode::SessionLimit);
    assert_eq!(refused(&client(&server, json!({"max_sessions": 0}))).await, ProblemCode::SessionLimit);
}

#[tokio::test]
async fn what_a_token_lowers_is_told_to_its_holder() {
    let server = Server::start().await;
    let limits = json!({
        "max_sessions": 2, "max_sockets": 3, "requests_per_minute": 6, "burst": 5, "max_memory_mb": 100,
        "max_gold": 1, "max_cpu_time": 100_000, "executions": 7, "cpu_seconds": 0,
    });
    let headers = [("authorization", &*bearer(&token(&server, limits)))];
    let reply = ask(&server, "GET", "/api/v1/me", &headers, b"").await;
    let told = reply.json()["limits"].clone();
    insta::assert_json_snapshot!(told, @r#"
    {
      "sessions": 2,
      "sockets": 3,
      "requests_per_minute": 6,
      "burst": 5,
      "session": {
        "max_cpu_time": 300,
        "max_memory_mb": 100,
        "max_output_size": 10485760,
        "max_expressions": 10000
      },
      "quotas": {
        "period": "day",
        "executions": 7,
        "session_creations": null,
        "cpu_seconds": 0,
        "stored_mb": null
      }
    }
    "#);
    assert_eq!(reply.header("ratelimit-policy"), "\"lowered\";q=5;w=50");
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(ask(&server, "GET", "/api/v1/me", &headers, b"").await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn limits_that_cannot_be_read_make_a_token_invalid() {
    let server = Server::start_with(As::Me, "[rate_limit]\nfailed_logins_per_minute = 1000\n").await;
    for wrong in [json!("none"), json!([]), json!(5), json!({"max_sessions": "5"}), json!({"max_memory_mb": -1})] {
        let headers = [("authorization", &*bearer(&token(&server, wrong.clone())))];
        let reply = ask(&server, "GET", "/api/v1/me", &headers, b"").await;
        assert_eq!(reply.problem(ProblemCode::Unauthorized).detail, "the token is not valid here", "{wrong}");
    }
    let headers = [("authorization", &*bearer(&token(&server, Value::Null)))];
    assert_eq!(ask(&server, "GET", "/api/v1/me", &headers, b"").await.status, 200);
}
