//! House rules that a compiler does not check: which module may use which, how long a file may be, where `unsafe` may
//! stand, and that every requirement has a test or a reason.

#![allow(clippy::unwrap_used, reason = "in a test a panic is how a failure is told")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which module may use which others of ours, as whole modules or as `module::part`. Arrows point down only; what is not
/// listed is refused. The modules that join the parts may use everything and are not listed.
const ARROWS: &[(&str, &[&str])] = &[
    // What a command borrows from the server's side is one function each.
    (
        "cli",
        &[
            "certificates",
            "client",
            "audit",
            "config",
            "keys",
            "edge::auth",
            "sandbox::probe",
            "runtime::bash",
            "runtime::javascript",
            "runtime::python",
        ],
    ),
    ("alerts", &["audit", "metrics", "outbound", "traces", "config"]),
    ("client", &[]),
    ("config", &[]),
    ("keys", &[]),
    ("certificates", &["keys"]),
    ("telemetry", &["config"]),
    ("edge", &["session", "alerts", "audit", "metrics", "traces", "outbound", "config", "keys::KeyFile"]),
    // Of the supervisor a session sees the handle and the messages, by which it asks for sandboxes, and how both count.
    (
        "session",
        &[
            "runtime",
            "store",
            "audit",
            "metrics",
            "traces",
            "outbound",
            "config",
            "supervisor::budget",
            "supervisor::handle",
            "supervisor::link",
            "supervisor::monotonic_ns",
        ],
    ),
    // What is done about code that breaks the policy is a word of the configuration.
    ("runtime", &["supervisor::handle", "supervisor::link", "config::PolicyAction"]),
    ("supervisor", &["sandbox", "audit", "config", "metrics", "outbound::link", "telemetry"]),
    ("sandbox", &[]),
    ("store", &[]),
    ("audit", &[]),
    ("metrics", &[]),
    ("traces", &["metrics", "outbound", "telemetry"]),
    ("outbound", &["config"]),
];
const JOINERS: &[&str] = &["main", "lib", "gateway", "serve", "caller"];

/// Crates that stay where they belong.
const CRATES: &[(&str, &[&str])] = &[
    ("hyper", &["edge", "client", "caller"]),
    ("hyper_util", &["edge", "client", "caller"]),
    ("http", &["edge", "client", "caller"]),
    ("http_body_util", &["edge", "client", "caller"]),
    ("tokio_tungstenite", &["edge", "client"]),
    ("rustls", &["certificates", "edge", "client", "caller", "serve"]),
    ("tokio_rustls", &["edge", "client", "caller"]),
    ("x509_parser", &["certificates"]),
    ("matchit", &["edge"]),
    ("rust_embed", &["edge"]),
    ("jsonwebtoken", &["edge"]),
    ("libc", &["sandbox"]),
    ("libseccomp", &["sandbox"]),
    ("landlock", &["sandbox"]),
    ("rusqlite", &["store"]),
    ("clap", &["cli", "main"]),
    ("opentelemetry", &["traces"]),
    ("opentelemetry_sdk", &["traces"]),
    ("opentelemetry_proto", &["traces"]),
    ("tracing_opentelemetry", &["traces"]),
    ("prost", &["traces"]),
];

const MAX_LINES: usize = 400;

struct Source {
    /// Relative to the root of the checkout.
    path: PathBuf,
    text: String,
}

impl Source {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn is_test(&self) -> bool {
        self.path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
    }

