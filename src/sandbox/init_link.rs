//! The packets between the gateway and init, pid 1 of a sandbox. One JSON object a packet; one descriptor at most.
//!
//! Types only: who sends what when is told in `init` and by the gateway. Init ignores a packet that it cannot read, so a
//! newer gateway may speak to an older init and is merely not answered.

use serde::{Deserialize, Serialize};

/// Version of these packets.
pub const VERSION: u32 = 2;
/// The largest packet, in bytes. Longer ones are ignored.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;
/// The most text in one [`Ask::Stdin`], in bytes: JSON can make six of one.
pub const MAX_STDIN_BYTES: usize = 8 * 1024;

/// What the gateway asks of init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// Interrupt the program, in the way that its language needs ([`super::Interrupt`]).
    Interrupt {
        /// Returned in the answer.
        id: u64,
    },
    /// Kill every process but the program itself and init.
    KillRest {
        /// Returned in the answer.
        id: u64,
    },
    /// Give the program something to read. Answered when the last byte has gone into the pipe, in the order of asking;
    /// `void` if the program is to read no more of it ([`Ask::FreshStdin`] came, or an end before).
    Stdin {
        /// Returned in the answer.
        id: u64,
        /// At most [`MAX_STDIN_BYTES`].
        text: String,
        /// Whether end of file follows.
        end: bool,
    },
    /// Begin standard input anew: what was not read is thrown away, waiting `stdin` asks are void, who reads now gets an
    /// end of file, and reads from now on wait for new text.
    FreshStdin {
        /// Returned in the answer.
        id: u64,
    },
    /// Do something with the files of the working directory; answered by [`Tell::File`].
    File {
        /// Returned in the answer.
        id: u64,
        /// What.
        what: FileAsk,
    },
}

/// An ask about files. Paths are relative to the working directory, with `/` between names, without `.`, `..`, empty
/// names and NUL; no link is followed, neither in the middle nor at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FileAsk {
    /// List everything below a directory (`""`: all), depth first, in order of names. The descriptor that comes with the
    /// answer is a pipe: one JSON [`Entry`] a line, then end of file; the last line is `{"more":true}` if there is more
    /// than `limit`.
    List {
        /// The directory.
        path: String,
        /// The most entries.
        limit: u32,
    },
    /// Open a regular file for reading; its descriptor comes with the answer.
    Read {
        /// The file.
        path: String,
    },
    /// Make a new file under the name `temporary`, in the folder of `path`, making folders that are missing; a descriptor
    /// open for writing comes with the answer. `path` must not be a directory.
    Create {
        /// Where the file is to be in the end.
        path: String,
        /// A name, not a path, that nothing has.
        temporary: String,
    },
    /// Put the file that [`FileAsk::Create`] made in its place, in one step.
    Commit {
        /// As in [`FileAsk::Create`].
        path: String,
        /// As in [`FileAsk::Create`].
        temporary: String,
    },
    /// Remove the file that [`FileAsk::Create`] made.
    Discard {
        /// As in [`FileAsk::Create`].
        path: String,
        /// As in [`FileAsk::Create`].
        temporary: String,
    },
    /// Remove a file, a link, a FIFO or an empty directory.
    Remove {
        /// What.
        path: String,
    },
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the working directory. Names that are no UTF-8 have U+FFFD in place of what is none.
    pub path: String,
    /// Bytes; 0 for all but files.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
    /// What it is.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket, a device.
    Other,
}

/// What init tells the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// The first packet.
    Hello {
        /// [`VERSION`] of this init.
        version: u32,
    },
    /// The program ended, and the sandbox ends with it. The last packet.
    Exit(ExitStatus),
    /// The answer to [`Ask::File`], with a descriptor where the ask says so. Another answer with the same id says nothing.
    File {
        /// The id of the question.
        id: u64,
        /// 0, or what Linux said (errno(3)). EISDIR and ENOTDIR: not of the needed kind; ELOOP: a link; ENXIO: not a
        /// regular file; EAGAIN: no process can be made for it now.
        errno: i32,
        /// For `create`, whether `path` existed before.
        existed: bool,
    },
    /// The answer to any other [`Ask`].
    #[serde(untagged)]
    Done {
        /// The id of the question.
        id: u64,
        /// What became of it.
        outcome: Outcome,
    },
}

/// What became of an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Delivered,
    /// There was nothing left to do it to, or this host gives no way to do it.
    Void,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code, 0 to 255.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_look_as_documented() {
        let ask: Ask = serde_json::from_str(r#"{"op":"kill_rest","id":7}"#).unwrap();
        assert_eq!(ask, Ask::KillRest { id: 7 });
        let ask: Ask = serde_json::from_str(r#"{"op":"file","id":8,"what":{"do":"read","path":"a/b"}}"#).unwrap();
        assert_eq!(ask, Ask::File { id: 8, what: FileAsk::Read { path: "a/b".into() } });
        for (tell, text) in [
            (Tell::Hello { version: 1 }, r#"{"hello":{"version":1}}"#),
            (Tell::Done { id: 7, outcome: Outcome::Void }, r#"{"id":7,"outcome":"void"}"#),
            (Tell::Exit(ExitStatus::Signal(9)), r#"{"exit":{"signal":9}}"#),
            (Tell::File { id: 3, errno: 2, existed: false }, r#"{"file":{"id":3,"errno":2,"existed":false}}"#),
        ] {
            assert_eq!(serde_json::to_string(&tell).unwrap(), text);
            assert_eq!(serde_json::from_str::<Tell>(text).unwrap(), tell);
        }
    }
}
