//! The wire contract of repltool as types: what travels between a client and the gateway, and nothing else.
//!
//! This crate knows no async runtime, no sockets, no files and no clock. A value here is either something a client
//! sent ([`frame::ClientFrame`], the request bodies in [`rest`]) or something a client is told ([`frame::ServerFrame`],
//! [`event::Event`], the response bodies in [`rest`]). `README.md` beside this crate tells the same in prose.

pub mod asyncapi;
pub mod close;
pub mod codec;
pub mod environment;
pub mod event;
pub mod files;
pub mod frame;
pub mod ids;
pub mod me;
pub mod openapi;
pub mod query;
pub mod rest;
pub mod schema;
pub mod security;
pub mod token;
pub mod typescript;
