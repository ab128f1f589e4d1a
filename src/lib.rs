//! repltool: stateful, sandboxed REPL sessions over WebSocket and REST.
//!
//! Two processes from one binary. The modules, in the order in which a request meets them:
//!
//! ```text
//!             gateway process                                    supervisor process
//!   client ─▶ edge ─▶ session ─▶ runtime ──── supervisor::link ────▶ supervisor ─▶ sandbox
//!                        │  ▲       │  four descriptors a sandbox ◀──────┘
//!                        ▼  └───────┘
//!                      store, session::log ─▶ every reader      audit: from edge and session, signed over there
//! ```
//! `cli` and `client` are on the other side of the wire and know the protocol alone. `serve` is what happens before a
//! supervisor runs, `gateway` joins the parts of the gateway process,
//! and `caller` those of a third one, which calls what the operator has named outside, if anything.

pub mod alerts;
pub mod audit;
pub mod caller;
pub mod certificates;
pub mod cli;
pub mod client;
pub mod config;
pub mod edge;
pub mod gateway;
pub mod keys;
pub mod metrics;
pub mod outbound;
pub mod runtime;
pub mod sandbox;
pub mod serve;
pub mod session;
pub mod store;
pub mod supervisor;
pub mod telemetry;
pub mod traces;
