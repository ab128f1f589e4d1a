//! Files of the working directory over HTTP, beside a program that reads and writes the same ones.

use repltool::client::{Client, ClientError};
use repltool_protocol::files::{FileKind, FileList};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use super::harness::{Server, in_time, python, run, session};
use super::wire::{Headers, Reply, ask, bearer, local_token};

fn url(session: &SessionId, file: &str) -> String {
    format!("/api/v1/sessions/{session}/files/{file}")
}

/// A request by the owner.
async fn request(server: &Server, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) -> Reply {
    let token = bearer(&local_token(server));
    let headers = [&[("authorization", token.as_str())], headers].concat();
    ask(server, method, path, &headers, body).await
}

/// What is printed by Python code that must succeed.
async fn printed(client: &Client, session: &SessionId, text: &str) -> String {
    let result = run(client, session, text).await;
    assert!(result.success, "{text}: {}", result.error);
    result.output
}

fn names(list: &FileList) -> Vec<&str> {
    list.files.iter().map(|entry| entry.path.as_str()).collect()
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> ProblemCode {
    outcome.expect_err("refused").problem().expect("a problem").code
}

async fn fresh(server: &Server) -> (Client, SessionId) {
    let client = server.client();
    let id = python(&client, json!({})).await;
    (client, id)
}

#[tokio::test]
async fn files_go_in_and_out_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    for (language, copy) in [
        ("python", "import shutil; shutil.copy('in/data.bin', 'out.bin')"),
        ("javascript", "require('fs').copyFileSync('in/data.bin', 'out.bin')"),
        ("bash", "cat in/data.bin >out.bin"),
    ] {
        let id = session(&client, language, json!({})).await;
        assert!(client.write_file(&id, "in/data.bin", bytes.clone()).await.expect("written"), "{language}: it is new");
        assert!(!client.write_file(&id, "in/data.bin", bytes.clone()).await.expect("written"), "{language}: not new");
        let result = run(&client, &id, copy).await;
        assert!(result.success, "{language}: {}", result.error);
        assert!(client.read_file(&id, "out.bin").await.expect("read") == bytes, "{language}");
        let list = client.files(&id, "", None).await.expect("a list");
        assert_eq!(names(&list), ["in", "in/data.bin", "out.bin"], "{language}");
        client.remove_file(&id, "out.bin").await.expect("removed");
        assert_eq!(refused(client.read_file(&id, "out.bin").await), ProblemCode::NotFound);
        assert_eq!(refused(client.remove_file(&id, "out.bin").await), ProblemCode::NotFound);
        assert_eq!(refused(client.remove_file(&id, "in").await), ProblemCode::Conflict, "{language}: it is not empty");
    }
    let (_, empty) = fresh(&server).await;
    client.write_file(&empty, "empty", "").await.expect("written");
    assert_eq!(client.read_file(&empty, "empty").await.expect("read").len(), 0);
}

