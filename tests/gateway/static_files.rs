//! The web page and the description of the API, as they are in the binary.

#![allow(clippy::unwrap_used, reason = "in a test a panic is how a failure is told")]

use std::path::{Path, PathBuf};

use repltool_protocol::rest::ProblemCode;
use serde_json::Value;

use super::harness::Server;
use super::wire::{Reply, ask};

const DESCRIPTION: &str = "/api/v1/openapi.json";

/// What `make web` left, by path on the server.
fn built() -> Vec<(String, Vec<u8>)> {
    fn walk(root: &Path, folder: PathBuf, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, path, found);
            } else {
                let name = format!("/{}", path.strip_prefix(root).unwrap().display());
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("web-client/dist");
    let mut found = Vec::new();
    walk(&root, root.clone(), &mut found);
    found
}

/// Asks as somebody without a token.
async fn get(server: &Server, path: &str) -> Reply {
    ask(server, "GET", path, &[], b"").await
}

/// Asks again, as somebody who has what the first answer held.
async fn get_if_changed(server: &Server, path: &str, tag: &str) -> Reply {
    ask(server, "GET", path, &[("if-none-match", tag)], b"").await
}

fn expected_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[tokio::test]
async fn every_file_of_the_page_is_served_as_it_is() {
    let server = Server::start().await;
    let files = built();
    assert!(files.iter().any(|(path, _)| path.starts_with("/assets/")), "the build names files by their hash");
    for (path, bytes) in files {
        let reply = get(&server, &path).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, expected_type(&path)), "{path}");
        assert!(reply.body == bytes, "{path}");
        let caching = if path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        assert_eq!(reply.header("cache-control"), caching, "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        let head = ask(&server, "HEAD", &path, &[], b"").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), bytes.len().to_string(), "{path}");
        let known = get_if_changed(&server, &path, reply.header("etag")).await;
        assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
        assert_eq!((known.header("etag"), known.header("cache-control")), (reply.header("etag"), caching), "{path}");
    }
}

#[tokio::test]
async fn folders_are_shown_by_their_index() {
    let server = Server::start().await;
    for (folder, file) in [("/", "/index.html"), ("/docs", "/docs/index.html"), ("/docs/", "/docs/index.html")] {
        let (folder, file) = (get(&server, folder).await, get(&server, file).await);
        assert_eq!((folder.status, &folder.body), (200, &file.body));
        assert_eq!(folder.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(folder.header("etag"), file.header("etag"));
    }
}

#[tokio::test]
async fn pages_may_use_this_server_and_nothing_else() {
    let server = Server::start().await;
    for path in ["/", "/docs"] {
        let reply = get(&server, path).await;
        let policy = reply.header("content-security-policy");
        let mut rules = policy.split("; ");
        assert_eq!(rules.next(), Some("default-src 'none'"));
        for rule in rules {
            let (name, sources) = rule.split_once(' ').unwrap();
            let allowed: &[&str] = match name {
                "script-src" | "style-src" | "connect-src" => &["'self'"],
                "img-src" => &["'self'", "data:", "blob:"],
                "base-uri" | "form-action" | "frame-ancestors" => &["'none'"],
                other => panic!("{other} is not expected"),
            };
            assert_eq!(sources.split(' ').collect::<Vec<_>>(), allowed, "{name}");
        }
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), value, "{path}");
        }
        assert!(reply.header("permissions-policy").contains("microphone=()"), "{path}");
        assert!(!reply.header("x-request-id").is_empty());
    }
}

#[tokio::test]
async fn pages_hold_no_script_of_their_own_and_no_other_address() {
    let server = Server::start().await;
    for path in ["/", "/docs"] {
        let page = get(&server, path).await.text();
        for script in page.split("<script").skip(1) {
            let (tag, body) = script.split_once('>').unwrap();
            assert!(tag.contains(" src=\"/"), "{path}: {tag}");
            assert!(body.starts_with("</script>"), "{path}: an inline script");
        }
        for word in ["http:", "https:", "\"//", "<style", " style=", "javascript:"] {
            assert!(!page.contains(word), "{path}: {word}");
        }
    }
}

#[tokio::test]
async fn what_is_no_file_of_the_page_is_not_found() {
    let server = Server::start().await;
    for path in [
        "/index.htm",
        "/INDEX.HTML",
        "/index.html/",
        "/assets",
        "/assets/",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "/%69ndex.html",
        "/../Cargo.toml",
        "/docs//",
        "//",
        "/web-client/dist/index.html",
        "/repltool.v1.json",
    ] {
        get(&server, path).await.problem(ProblemCode::NotFound);
    }
    for (method, path) in [("POST", "/"), ("PUT", "/index.html"), ("DELETE", "/docs"), ("PATCH", DESCRIPTION)] {
        let reply = ask(&server, method, path, &[], b"").await;
        assert!(reply.header("allow").starts_with("GET, HEAD"), "{method} {path}: {reply:?}");
        reply.problem(ProblemCode::MethodNotAllowed);
    }
}

#[tokio::test]
async fn the_description_is_the_checked_in_one_and_needs_no_token() {
    let server = Server::start().await;
    let reply = get(&server, DESCRIPTION).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    assert!(reply.text() == repltool_protocol::openapi::document(), "another one than that of the types");
    assert_eq!(reply.json()["openapi"], "3.1.0");
    let tag = reply.header("etag");
    assert!(tag.len() == 66 && tag.starts_with('"'), "{tag}");
    for known in [tag, &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
        let reply = get_if_changed(&server, DESCRIPTION, known).await;
        assert_eq!((reply.status, reply.body.len(), reply.header("etag")), (304, 0, tag), "{known}");
    }
    assert_eq!(get_if_changed(&server, DESCRIPTION, "\"x\"").await.status, 200);
    let head = ask(&server, "HEAD", DESCRIPTION, &[], b"").await;
    assert_eq!(head.header("content-length"), reply.body.len().to_string());
    assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, tag));
}

#[tokio::test]
async fn the_description_names_the_version_that_answers() {
    let server = Server::start().await;
    let document = get(&server, DESCRIPTION).await.json();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let servers: Vec<&Value> = document["servers"].as_array().unwrap().iter().map(|it| &it["url"]).collect();
    assert_eq!(servers, ["/"], "a page that was loaded by any name of the server asks this server");
}
