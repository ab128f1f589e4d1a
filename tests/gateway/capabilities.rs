//! What the server says of itself, compared with what it does.

use repltool_protocol::rest::capabilities::Bounds;
use repltool_protocol::rest::{Language, ProblemCode};
use serde_json::json;

use super::harness::{As, Server, run, session};
use super::wire::{ask, ask_as_owner};

const CAPABILITIES: &str = "/api/v1/capabilities";

#[tokio::test]
async fn capabilities_have_the_shape_of_the_contract() {
    let settings = "[sessions]\nqueue = 3\nmax = 50\nmax_per_subject = 5\nidle_timeout_s = 77\nidle_after_s = 7\n\
                    [store]\nkeep_ended_s = 9\n[sandbox]\ndisk_mb = 5\nmax_processes = { strict = 22, standard = 33, relaxed = 44 }\n";
    let server = Server::start_with(As::Me, settings).await;
    let reply = ask_as_owner(&server, "GET", CAPABILITIES, "").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    insta::assert_json_snapshot!(reply.json(), {
        ".version" => "[version]", ".languages[].version" => "[version]", ".sandbox.tier" => "[tier]",
        ".sandbox.layers" => "[layers]",
    }, @r#"
    {
      "version": "[version]",
      "protocol": "repltool.v1",
      "languages": [
        {
          "name": "python",
          "synonyms": [],
          "interpreter": "CPython",
          "version": "[version]",
          "min_memory_mb": 32
        },
        {
          "name": "javascript",
          "synonyms": [],
          "interpreter": "Node.js",
          "version": "[version]",
          "min_memory_mb": 64
        },
        {
          "name": "bash",
          "synonyms": [
            "shell"
          ],
          "interpreter": "GNU Bash",
          "version": "[version]",
          "min_memory_mb": 16
        }
      ],
      "sandbox": {
        "tier": "[tier]",
        "layers": "[layers]",
        "modes": [
          {
            "name": "strict",
            "scopes": [
              "tool:execute"
            ],
            "max_processes": 22,
            "max_memory_mb": 128,
            "backend": "native"
          },
          {
            "name": "standard",
            "scopes": [
              "tool:execute"
            ],
            "max_processes": 33,
            "max_memory_mb": 4096,
            "backend": "native"
          },
          {
            "name": "relaxed",
            "scopes": [
              "tool:execute",
              "sandbox:relaxed"
            ],
            "max_processes": 44,
            "max_memory_mb": 4096,
            "backend": "native"
          }
        ]
      },
      "limits": {
        "resource_limits": {
          "max_cpu_time": {
            "min": 1,
            "max": 300,
            "default": 30
          },
          "max_memory_mb": {
            "min": 16,
            "max": 4096,
            "default": 256
          },
          "max_output_size": {
            "min": 1024,
            "max": 10485760,
            "default": 1048576
          },
          "max_expressions": {
            "min": 1,
            "max": 10000,
            "default": 1000
          }
        },
        "timeout_ms": {
          "min": 100,
          "max": 300000,
          "default": 30000
        },
        "max_code_chars": 1048576,
        "max_message_bytes": 16777216,
        "max_file_bytes": 5242880,
        "max_page": 1000,
        "queue": 3,
        "idle_timeout_s": 77,
        "idle_after_s": 7,
        "keep_ended_s": 9,
        "max_sessions": 50,
        "max_sessions_per_subject": 5
      }
    }
    "#);
}

#[tokio::test]
async fn capabilities_agree_with_the_host() {
    let server = Server::start().await;
    let client = server.client();
    let told = client.capabilities().await.expect("an answer");
    assert_eq!(told.version, env!("CARGO_PKG_VERSION"));
    for (language, code) in [
        ("python", "import platform; print(platform.python_version())"),
        ("javascript", "console.log(process.versions.node)"),
        ("bash", "echo ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}"),
    ] {
        let id = session(&client, language, json!({})).await;
        let printed = run(&client, &id, code).await.output;
        let name: Language = serde_json::from_value(json!(language)).expect("a language");
        let support = told.languages.iter().find(|it| it.name == name).expect("it is offered");
        assert_eq!(support.version, printed.trim_end(), "{language}");
    }
    // The layers are those that `doctor` finds.
    let doctor = super::harness::binary_as(As::Me).args(["doctor", "--output", "json"]).output().expect("doctor runs");
    let found: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    assert_eq!(found["tier"], told.sandbox.tier);
    let layers: Vec<_> =
        found["layers"].as_array().expect("layers").iter().map(|it| (&it["name"], &it["active"])).collect();
    assert_eq!(layers.len(), told.sandbox.layers.len());
    for (layer, (name, active)) in told.sandbox.layers.iter().zip(layers) {
        assert_eq!((name, active), (&json!(layer.name), &json!(layer.active)));
    }
}

#[tokio::test]
async fn capabilities_tell_the_bounds_that_hold() {
    let server = Server::start().await;
    let told = server.client().capabilities().await.expect("an answer");
    let status = async |body: serde_json::Value| {
        ask_as_owner(&server, "POST", "/api/v1/sessions", &body.to_string()).await.status
    };
    for support in &told.languages {
        for name in std::iter::once(&support.name).chain(&support.synonyms) {
            let with = |mb| json!({"language": name, "resource_limits": {"max_memory_mb": mb}});
            assert_eq!(status(with(support.min_memory_mb)).await, 201, "{name:?}");
            assert_eq!(status(with(support.min_memory_mb - 1)).await, 400, "{name:?}");
        }
    }
    let limits = serde_json::to_value(told.limits.resource_limits).expect("JSON");
    for (field, bounds) in limits.as_object().expect("an object") {
        let Bounds { min, max, default } = serde_json::from_value(bounds.clone()).expect("bounds");
        assert!((min..=max).contains(&default), "{field}");
        for (value, expected) in [(min - 1, 400), (max, 201), (max + 1, 400)] {
            let got = status(json!({"language": "bash", "resource_limits": {field: value}})).await;
            assert_eq!(got, expected, "{field}: {value}");
        }
    }
    for mode in &told.sandbox.modes {
        let mode_of = |client: repltool::client::Client| async move {
            let config =
                serde_json::from_value(json!({"language": "bash", "sandbox_mode": mode.name})).expect("a config");
            client.create(&config).await
        };
        mode_of(server.client_of("ada", &mode.scopes.join(" "))).await.expect("these scopes suffice");
        let fewer = mode.scopes[1..].join(" ");
        let refused = mode_of(server.client_of("ada", &fewer)).await.expect_err("one is missing");
        assert_eq!(refused.problem().expect("a problem").code, ProblemCode::Forbidden);
    }
}

#[tokio::test]
async fn capabilities_need_a_token_and_no_scope() {
    let server = Server::start().await;
    ask(&server, "GET", CAPABILITIES, &[], b"").await.problem(ProblemCode::Unauthorized);
    server.client_of("nobody", "").capabilities().await.expect("any token suffices");
}
