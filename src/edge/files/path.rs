//! Paths of files, as they stand in a URL. The whole path is decoded once and then split, so an escaped `/` separates as
//! a plain one does: no name can hold it. What is escaped twice is a name with a `%` in it.

use crate::edge::problem::Fault;
use crate::edge::query::unescape;

const MAX_BYTES: usize = 4096;
const MAX_NAMES: usize = 64;
const MAX_NAME_BYTES: usize = 255;

/// Reads a path.
///
/// # Errors
/// Whatever [`check`] refuses, and what is no text.
pub(super) fn parse(escaped: &str) -> Result<String, Fault> {
    let text = unescape(escaped).and_then(|bytes| String::from_utf8(bytes).ok());
    let path = text.ok_or_else(|| wrong("UTF-8 with percent escapes is needed"))?;
    check(&path)?;
    Ok(path)
}

/// Checks a path: names with `/` between them, which lead from the working directory to something below it.
///
/// # Errors
/// Anything else.
pub(super) fn check(path: &str) -> Result<(), Fault> {
    if path.len() > MAX_BYTES {
        return Err(wrong(format!("at most {MAX_BYTES} bytes are allowed")));
    }
    if path.split('/').count() > MAX_NAMES {
        return Err(wrong(format!("at most {MAX_NAMES} names are allowed")));
    }
    path.split('/').try_for_each(check_name)
}

fn check_name(name: &str) -> Result<(), Fault> {
    match name {
        "" => Err(wrong("a relative path without empty names is needed")),
        "." | ".." => Err(wrong("`.` and `..` are not allowed")),
        name if name.contains('\0') => Err(wrong("NUL is not allowed")),
        name if name.len() > MAX_NAME_BYTES => Err(wrong(format!("a name has at most {MAX_NAME_BYTES} bytes"))),
        name if name.starts_with(".repltool-") && name.ends_with(".part") => {
            Err(wrong("this name is for files that are being written"))
        }
        _ => Ok(()),
    }
}

fn wrong(message: impl Into<String>) -> Fault {
    Fault::field("path", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        let (name, deep) = ("n".repeat(255), ["d"; 64].join("/"));
        for (escaped, path) in [
            ("a", "a"),
            ("a/b.txt", "a/b.txt"),
            ("a%2Fb", "a/b"),
            ("%C3%A9%F0%9F%98%80", "é😀"),
            ("a+b%20c", "a+b c"),
            ("%252e%252e/x", "%2e%2e/x"),
            ("a%252fb", "a%2fb"),
            ("...", "..."),
            (".hidden", ".hidden"),
            ("a%5Cb%0A%3F%23", "a\\b\n?#"),
            (&name, &name),
            (&deep, &deep),
        ] {
            assert_eq!(parse(escaped).as_deref(), Ok(path));
        }
    }

    #[test]
    fn what_leads_elsewhere_or_nowhere_is_refused() {
        let (name, deep, long) = ("n".repeat(256), ["d"; 65].join("/"), ["n".repeat(250).as_str(); 17].join("/"));
        #[rustfmt::skip]
        let refused = [
            "", "/", "//", "/a", "a/", "a//b", "%2F", "%2Fetc/passwd", "a%2F", ".", "..", "../a", "a/..", "a/../b",
            "a/./b", "%2e%2e/a", "%2E%2e%2fa", "a/%2e", "%00", "a%00b", "%", "a%2", "%zz", "%ff", "%C3", "%C0%AE",
            ".repltool-0.part", "a/.repltool-.part", &name, &deep, &long,
        ];
        for escaped in refused {
            let fault = parse(escaped).expect_err(escaped);
            assert_eq!(fault.document("x").errors[0].field, "path", "{escaped}");
        }
    }
}