    /// Its text without comments and without the unit tests at its end, which may use what they like.
    fn code(&self) -> String {
        let body = self.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        body.lines()
            .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The module below `src` that it belongs to, and how deep it lies in the module tree.
    fn place(&self) -> (String, usize) {
        let mut parts: Vec<_> = self.path.iter().skip(1).map(|part| part.to_string_lossy().into_owned()).collect();
        if let Some(last) = parts.last_mut() {
            *last = last.trim_end_matches(".rs").to_owned();
        }
        parts.pop_if(|last| last == "mod");
        (parts[0].clone(), parts.len())
    }
}

/// All files below a folder with this ending, sorted.
fn sources(folder: &str, ending: &str) -> Vec<Source> {
    fn walk(root: &Path, folder: &Path, ending: &str, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, ending, found);
            } else if path.extension().is_some_and(|it| it == ending) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(root, &root.join(folder), ending, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What follows each place where `word` stands as a whole word.
fn after_word<'a>(code: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    code.match_indices(word).filter_map(move |(at, found)| {
        let rest = &code[at + found.len()..];
        let whole = !code[..at].ends_with(is_word) && !rest.starts_with(is_word);
        whole.then_some(rest)
    })
}

fn first_word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// The first two names of every path in a use tree that stands at the beginning of `text`.
fn paths(text: &str) -> Vec<String> {
    let text = text.trim_start();
    let Some(group) = text.strip_prefix('{') else {
        let name = first_word(text).to_owned();
        let Some(rest) = text[name.len()..].strip_prefix("::") else { return vec![name] };
        let rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            return split_group(inner).into_iter().map(|part| format!("{name}::{}", first_word(part))).collect();
        }
        return vec![format!("{name}::{}", first_word(rest))];
    };
    split_group(group).into_iter().flat_map(paths).collect()
}

