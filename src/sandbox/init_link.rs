//! The packets between the gateway and init, pid 1 of a sandbox. One JSON object a packet.
//!
//! Types only: who sends what when is told in `init` and by the gateway. Init ignores a packet that it cannot read, so a
//! newer gateway may speak to an older init and is merely not answered.

use serde::{Deserialize, Serialize};

/// Version of these packets.
pub const VERSION: u32 = 1;
/// The largest packet, in bytes. Longer ones are ignored.
pub const MAX_PACKET_BYTES: usize = 4096;

/// What the gateway asks of init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// Send SIGINT to the program.
    Interrupt {
        /// Returned in the answer.
        id: u64,
    },
    /// Kill every process but the program itself and init.
    KillRest {
        /// Returned in the answer.
        id: u64,
    },
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
    /// The answer to an [`Ask`].
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
        for (tell, text) in [
            (Tell::Hello { version: 1 }, r#"{"hello":{"version":1}}"#),
            (Tell::Done { id: 7, outcome: Outcome::Void }, r#"{"id":7,"outcome":"void"}"#),
            (Tell::Exit(ExitStatus::Signal(9)), r#"{"exit":{"signal":9}}"#),
        ] {
            assert_eq!(serde_json::to_string(&tell).unwrap(), text);
            assert_eq!(serde_json::from_str::<Tell>(text).unwrap(), tell);
        }
    }
}
