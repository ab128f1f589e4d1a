//! What anybody may ask the server.

use crate::openapi::operation::{Access, Answer, Content, Operation, Parameter, Shape};
use crate::rest::ProblemCode;

const AN_OBJECT: &[Content] = &[Content { media_type: "application/json", shape: Shape::Anything, item: None }];

const METRICS: &[Content] = &[
    Content { media_type: "application/openmetrics-text", shape: Shape::Text, item: None },
    Content { media_type: "text/plain", shape: Shape::Text, item: None },
];

const RECORDS: &[Content] = &[
    Content { media_type: "application/x-ndjson", shape: Shape::Anything, item: Some("SecurityItem") },
    Content { media_type: "text/event-stream", shape: Shape::Anything, item: Some("SecurityItem") },
];

pub(super) const ALL: &[Operation] = &[
    Operation {
        path: "/healthz",
        id: "isHealthy",
        tag: "server",
        summary: "Whether the server runs",
        description: "For a supervisor of processes: it answers as long as it can answer at all.",
        answers: &[Answer::with(200, "It does", AN_OBJECT)],
        ..Operation::PLAIN
    },
    Operation {
        path: "/readyz",
        id: "isReady",
        tag: "server",
        summary: "Whether sessions can be created",
        description: "For whoever waits for a start, or sends requests to one of several servers.",
        answers: &[Answer::with(200, "They can", AN_OBJECT)],
        problems: &[ProblemCode::Draining, ProblemCode::SandboxUnavailable],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/openapi.json",
        id: "getDescription",
        tag: "server",
        summary: "This document",
        description: "`/docs` shows it as a page.",
        parameters: &[Parameter::header("If-None-Match", "`ETag`s, or `*`: only if the document is none of them")],
        answers: &[
            Answer::with(200, "This document", AN_OBJECT).and(&["ETag"]),
            Answer::empty(304, "It is what `If-None-Match` names").and(&["ETag"]),
        ],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/capabilities",
        id: "getCapabilities",
        tag: "server",
        summary: "What the server offers",
        description: "Languages with their versions, the layers of the sandbox that really stand, and every bound.",
        access: Access::Token,
        answers: &[Answer::with(200, "As it was found when the server started", &[Content::json("Capabilities")])],
        ..Operation::PLAIN
    },
    Operation {
        path: "/metrics",
        id: "getMetrics",
        tag: "server",
        summary: "What the server counts",
        description: "The text format of OpenMetrics for those who accept it, else that of Prometheus. On an address of \
                      its own it is there as well, without a token.",
        access: Access::Scope("metrics:read"),
        answers: &[Answer::with(200, "Every metric", METRICS)],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/security/events",
        id: "followSecurity",
        tag: "server",
        summary: "What concerns security, as it comes",
        description: "Records of the audit log that concern security, everybody's: violations, refusals, failed logins, ends \
                      by limits, access by administrators, settings and starts of the server, alerts. One a line, as \
                      the log has them, or as server-sent events with the number as id if `Accept` says so. As a \
                      WebSocket (`Upgrade: websocket`, subprotocol and token as for sessions) each is a message. Records \
                      that are no longer in memory are announced as a `gap`, also to a reader that is too slow.",
        access: Access::Scope("audit:read"),
        parameters: &[
            Parameter::query(
                "after",
                super::AFTER,
                "Begins after this record, as far as that is in memory; from now on if absent",
            ),
            Parameter::query("once", Shape::Flag, "Ends after what is in memory, and does not go on with what comes"),
            Parameter::header("Last-Event-ID", "As `after`, from a browser that comes back"),
        ],
        answers: &[Answer::with(200, "The records", RECORDS)],
        problems: &[ProblemCode::Draining],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/me",
        id: "getMe",
        tag: "server",
        summary: "The caller",
        description: "Whom the token stands for, what that one may have, and what it has.",
        access: Access::Token,
        answers: &[Answer::with(200, "The caller", &[Content::json("Me")])],
        ..Operation::PLAIN
    },
];
