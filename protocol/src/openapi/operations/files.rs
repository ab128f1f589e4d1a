//! Files of the working directory.

use super::{EXECUTE, READ};
use crate::files::MAX_FILES;
use crate::openapi::operation::{Access, Answer, Body, Content, Operation, Parameter, Shape};
use crate::rest::ProblemCode;

const ONE: &str = "/api/v1/sessions/{id}/files/{path}";
/// Names of up to 255 characters that are neither empty nor `.` or `..`, with `/` between them.
pub(super) const PATH: &str = r"^(?!\.{1,2}(/|$))[^/\u0000]{1,255}(/(?!\.{1,2}(/|$))[^/\u0000]{1,255}){0,63}$";

const IF_MATCH: Parameter = Parameter::header("If-Match", "`ETag`s, or `*`: only if the file is one of them");
const IF_NONE_MATCH: Parameter =
    Parameter::header("If-None-Match", "`ETag`s, or `*`: only if the file is none of them");

/// What every request about a file can be refused for.
const OF_FILES: &[ProblemCode] = &[ProblemCode::Conflict, ProblemCode::Busy, ProblemCode::Gone];
const OF_ONE: &[ProblemCode] =
    &[ProblemCode::Conflict, ProblemCode::Busy, ProblemCode::Gone, ProblemCode::PreconditionFailed];

pub(super) const ALL: &[Operation] = &[
    Operation {
        path: "/api/v1/sessions/{id}/files",
        id: "listFiles",
        tag: "files",
        summary: "List files",
        description: "Folders before what is in them, in the order of names.",
        access: Access::Scope(READ),
        parameters: &[
            Parameter::query("path", Shape::Text, "Below this folder; everything if absent or empty"),
            Parameter::query(
                "limit",
                Shape::Number { least: 1, most: MAX_FILES, default: Some(MAX_FILES) },
                "How many entries at most",
            ),
        ],
        answers: &[Answer::with(200, "What there is", &[Content::json("FileList")])],
        problems: OF_FILES,
        ..Operation::PLAIN
    },
    Operation {
        path: ONE,
        id: "readFile",
        tag: "files",
        summary: "Read a file",
        description: "No link is followed. `Range` with one range of bytes and `If-Range` with an `ETag` are honoured.",
        access: Access::Scope(READ),
        parameters: &[
            IF_MATCH,
            IF_NONE_MATCH,
            Parameter::header("Range", "One range of bytes, as `bytes=0-99`; what is none is left alone"),
            Parameter::header("If-Range", "An `ETag`: only then the range, else all of the file"),
        ],
        answers: &[
            Answer::with(200, "Its bytes", &[Content::BYTES]).and(&[
                "ETag",
                "Last-Modified",
                "Accept-Ranges",
                "Content-Disposition",
            ]),
            Answer::with(206, "The bytes of the range", &[Content::BYTES]).and(&[
                "ETag",
                "Last-Modified",
                "Accept-Ranges",
                "Content-Range",
                "Content-Disposition",
            ]),
            Answer::empty(304, "It is what `If-None-Match` names").and(&["ETag", "Last-Modified"]),
        ],
        problems: &[
            ProblemCode::Conflict,
            ProblemCode::Busy,
            ProblemCode::Gone,
            ProblemCode::PreconditionFailed,
            ProblemCode::RangeNotSatisfiable,
        ],
        ..Operation::PLAIN
    },
    Operation {
        method: "put",
        path: ONE,
        id: "writeFile",
        tag: "files",
        summary: "Write a file",
        description: "As a whole: it takes its place in one step when all its bytes are there. Missing folders are made. \
            `If-None-Match: *` creates only. The bytes may have any type.",
        access: Access::Scope(EXECUTE),
        parameters: &[IF_MATCH, IF_NONE_MATCH],
        body: Some(Body { content: Content::BYTES, may_be_absent: true }),
        answers: &[
            Answer::empty(201, "There was none before").and(&["ETag"]),
            Answer::empty(204, "It took the place of another").and(&["ETag"]),
        ],
        problems: &[
            ProblemCode::Conflict,
            ProblemCode::Busy,
            ProblemCode::Gone,
            ProblemCode::PreconditionFailed,
            ProblemCode::StorageFull,
        ],
        ..Operation::PLAIN
    },
    Operation {
        method: "delete",
        path: ONE,
        id: "deleteFile",
        tag: "files",
        summary: "Remove a file",
        description: "Or a link, or an empty folder.",
        access: Access::Scope(EXECUTE),
        parameters: &[IF_MATCH, IF_NONE_MATCH],
        answers: &[Answer::empty(204, "It is gone")],
        problems: OF_ONE,
        ..Operation::PLAIN
    },
];
