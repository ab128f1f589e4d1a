//! Laws of paths and of conditions on files, as functions of any bytes: they panic where a law is broken.

use http::HeaderMap;

use super::{conditions, path};
use crate::edge::fuzzing::{escape, is_told_briefly};

/// A path in a URL leads to something below the working directory, and escaped it is the same path.
pub fn path(escaped: &str) {
    match path::parse(escaped) {
        Ok(found) => {
            assert!(found.len() <= 4096 && !found.contains('\0'));
            assert!(found.split('/').all(|name| !["", ".", ".."].contains(&name) && name.len() <= 255), "{found:?}");
            assert_eq!(path::parse(&escape(found.as_bytes())), Ok(found));
        }
        Err(fault) => {
            is_told_briefly(&fault);
            assert!(fault.document("r1").errors.iter().all(|error| error.field == "path"));
        }
    }
}

/// A range lies within the file, and has something of it.
pub(in crate::edge) fn conditions(headers: &HeaderMap) {
    const TAG: &str = "\"1-2-3\"";
    for size in [0, 1, 1000, u64::MAX] {
        match conditions::range(headers, TAG, size) {
            Ok(Some(range)) => assert!(range.start < range.end && range.end <= size, "{range:?} of {size}"),
            Ok(None) => {}
            Err(fault) => is_told_briefly(&fault),
        }
    }
    let is_any = conditions::is_known(headers, Some(TAG)) && conditions::is_known(headers, Some("\"other\""));
    assert!(!is_any || headers.contains_key(http::header::IF_NONE_MATCH));
    assert_eq!(conditions::if_match(headers, None).is_ok(), !headers.contains_key(http::header::IF_MATCH));
    let _ = conditions::are_given(headers);
}