#[tokio::test]
async fn lists_tell_what_there_is() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    assert_eq!(client.files(&id, "", None).await.expect("a list"), FileList { files: vec![], truncated: false });
    let make = "import os, socket\nos.makedirs('b/deep')\nopen('b/deep/é 😀', 'w').write('1234567')\nopen('b.txt', 'w')\n\
        os.symlink('/etc/passwd', 'a-link')\nos.mkfifo('fifo')\nopen(b'\\xff\\xfe', 'w')\nopen('line\\nbreak', 'w')\n\
        os.utime('b.txt', (0, 1.5))";
    printed(&client, &id, make).await;
    let list = client.files(&id, "", None).await.expect("a list");
    let kinds: Vec<_> = list.files.iter().map(|it| (it.path.as_str(), it.kind, it.size)).collect();
    let expected = [
        ("a-link", FileKind::Link, 0),
        ("b", FileKind::Directory, 0),
        ("b/deep", FileKind::Directory, 0),
        ("b/deep/é 😀", FileKind::File, 7),
        ("b.txt", FileKind::File, 0),
        ("fifo", FileKind::Other, 0),
        ("line\nbreak", FileKind::File, 0),
        ("\u{fffd}\u{fffd}", FileKind::File, 0),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(list.files[4].modified, "1970-01-01T00:00:01.000Z");
    assert!(list.files.iter().all(|it| it.modified.parse::<jiff::Timestamp>().is_ok()));
    assert_eq!(names(&client.files(&id, "b", None).await.expect("a list")), ["b/deep", "b/deep/é 😀"]);
    let part = client.files(&id, "", Some(3)).await.expect("a list");
    assert_eq!((part.files.len(), part.truncated), (3, true));
    assert_eq!(refused(client.files(&id, "no/such", None).await), ProblemCode::NotFound);
    for folder in ["b.txt", "a-link"] {
        assert_eq!(refused(client.files(&id, folder, None).await), ProblemCode::Conflict, "{folder}");
    }
    for (query, field) in [
        ("path=..", "path"),
        ("path=/etc", "path"),
        ("path=b/", "path"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
    ] {
        let path = format!("/api/v1/sessions/{id}/files?{query}");
        let problem = request(&server, "GET", &path, &[], b"").await.problem(ProblemCode::InvalidRequest);
        assert_eq!(problem.errors[0].field, field, "{query}");
    }
    printed(&client, &id, "for n in range(5000): open(f'n{n:04}', 'w').close()").await;
    let many = client.files(&id, "", None).await.expect("a list");
    assert_eq!((many.files.len(), many.truncated), (5008, false));
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    client.write_file(&id, "kept", "kept").await.expect("written");
    let (long, deep) = ("n".repeat(256), ["d"; 65].join("/"));
    for path in [
        "",
        "/",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "..",
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "./kept",
        "a//b",
        "kept/",
        "a%00b",
        "%",
        "%ff",
        "..%2f..%2fetc%2fpasswd",
        ".repltool-1.part",
        &long,
        &deep,
    ] {
        for (method, body) in [("GET", ""), ("PUT", "x"), ("DELETE", "")] {
            let reply = request(&server, method, &url(&id, path), &[], body.as_bytes()).await;
            let problem = reply.problem(ProblemCode::InvalidRequest);
            assert_eq!((reply.status, problem.errors[0].field.as_str()), (400, "path"), "{method} {path}");
        }
    }
    // Escaped once it separates; escaped twice it is a name like any other.
    assert_eq!(request(&server, "PUT", &url(&id, "a%2Fb"), &[], b"1").await.status, 201);
    assert_eq!(request(&server, "PUT", &url(&id, "%252e%252e"), &[], b"2").await.status, 201);
    assert_eq!(client.read_file(&id, "a/b").await.expect("read"), "1");
    assert_eq!(names(&client.files(&id, "", None).await.expect("a list")), ["%2e%2e", "a", "a/b", "kept"]);
    for name in ["é 😀", "a+b", "-rf", "...", "q?#&=;:@", "back\\slash", "new\nline", "n\u{301}"] {
        client.write_file(&id, name, name.to_owned()).await.expect("written");
        assert_eq!(client.read_file(&id, name).await.expect("read"), name.to_owned(), "{name}");
        let there = format!("import os; print(os.path.exists({}))", json!(name));
        assert_eq!(printed(&client, &id, &there).await, "True\n", "{name}");
        client.remove_file(&id, name).await.expect("removed");
    }
}

#[tokio::test]
async fn links_and_fifos_lead_nowhere() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    let make = "import os\nos.mkdir('d')\nopen('d/f', 'w').write('inside')\nos.symlink('/etc/passwd', 'out')\n\
        os.symlink('d/f', 'in')\nos.symlink('d', 'way')\nos.symlink('/', 'root')\nos.symlink('nowhere', 'broken')\n\
        os.symlink('/proc/self/environ', 'magic')\nos.mkfifo('fifo')";
    printed(&client, &id, make).await;
    for path in ["out", "in", "way/f", "root/etc/passwd", "broken", "magic", "d", "fifo", "d/f/x"] {
        let code = in_time(path, async { refused(client.read_file(&id, path).await) }).await;
        assert!(matches!(code, ProblemCode::Conflict | ProblemCode::NotFound), "{path}: {code:?}");
    }
    for path in ["way/new", "root/new", "d", "d/f/x"] {
        assert_eq!(refused(client.write_file(&id, path, "x").await), ProblemCode::Conflict, "{path}");
    }
    // A link and a FIFO are replaced, not followed; a removed link leaves what it led to.
    for path in ["out", "in", "fifo"] {
        client.write_file(&id, path, "new").await.expect("written");
        assert_eq!(client.read_file(&id, path).await.expect("read"), "new", "{path}");
    }
    client.remove_file(&id, "way").await.expect("removed");
    assert_eq!(client.read_file(&id, "d/f").await.expect("read"), "inside");
    let left: FileList = client.files(&id, "", None).await.expect("a list");
    assert!(left.files.iter().all(|it| !it.path.contains(".repltool-")), "{left:?}");
}

