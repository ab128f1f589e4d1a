//! Tests of the running program, one binary. Most of them start a real server on a port of its own, with real sandboxes.

mod harness;
mod wire;

/// The house rules: who may use whom, how long a file may be, which requirement has a test.
mod tidy;

/// Sessions: created, listed, read, restarted, ended by their idle timeout, deleted without a trace.
mod lifecycle;

/// The event log under `kill -9`: nothing lost, nothing twice.
mod log_crash;

/// The gateway is killed: variables, output, queue, timeouts and interrupts go on with the next one.
mod crash;

/// The gateway is killed at random moments, with many sessions, and when no other comes up.
mod crash_often;
