//! The packets of a sandbox's init, both ways: what is read is the same when it is written and read again.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use repltool::supervisor::link::init::{Ask, Entry, Tell};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(packet: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(packet) else { return };
    let written = serde_json::to_vec(&message).expect("a message is JSON");
    assert_eq!(serde_json::from_slice::<T>(&written).expect("it was a message"), message);
}

fuzz_target!(|packet: &[u8]| {
    check::<Ask>(packet);
    check::<Tell>(packet);
    check::<Entry>(packet);
});