#[tokio::test]
async fn parts_and_conditions_are_honoured() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    let path = url(&id, "f");
    let put =
        request(&server, "PUT", &path, &[("if-none-match", "*"), ("content-type", "image/png")], b"0123456789").await;
    assert_eq!((put.status, put.body.len()), (201, 0));
    let tag = put.header("etag").to_owned();
    let whole = request(&server, "GET", &path, &[], b"").await;
    assert_eq!((whole.status, whole.text(), whole.header("etag")), (200, "0123456789".into(), tag.as_str()));
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("accept-ranges", "bytes"),
        ("cache-control", "no-store"),
        ("content-length", "10"),
    ] {
        assert_eq!(whole.header(name), value, "{name}");
    }
    assert!(whole.header("last-modified").ends_with(" GMT"), "{whole:?}");
    let head = request(&server, "HEAD", &path, &[("range", "bytes=2-4")], b"").await;
    assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, "10"));
    for (range, status, body, told) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=7-", 206, "789", "bytes 7-9/10"),
        ("bytes=-2", 206, "89", "bytes 8-9/10"),
        ("bytes=0-1,4-5", 200, "0123456789", ""),
        ("lines=1-2", 200, "0123456789", ""),
    ] {
        let part = request(&server, "GET", &path, &[("range", range), ("if-range", &tag)], b"").await;
        assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (status, body, told), "{range}");
    }
    let beyond = request(&server, "GET", &path, &[("range", "bytes=10-")], b"").await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */10"));
    beyond.problem(ProblemCode::RangeNotSatisfiable);
    let other = request(&server, "GET", &path, &[("range", "bytes=2-4"), ("if-range", "\"x\"")], b"").await;
    assert_eq!(other.status, 200, "the part of another file is of no use");
    let known = request(&server, "GET", &path, &[("if-none-match", &tag)], b"").await;
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, tag.as_str()));
    for (method, headers) in [
        ("PUT", [("if-none-match", "*")]),
        ("PUT", [("if-match", "\"x\"")]),
        ("GET", [("if-match", "\"x\"")]),
        ("DELETE", [("if-match", "\"x\"")]),
    ] {
        let reply = request(&server, method, &path, &headers, b"").await;
        assert_eq!(reply.status, 412, "{method} {headers:?}");
        reply.problem(ProblemCode::PreconditionFailed);
    }
    assert_eq!(request(&server, "PUT", &url(&id, "g"), &[("if-match", "*")], b"x").await.status, 412);
    let next = request(&server, "PUT", &path, &[("if-match", &tag)], b"next").await;
    assert!(next.status == 204 && next.header("etag") != tag, "{next:?}");
    assert_eq!(request(&server, "PUT", &path, &[("content-range", "bytes 0-1/4")], b"x").await.status, 400);
    assert_eq!(request(&server, "PUT", &path, &[("content-encoding", "gzip")], b"x").await.status, 415);
    assert_eq!(client.read_file(&id, "f").await.expect("read"), "next");
    assert_eq!(request(&server, "DELETE", &path, &[("if-match", next.header("etag"))], b"").await.status, 204);
}

#[tokio::test]
async fn files_outlive_their_interpreter_and_the_gateway() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    client.write_file(&id, "d/from-outside", "outside").await.expect("written");
    printed(&client, &id, "open('from-inside', 'w').write('inside')").await;
    let both = async |what: &str| {
        assert_eq!(client.read_file(&id, "d/from-outside").await.expect("read"), "outside", "{what}");
        assert_eq!(client.read_file(&id, "from-inside").await.expect("read"), "inside", "{what}");
        assert_eq!(printed(&client, &id, "print(open('d/from-outside').read())").await, "outside\n", "{what}");
    };
    both("at first").await;
    client.restart(&id).await.expect("restarted");
    both("after a restart").await;
    let killed = run(&client, &id, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)").await;
    assert!(killed.state_lost);
    both("after its death").await;
    server.crash_gateway().await;
    both("after the death of the gateway").await;
    client.delete(&id).await.expect("deleted");
    assert_eq!(refused(client.read_file(&id, "from-inside").await), ProblemCode::NotFound);
}
