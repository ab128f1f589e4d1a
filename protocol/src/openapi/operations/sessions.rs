//! Sessions, and the sockets that attach to them.

use super::{AFTER, EXECUTE, LIMIT, OF_CREATION, OFFSET, READ};
use crate::openapi::operation::{Access, Answer, Body, Content, Operation, Parameter, Shape};
use crate::rest::ProblemCode;

const PATH: &str = "/api/v1/sessions";
const ONE: &str = "/api/v1/sessions/{id}";

const SOCKET: Answer = Answer::empty(101, "The connection is a WebSocket from now on; its first message is `ready`")
    .and(&["Sec-WebSocket-Protocol"]);
const OFFER: Parameter = Parameter::header(
    "Sec-WebSocket-Protocol",
    "`repltool.v1`, and from a web page `bearer.` with the token as a second one. Others use `Authorization`",
)
.needed();

pub(super) const ALL: &[Operation] = &[
    Operation {
        method: "post",
        path: PATH,
        id: "createSession",
        tag: "sessions",
        summary: "Create a session",
        description: "Answers when the interpreter has been started. The level `relaxed` needs the scope \
            `sandbox:relaxed` as well. Which levels there are, and how much memory a session of each gets at most, is \
            in the capabilities; `strict` has no files and takes no `working_directory`.",
        access: Access::Scope(EXECUTE),
        body: Body::json("SessionConfig"),
        answers: &[Answer::with(201, "The new session", &[Content::json("Session")]).and(&["Location"]).leading_to(&[
            "getSession",
            "deleteSession",
            "execute",
            "getHistory",
            "getEvents",
            "interrupt",
            "restart",
            "listFiles",
        ])],
        problems: OF_CREATION,
        ..Operation::PLAIN
    },
    Operation {
        path: PATH,
        id: "listSessions",
        tag: "sessions",
        summary: "List the caller's sessions",
        description: "Oldest first. With the scope `admin`, everybody's.",
        access: Access::Scope(READ),
        parameters: &[LIMIT, OFFSET],
        answers: &[Answer::with(200, "A page of them", &[Content::json("SessionList")])],
        ..Operation::PLAIN
    },
    Operation {
        path: ONE,
        id: "getSession",
        tag: "sessions",
        summary: "Look at a session",
        description: "Does not count as use of it. One that its idle timeout ended is `terminated` and can be read for a \
            while.",
        access: Access::Scope(READ),
        answers: &[Answer::with(200, "The session as it is now", &[Content::json("Session")])],
        ..Operation::PLAIN
    },
    Operation {
        method: "delete",
        path: ONE,
        id: "deleteSession",
        tag: "sessions",
        summary: "Terminate a session",
        description: "Ends what runs and deletes all that belongs to the session; it is not found from then on.",
        access: Access::Scope(EXECUTE),
        answers: &[Answer::empty(204, "It is gone, and so are its processes")],
        problems: &[ProblemCode::Gone],
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/restart",
        id: "restart",
        tag: "sessions",
        summary: "Replace the interpreter",
        description: "The session keeps its id, settings, files and count. What runs and what waits ends with the \
            exception `StateLost`.",
        access: Access::Scope(EXECUTE),
        answers: &[Answer::with(200, "The session, with a fresh interpreter", &[Content::json("Session")])],
        problems: &[ProblemCode::Gone, ProblemCode::SandboxUnavailable],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/sessions/{id}/ws",
        id: "attach",
        tag: "sessions",
        summary: "Attach a WebSocket",
        description: "Any number may be attached; all get the same events. The messages are in `protocol/README.md`. To a \
            page whose origin may open sockets a refusal is told by a close code.",
        access: Access::Scope(READ),
        parameters: &[
            OFFER,
            Parameter::query("after", AFTER, "Begins after this event; 0: with everything that is kept"),
        ],
        answers: &[SOCKET],
        problems: &[ProblemCode::Gone, ProblemCode::Draining],
        is_socket: true,
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/ws",
        id: "createAndAttach",
        tag: "sessions",
        summary: "Create a session and attach a WebSocket",
        description: "The session has the default limits, and outlives the socket by its idle timeout.",
        access: Access::Scope(EXECUTE),
        parameters: &[
            OFFER,
            Parameter::query("language", Shape::Named("Language"), "Of the new session").needed(),
            Parameter::query("sandbox_mode", Shape::Named("SandboxMode"), "`standard` if absent"),
            Parameter::query("after", AFTER, "As when attaching; 0 if absent"),
        ],
        answers: &[SOCKET],
        problems: OF_CREATION,
        is_socket: true,
        ..Operation::PLAIN
    },
];
