//! A list of files, as it comes out of a sandbox by a pipe: one JSON object a line. What is written there may be what the
//! program wants it to be, so it is bounded in length and time and read line by line.

use std::fs::File;
use std::time::Duration;

use repltool_protocol::files::{FileEntry, FileKind, FileList};
use repltool_protocol::rest::ProblemCode;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::edge::problem::Fault;
use crate::session::timestamp;

/// The longest list, in bytes; what is beyond it is left out.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long a list may take.
const DEADLINE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Entry {
        path: String,
        size: u64,
        /// Seconds since 1970.
        modified: i64,
        kind: FileKind,
    },
    /// The last line, if there is more than was asked for.
    More { more: bool },
}

/// Reads a list of at most `limit` entries.
///
/// # Errors
/// `busy` if the list does not end in time, `internal` if it is none.
///
/// # Cancel safety
/// Cancel-safe in that nothing is lost but the list.
pub(super) async fn read(pipe: File, limit: u64) -> Result<FileList, Fault> {
    read_within(DEADLINE, pipe, limit).await
}

async fn read_within(deadline: Duration, pipe: File, limit: u64) -> Result<FileList, Fault> {
    let receiver = pipe::Receiver::from_file(pipe).map_err(|error| Fault::internal(&error))?;
    let mut text = Vec::new();
    let mut bounded = receiver.take(MAX_BYTES);
    match tokio::time::timeout(deadline, bounded.read_to_end(&mut text)).await {
        Ok(Ok(_)) => parse(&text, limit).map_err(|error| Fault::internal(&error)),
        Ok(Err(error)) => Err(Fault::internal(&error)),
        Err(_) => Err(Fault::new(ProblemCode::Busy, "the files could not be listed in time; try again")),
    }
}

fn parse(text: &[u8], limit: u64) -> Result<FileList, serde_json::Error> {
    let mut list = FileList { files: Vec::new(), truncated: false };
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // A line without its end was cut off, by the bound or by the end of its writer.
        if !line.ends_with(b"\n") || list.files.len() as u64 >= limit {
            list.truncated = true;
            break;
        }
        match serde_json::from_slice(line)? {
            Line::Entry { path, size, modified, kind } => {
                let modified = timestamp(jiff::Timestamp::from_second(modified).unwrap_or_default());
                list.files.push(FileEntry { path, size, modified, kind });
            }
            Line::More { more } => list.truncated |= more,
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TWO: &str = concat!(
        r#"{"path":"a","size":0,"modified":1775644200,"kind":"directory"}"#,
        "\n",
        r#"{"path":"a/é\n","size":7,"modified":-1,"kind":"file"}"#,
        "\n"
    );

    #[test]
    fn lines_become_entries() {
        let list = parse(TWO.as_bytes(), 10).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&list).unwrap(), @r#"{"files":[{"path":"a","size":0,"modified":"2026-04-08T10:30:00.000Z","kind":"directory"},{"path":"a/é\n","size":7,"modified":"1969-12-31T23:59:59.000Z","kind":"file"}],"truncated":false}"#);
        assert_eq!(parse(b"", 10).unwrap(), FileList { files: Vec::new(), truncated: false });
    }

    #[test]
    fn what_is_left_out_is_told() {
        let cut = |text: String, limit| {
            let list = parse(text.as_bytes(), limit).unwrap();
            (list.files.len(), list.truncated)
        };
        assert_eq!(cut(format!("{TWO}{{\"more\":true}}\n"), 2), (2, true));
        assert_eq!(cut(format!("{TWO}{{\"more\":true}}\n"), 10), (2, true));
        assert_eq!(cut(format!("{TWO}{TWO}"), 3), (3, true));
        assert_eq!(cut(format!("{TWO}{{\"path\":\"b"), 10), (2, true));
        assert_eq!(cut(TWO.to_owned(), 2), (2, false));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "x\n",
            "{}\n",
            "[]\n",
            "\n",
            "{\"path\":\"a\"}\n",
            "{\"path\":\"a\",\"size\":-1,\"modified\":0,\"kind\":\"file\"}\n",
        ] {
            assert!(parse(text.as_bytes(), 10).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_list_is_read_from_its_pipe() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(TWO.as_bytes()).unwrap();
        drop(writer);
        let list = read(File::from(std::os::fd::OwnedFd::from(reader)), 10).await.unwrap();
        assert_eq!(list.files.len(), 2);
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_given_up() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(TWO.as_bytes()).unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        let refused = read_within(Duration::from_millis(20), pipe, 10).await.unwrap_err();
        assert_eq!(refused.code(), ProblemCode::Busy);
        drop(writer);
    }
}
