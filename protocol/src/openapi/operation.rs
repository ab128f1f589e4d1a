//! What an operation is made of, as data.

use crate::rest::ProblemCode;

/// One method of one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    /// As in the router, but for a name that takes the rest of a path.
    pub(super) path: &'static str,
    /// For generated clients; stable.
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) access: Access,
    /// Besides those that the path names.
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Body>,
    /// What it answers when it does what was asked.
    pub(super) answers: &'static [Answer],
    /// Besides those that follow from path, body and access.
    pub(super) problems: &'static [ProblemCode],
    /// Whether it is the handshake of a WebSocket.
    pub(super) is_socket: bool,
}

impl Operation {
    /// What most of them have.
    pub(super) const PLAIN: Self = Self {
        method: "get",
        path: "/",
        id: "",
        tag: "",
        summary: "",
        description: "",
        access: Access::Public,
        parameters: &[],
        body: None,
        answers: &[],
        problems: &[],
        is_socket: false,
    };
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Anybody.
    Public,
    /// Whoever has a token.
    Token,
    /// Whoever has a token with this scope.
    Scope(&'static str),
}

/// Something that stands in the path, the query or a header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) is_required: bool,
    pub(super) says: &'static str,
    pub(super) shape: Shape,
}

impl Parameter {
    /// An optional one of the query.
    pub(super) const fn query(name: &'static str, shape: Shape, says: &'static str) -> Self {
        Self { name, place: Place::Query, is_required: false, says, shape }
    }

    /// An optional header.
    pub(super) const fn header(name: &'static str, says: &'static str) -> Self {
        Self { name, place: Place::Header, is_required: false, says, shape: Shape::Text }
    }

    /// The same one, needed.
    pub(super) const fn needed(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
}

/// Which values there may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A schema of the types.
    Named(&'static str),
    Text,
    /// A text that matches a regular expression.
    Matching(&'static str),
    /// A whole number.
    Number {
        least: u64,
        most: u64,
        default: Option<u64>,
    },
    Flag,
    Anything,
}

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    pub(super) content: Content,
    pub(super) may_be_absent: bool,
}

impl Body {
    /// A JSON body that is needed.
    pub(super) const fn json(schema: &'static str) -> Option<Self> {
        Some(Self { content: Content::json(schema), may_be_absent: false })
    }
}

/// One form of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub(super) media_type: &'static str,
    pub(super) shape: Shape,
    /// The schema of each item of a stream.
    pub(super) item: Option<&'static str>,
}

impl Content {
    /// A JSON value of a schema of the types.
    pub(super) const fn json(schema: &'static str) -> Self {
        Self { media_type: "application/json", shape: Shape::Named(schema), item: None }
    }

    /// Bytes as they are.
    pub(super) const BYTES: Self = Self { media_type: "application/octet-stream", shape: Shape::Anything, item: None };
    /// Events, one JSON object a line.
    pub(super) const LINES: Self =
        Self { media_type: "application/x-ndjson", shape: Shape::Anything, item: Some("ServerFrame") };
    /// Events as server-sent events, whose id is the `seq`.
    pub(super) const SERVER_SENT: Self =
        Self { media_type: "text/event-stream", shape: Shape::Anything, item: Some("ServerFrame") };
}

/// What is answered when all is well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) says: &'static str,
    pub(super) contents: &'static [Content],
    /// Besides those that every answer has.
    pub(super) headers: &'static [&'static str],
    /// Operations on the session that was answered.
    pub(super) links: &'static [&'static str],
}

impl Answer {
    /// One without a body.
    pub(super) const fn empty(status: u16, says: &'static str) -> Self {
        Self::with(status, says, &[])
    }

    /// One with a body in one of these forms.
    pub(super) const fn with(status: u16, says: &'static str, contents: &'static [Content]) -> Self {
        Self { status, says, contents, headers: &[], links: &[] }
    }

    /// The same one with these headers.
    pub(super) const fn and(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }

    /// The same one; what it describes can be used by these operations.
    pub(super) const fn leading_to(self, links: &'static [&'static str]) -> Self {
        Self { links, ..self }
    }
}

/// On every answer.
pub(super) const REQUEST_ID: &str = "X-Request-Id";
/// On every answer, where the server takes traces.
pub(super) const TRACE_RESPONSE: &str = "traceresponse";
/// What any answer may have.
pub(super) const OF_ALL: [&str; 2] = [REQUEST_ID, TRACE_RESPONSE];
/// On the answers of routes whose use is limited.
pub(super) const LIMITED: [&str; 2] = ["RateLimit", "RateLimit-Policy"];

/// Every header of an answer, and what it says.
pub(super) const HEADERS: [(&str, &str); 13] = [
    (REQUEST_ID, "Names the request here, in its problem document and in the server's log."),
    (TRACE_RESPONSE, "The span of the request (W3C Trace Context, level 2). Only where the server takes traces."),
    ("Location", "The path of what was created."),
    ("ETag", "Names this state of the content, strongly."),
    ("Last-Modified", "When the file was last changed."),
    ("Content-Disposition", "Always `attachment`: what a program wrote is never shown as a page."),
    ("Content-Range", "Which bytes of how many these are."),
    ("Accept-Ranges", "Always `bytes`."),
    ("Retry-After", "How many seconds to wait before the same request again."),
    ("WWW-Authenticate", "Always of the scheme `Bearer`."),
    ("Sec-WebSocket-Protocol", "Always `repltool.v1`."),
    ("RateLimit", "What is left of the quota of requests. Only with a token, and while rate limits are on."),
    ("RateLimit-Policy", "The quota of requests. Only with a token, and while rate limits are on."),
];
