//! Executions, the log, and questions to the interpreter.

use super::{AFTER, EXECUTE, LIMIT, OF_CREATION, OFFSET, READ};
use crate::openapi::operation::{Access, Answer, Body, Content, Operation, Parameter, Shape};
use crate::rest::{MAX_PAGE, ProblemCode};

/// What a question to the interpreter can be refused for.
const OF_QUESTIONS: &[ProblemCode] = &[ProblemCode::Busy, ProblemCode::Gone, ProblemCode::Draining];

/// How an execution is answered, as a whole or as it runs.
const ENDED: Answer = Answer::with(
    200,
    "How the program ended, be it well or not",
    &[Content::json("ExecutionResult"), Content::LINES, Content::SERVER_SENT],
);

pub(super) const ALL: &[Operation] = &[
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/execute",
        id: "execute",
        tag: "executions",
        summary: "Run code",
        description: "Waits for the end, or streams the events of the execution if `Accept` names one of those types; \
            `result` is the last. A client that goes away does not stop an execution. The same `execution_id` with the \
            same code follows that execution instead of running it twice; with other code it is a `conflict`.",
        access: Access::Scope(EXECUTE),
        body: Body::json("ExecutionRequest"),
        answers: &[ENDED],
        problems: &[
            ProblemCode::Busy,
            ProblemCode::Conflict,
            ProblemCode::Gone,
            ProblemCode::ExpressionLimit,
            ProblemCode::SandboxUnavailable,
            ProblemCode::Draining,
            ProblemCode::StorageFull,
        ],
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/execute",
        id: "executeOnce",
        tag: "executions",
        summary: "Run code in a session of its own",
        description: "Creates a session, runs the code, deletes the session: nothing is left of it. The body has the fields \
            of both requests. The program finds `stdin` on its standard input, or end of file. If the client goes away, the \
            execution ends with it.",
        access: Access::Scope(EXECUTE),
        body: Body::json("OneShotRequest"),
        answers: &[ENDED],
        problems: OF_CREATION,
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/sessions/{id}/history",
        id: "getHistory",
        tag: "executions",
        summary: "List past executions",
        description: "Oldest first.",
        access: Access::Scope(READ),
        parameters: &[LIMIT, OFFSET],
        answers: &[Answer::with(200, "A page of them", &[Content::json("History")])],
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/interrupt",
        id: "interrupt",
        tag: "executions",
        summary: "Interrupt an execution",
        description: "Variables stay. Without `execution_id` it is the one that runs; one that waits is cancelled, one \
            that has ended is left, and with nothing running nothing happens.",
        access: Access::Scope(EXECUTE),
        body: Some(Body { content: Content::json("InterruptRequest"), may_be_absent: true }),
        answers: &[Answer::empty(202, "It is told so; its `result` says that it ended")],
        problems: &[ProblemCode::Gone],
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/stdin",
        id: "sendInput",
        tag: "executions",
        summary: "Give the program something to read",
        description: "Answers an `input_request`, or brings what a streamed execution reads; `eof` ends its input. One of \
            the two fields is needed. With nothing that runs it is a `conflict`.",
        access: Access::Scope(EXECUTE),
        body: Body::json("StdinRequest"),
        answers: &[Answer::empty(202, "It is on its way")],
        problems: &[ProblemCode::Conflict, ProblemCode::Gone],
        ..Operation::PLAIN
    },
    Operation {
        path: "/api/v1/sessions/{id}/events",
        id: "getEvents",
        tag: "events",
        summary: "Read the log",
        description: "One event a line, or server-sent events if `Accept` says so. What is no longer kept is announced as \
            a `gap`; an explicit `after` that lies before it is `gone`.",
        access: Access::Scope(READ),
        parameters: &[
            Parameter::query("after", AFTER, "Begins after this event; if absent, with everything that is kept"),
            Parameter::query("follow", Shape::Flag, "Whether to go on live until the session or the token ends"),
            Parameter::query(
                "limit",
                Shape::Number { least: 1, most: MAX_PAGE, default: None },
                "How many events at most; 1000 if absent, any number with `follow`",
            ),
            Parameter::header("Last-Event-ID", "As `after`, which goes before it; what is no number is left alone"),
        ],
        answers: &[Answer::with(200, "The events", &[Content::LINES, Content::SERVER_SENT])],
        problems: &[ProblemCode::Gone],
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/complete",
        id: "complete",
        tag: "editor",
        summary: "Ask what could stand at the cursor",
        description: "Answered by the interpreter itself, after what runs has ended; `busy` if that takes long.",
        access: Access::Scope(EXECUTE),
        body: Body::json("CodeRequest"),
        answers: &[Answer::with(200, "What could", &[Content::json("Completion")])],
        problems: OF_QUESTIONS,
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/inspect",
        id: "inspect",
        tag: "editor",
        summary: "Ask what is known of the thing at the cursor",
        description: "As with completion.",
        access: Access::Scope(EXECUTE),
        body: Body::json("CodeRequest"),
        answers: &[Answer::with(200, "What is", &[Content::json("Inspection")])],
        problems: OF_QUESTIONS,
        ..Operation::PLAIN
    },
    Operation {
        method: "post",
        path: "/api/v1/sessions/{id}/is_complete",
        id: "isComplete",
        tag: "editor",
        summary: "Ask whether code can be run as it is",
        description: "As with completion; the cursor does not matter.",
        access: Access::Scope(EXECUTE),
        body: Body::json("CodeRequest"),
        answers: &[Answer::with(200, "The verdict", &[Content::json("Completeness")])],
        problems: OF_QUESTIONS,
        ..Operation::PLAIN
    },
];
