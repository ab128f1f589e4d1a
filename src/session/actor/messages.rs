//! Messages of the driver that stand at their place in the output: displays and requests for input. The program waits
//! until they are in the log, so all it wrote before lies in the pipes by then, and nothing that it writes after.

use std::collections::BTreeMap;

use repltool_protocol::event::{Event, Limit};
use serde_json::Value;

use super::Actor;
use super::running::Cause;
use crate::runtime::control::{ControlError, MAX_DISPLAY, ToDriver};
use crate::session::log::Message;

/// What a display or a question counts at least: the log and its readers hold more of it than its text.
const LEAST_WEIGHT: usize = 16;
/// Bytes of prompts that an execution may always have, however little it may print.
const MIN_ASKED: u64 = 64 * 1024;
/// Messages that may wait for room in the log: each thread of a program waits for its own.
const MAX_UNSAVED: usize = 64;

impl Actor {
    /// Something to show.
    pub(super) fn on_display(&mut self, m: u64, data: BTreeMap<String, Value>, metadata: BTreeMap<String, Value>) {
        if self.is_stored(m) {
            return self.repeat(m);
        }
        self.take_pending_output();
        let weight = (weight(&data) + weight(&metadata)).max(LEAST_WEIGHT);
        if weight > MAX_DISPLAY || weight > self.room() {
            self.drop_display(m, weight);
            return;
        }
        self.count_kept(weight);
        let owner = self.running.as_ref().filter(|running| !running.is_nobodys);
        let id = owner.map(|running| running.id.clone());
        self.store_message(m, Event::Display { id, data, metadata });
    }

    /// The program asks for input. Between executions nobody is asked: the thread that wants it waits.
    pub(super) fn on_input_request(&mut self, m: u64, prompt: String, password: bool) {
        if self.is_stored(m) {
            return self.repeat(m);
        }
        self.take_pending_output();
        let Some(running) = &mut self.running else { return self.repeat(m) };
        running.asked += prompt.len().max(LEAST_WEIGHT) as u64;
        if running.asked > self.identity.limits.max_output_size.max(MIN_ASKED) {
            self.stop(Cause::Limit(Limit::Output));
            return self.acknowledge(m);
        }
        let id = running.id.clone();
        self.store_message(m, Event::InputRequest { id, prompt, password });
    }

    /// What is stored already, or is nobody's: it is acknowledged, but not without end.
    fn repeat(&mut self, m: u64) {
        self.acknowledge(m);
        self.stray();
    }

    /// What comes next was written by the execution that runs, or by what another left behind: that is nobody's.
    pub(super) fn on_owner(&mut self, m: u64, n: u64) {
        self.settle_output();
        if let Some(running) = &mut self.running {
            running.is_nobodys = n == 0;
        }
        self.acknowledge(m);
    }

    /// Tries again what the log had no room for. Says whether all of it is stored.
    pub(super) fn flush_messages(&mut self) -> bool {
        while let Some((message, event)) = self.unsaved_messages.pop_front() {
            if !self.try_store(message, event) {
                return false;
            }
        }
        true
    }

    fn is_stored(&self, m: u64) -> bool {
        self.kernel.as_ref().is_none_or(|kernel| m <= kernel.stored())
    }

    fn store_message(&mut self, m: u64, event: Event) {
        let Some(kernel) = &self.kernel else { return };
        let message = Message { sandbox: kernel.sandbox().0, number: m };
        if self.unsaved_messages.is_empty() {
            self.try_store(message, event);
        } else if self.unsaved_messages.len() < MAX_UNSAVED {
            self.unsaved_messages.push_back((message, event));
        } else {
            self.driver_fault(&ControlError::Impatient);
        }
    }

    fn try_store(&mut self, message: Message, event: Event) -> bool {
        match self.log.append_message(message, &event) {
            Ok(_) => {
                if self.kernel.as_ref().is_some_and(|kernel| kernel.sandbox().0 == message.sandbox) {
                    self.acknowledge(message.number);
                }
                true
            }
            Err(error) => {
                self.unsaved_messages.push_front((message, event));
                self.stall(&error);
                false
            }
        }
    }

    fn acknowledge(&mut self, m: u64) {
        let Some(kernel) = &mut self.kernel else { return };
        kernel.note_stored(m);
        if let Err(error) = kernel.tell(&ToDriver::Ack { m }) {
            self.driver_fault(&error);
        }
    }

    /// Beyond the limit a display is dropped, and the program is stopped as one that prints too much.
    fn drop_display(&mut self, m: u64, weight: usize) {
        match &mut self.running {
            Some(running) => {
                running.dropped += weight as u64;
                self.stop(Cause::Limit(Limit::Output));
            }
            None => self.replace(Limit::Output),
        }
        self.acknowledge(m);
    }
}

/// Bytes that it takes as JSON, near enough.
fn weight(values: &BTreeMap<String, Value>) -> usize {
    let value = |value: &Value| match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    values.iter().map(|(name, it)| name.len() + value(it)).sum()
}
