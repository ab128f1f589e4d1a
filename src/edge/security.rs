//! `GET /security/events`: the records of the audit log that concern security, as they come. As a WebSocket it is served by
//! [`super::socket::watch`].

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::StatusCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use repltool_protocol::codec::encode_notice;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::Seq;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::auth::Tenure;
use super::limit::{self, Place};
use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::Call;
use super::stream::{CHUNK_BYTES, Format, keep_alive};
use crate::alerts::{Item, Reader};

/// How long a reader for whom there is no place is told to wait, in seconds.
const RETRY_S: u64 = 5;

/// `GET /security/events`
pub(super) fn events(call: &Call) -> Result<Answer, Fault> {
    let (query, headers, shared) = (call.query(), call.request.headers(), &call.connection.shared);
    let once = query.flag("once")?;
    let last_seen = headers.get("last-event-id").and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
    let after = query.number("after")?.or(last_seen);
    let place = shared.limits.place(&call.principal)?;
    let format = Format::asked(headers).unwrap_or(Format::Ndjson);
    let feed = Feed {
        reader: reader(shared, after)?,
        format,
        live: (!once).then(|| (call.tenure(), shared.drain.clone())),
        _place: place,
    };
    let chunks = stream::unfold(feed, |mut feed| async move {
        let chunk = feed.chunk().await?;
        Some((Ok::<_, io::Error>(Frame::data(chunk)), feed))
    });
    Ok(respond::with(StatusCode::OK, format.content_type(), StreamBody::new(chunks).boxed_unsync()))
}

/// A reader of what comes after this record, or else from now on.
///
/// # Errors
/// `rate_limited` if there are as many as may be.
pub(super) fn reader(shared: &Shared, after: Option<u64>) -> Result<Reader, Fault> {
    shared.security.reader(after).ok_or_else(|| limit::refusal("too many follow what concerns security", RETRY_S))
}

/// How readers are told of records that are not in memory.
pub(super) fn gap(from: u64, to: u64) -> String {
    encode_notice(&Notice::Gap { from: Seq(from), to: Seq(to) })
}

/// An answer that is being written.
#[derive(Debug)]
struct Feed {
    reader: Reader,
    format: Format,
    /// How long it goes on; none: it has what is in memory.
    live: Option<(Tenure, CancellationToken)>,
    _place: Place,
}

impl Feed {
    /// Waits for something to say, and adds all that is there already; none at the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        match &self.live {
            None => {}
            Some((tenure, drain)) => tokio::select! {
                item = self.reader.next() => write(self.format, &mut out, item),
                () = drain.cancelled() => return None,
                () = tenure.ended() => return None,
                () = keep_alive(self.format) => out.put_slice(b":\n\n"),
            },
        }
        while out.len() < CHUNK_BYTES {
            let Some(item) = self.reader.try_next() else { break };
            write(self.format, &mut out, item);
        }
        (!out.is_empty()).then(|| out.freeze())
    }
}

fn write(format: Format, out: &mut BytesMut, item: Item) {
    match item {
        Item::Line(line) => format.write(out, line.n.map(Seq), &line.json),
        Item::Gap { from, to } => format.write(out, None, gap(from, to).as_bytes()),
    }
}
