//! Identifiers: newtypes that parse and print, nothing more.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ts_rs::TS;

/// Why a text is no identifier. The message is fit for the `detail` of a problem document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Session ids are 8 to 32 letters and digits.
    #[error("a session id is 8 to 32 of [A-Za-z0-9]")]
    Session,
    /// Execution ids and the ids of requests are 1 to 64 characters of a small alphabet.
    #[error("an id is 1 to 64 of [A-Za-z0-9_.-]")]
    Client,
}

macro_rules! text_id {
    ($name:ident, $doc:literal, $pattern:literal, $error:expr, $check:expr) => {
        #[doc = $doc]
        ///
        /// Cheap to clone: the text is shared.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, TS)]
        #[ts(type = "string")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let valid: fn(&str) -> bool = $check;
                if valid(text) { Ok(Self(text.into())) } else { Err($error) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        /// By hand: deriving for an `Arc` needs serde's feature `rc`.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

fn is_client_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

text_id!(
    SessionId,
    " Names a session: `^[a-zA-Z0-9]{8,32}$`. The server makes 22 characters, 131 random bits.",
    "^[a-zA-Z0-9]{8,32}$",
    IdError::Session,
    |text| (8..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
);
text_id!(
    ExecutionId,
    " Names an execution within its session: 1 to 64 of `[A-Za-z0-9_.-]`, chosen by the client or made by the server.",
    "^[A-Za-z0-9_.-]{1,64}$",
    IdError::Client,
    is_client_id
);
text_id!(
    RequestId,
    " Names a request on one socket, so that its answer can be told apart: 1 to 64 of `[A-Za-z0-9_.-]`.",
    "^[A-Za-z0-9_.-]{1,64}$",
    IdError::Client,
    is_client_id
);

/// The place of an event in its session's log. It only grows during the life of a session; numbers may be skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, TS)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