/// The parts of a group up to its closing brace, split at its own commas.
fn split_group(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            '}' => {
                parts.push(text[start..at].trim());
                break;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn is_allowed(path: &str, module: &str, allowed: &[&str]) -> bool {
    let first = path.split("::").next().unwrap_or_default();
    first == module || allowed.contains(&first) || allowed.contains(&path)
}

#[test]
fn modules_use_only_what_lies_below_them() {
    let mut wrong = Vec::new();
    for source in sources("src", "rs").iter().filter(|source| !source.is_test()) {
        let (module, depth) = source.place();
        if JOINERS.contains(&module.as_str()) {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: the module {module} has no line in ARROWS", source.name()));
            continue;
        };
        let code = source.code();
        let mut used: Vec<String> =
            after_word(&code, "crate").filter_map(|rest| rest.strip_prefix("::")).flat_map(paths).collect();
        // As many `super` as the file is deep lead to the crate's root.
        let to_root = "super::".repeat(depth);
        used.extend(code.match_indices(&to_root).flat_map(|(at, found)| paths(&code[at + found.len()..])));
        for path in used.into_iter().filter(|path| !is_allowed(path, &module, allowed)) {
            wrong.push(format!("{}: {module} may not use {path}", source.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_stay_where_they_belong() {
    let mut wrong = Vec::new();
    for source in sources("src", "rs").iter().filter(|source| !source.is_test()) {
        let (module, _) = source.place();
        let code = source.code();
        for (name, homes) in CRATES.iter().filter(|(_, homes)| !homes.contains(&module.as_str())) {
            // A path that begins with the crate's name; one of ours may hold the same word later on.
            let begins = code
                .match_indices(&format!("{name}::"))
                .any(|(at, _)| !code[..at].ends_with(|c| is_word(c) || c == ':'));
            if begins {
                wrong.push(format!("{}: {name} belongs into {}", source.name(), homes.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stands_in_the_sandbox_alone() {
    let elsewhere = |source: &&Source| !source.path.starts_with("src/sandbox");
    let all = [sources("src", "rs"), sources("protocol", "rs")].concat_sources();
    for source in all.iter().filter(elsewhere) {
        assert!(after_word(&source.code(), "unsafe").next().is_none(), "{}: unsafe", source.name());
    }
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut wrong = Vec::new();
    let rust = [sources("src", "rs"), sources("protocol", "rs"), sources("tests", "rs")].concat_sources();
    let python = [sources("src", "py"), sources("tests", "py"), sources("scripts", "py")].concat_sources();
    for source in rust.iter().chain(&python) {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{}: {lines} lines; {MAX_LINES} are two files", source.name()));
        }
    }
    for source in rust.iter().filter(|source| !source.is_test()) {
        if !source.text.starts_with("//! ") {
            wrong.push(format!("{}: no module doc", source.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

trait Concat {
    fn concat_sources(self) -> Vec<Source>;
}

impl<const N: usize> Concat for [Vec<Source>; N] {
    fn concat_sources(self) -> Vec<Source> {
        self.into_iter().flatten().collect()
    }
}

/// Where tests are listed by their names.
const WITHOUT_LIBTEST: [&str; 2] = ["tests/hostile/main.rs", "tests/sandbox/main.rs"];

/// The texts in the table `TESTS` of a program.
fn table_of_tests(text: &str) -> impl Iterator<Item = &str> {
    let table = text.split("const TESTS").nth(1).and_then(|rest| rest.split("];").next()).unwrap_or_default();
    table.split('"').skip(1).step_by(2)
}

/// The names of all tests, in Rust and in Python.
fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in [sources("src", "rs"), sources("protocol", "rs"), sources("tests", "rs")].concat_sources() {
        let mut marked = false;
        for line in source.text.lines().map(str::trim_start) {
            marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if let (true, Some(rest)) = (marked, function) {
                names.insert(first_word(rest).to_owned());
                marked = false;
            }
        }
    }
    for binary in WITHOUT_LIBTEST {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(binary)).unwrap();
        names.extend(table_of_tests(&text).map(str::to_owned));
    }
    for source in sources("tests", "py") {
        let tests = source.text.lines().filter_map(|line| line.trim_start().strip_prefix("def "));
        names.extend(tests.filter(|rest| rest.starts_with("test_")).map(|rest| first_word(rest).to_owned()));
    }
    names
}

/// What is wrong with one entry of `requirements.toml`.
fn fault_of(entry: &toml::Value, tests: &BTreeSet<String>) -> Option<String> {
    let table = entry.as_table()?;
    let named: Vec<_> = table.get("tests").and_then(toml::Value::as_array).into_iter().flatten().collect();
    let later = table.get("later").and_then(toml::Value::as_str).unwrap_or_default();
    if table.keys().any(|key| key != "tests" && key != "later") {
        return Some("only `tests` and `later` are known".to_owned());
    }
    if named.is_empty() && later.trim().is_empty() {
        return Some("neither tests nor a reason why they come later".to_owned());
    }
    let unknown = named.into_iter().find(|name| !name.as_str().is_some_and(|name| tests.contains(name)));
    unknown.map(|name| format!("there is no test {name}"))
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requirements.toml")).unwrap();
    let entries: toml::Table = text.parse().unwrap();
    let ids = [("FR", 32), ("SEC", 45), ("US", 4)].into_iter();
    let ids: BTreeSet<String> =
        ids.flat_map(|(kind, last)| (1..=last).map(move |n| format!("{kind}-{n:03}"))).collect();
    let tests = test_names();
    let mut wrong: Vec<_> =
        entries.keys().filter(|id| !ids.contains(*id)).map(|id| format!("{id}: no such requirement")).collect();
    for id in &ids {
        match entries.get(id) {
            Some(entry) => wrong.extend(fault_of(entry, &tests).map(|fault| format!("{id}: {fault}"))),
            None => wrong.push(format!("{id}: missing")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn use_trees_are_read_to_their_second_name() {
    let read = |text| paths(text).join(" ");
    assert_eq!(read("session::log::{Cursor, Item};"), "session::log");
    assert_eq!(
        read("{edge, keys::load, session::{self, log::Cursor}, sandbox};"),
        "edge keys::load session::self session::log sandbox"
    );
    assert_eq!(read("store;"), "store");
    let table = "const TESTS: &[Test] = &[\n(\"a\", m::a),\n(\n\"b\",\n m::b)\n];\nlet c = \"c\";";
    assert_eq!(table_of_tests(table).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(after_word("unsafe_code unsafe { not_unsafe }", "unsafe").count(), 1);
}
