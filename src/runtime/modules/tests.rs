//! What lists mean, and that the built-in ones hold what people need.

use proptest::prelude::*;

use super::*;

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

fn python(mode: SandboxMode, entries: &[&str]) -> Modules {
    Modules::resolve(Language::Python, mode, &list(entries))
}

fn javascript(mode: SandboxMode, entries: &[&str]) -> Modules {
    Modules::resolve(Language::Javascript, mode, &list(entries))
}

fn assert_allows(modules: &Modules, allowed: &str, refused: &str) {
    for name in allowed.split_whitespace() {
        assert!(modules.allows(name), "{name} is refused");
    }
    for name in refused.split_whitespace() {
        assert!(!modules.allows(name), "{name} is allowed");
    }
}

#[test]
fn python_programs_may_compute_at_every_level() {
    const COMPUTE: &str = "json math re datetime collections collections.abc itertools functools random statistics \
        decimal fractions string textwrap hashlib base64 csv uuid heapq bisect copy dataclasses enum typing time asyncio \
        threading logging warnings traceback io getpass concurrent.futures urllib.parse";
    const FILES: &str = "sqlite3 tempfile pathlib shutil zipfile pickle inspect importlib multiprocessing signal gc";
    const PACKAGES: &str = "numpy numpy.linalg pandas matplotlib matplotlib.pyplot scipy.stats sklearn.svm PIL.Image";
    const OUTSIDE: &str = "os os.path sys subprocess ctypes _ctypes socket ssl http.client urllib.request posix pty \
        resource fcntl";
    assert_allows(&python(SandboxMode::Strict, &["default"]), COMPUTE, &format!("{FILES} {PACKAGES} {OUTSIDE}"));
    assert_allows(&python(SandboxMode::Standard, &["default"]), &format!("{COMPUTE} {FILES} {PACKAGES}"), OUTSIDE);
    let all = format!("{COMPUTE} {FILES} {PACKAGES} os sys subprocess socket anything.else");
    assert_allows(&python(SandboxMode::Relaxed, &["default"]), &all, "ctypes ctypes.util _ctypes cffi");
}

#[test]
fn javascript_programs_may_compute_at_every_level() {
    const COMPUTE: &str = "assert assert/strict node:util util/types path/posix buffer events crypto zlib readline \
        stream/promises timers/promises";
    const FILES: &str = "fs node:fs fs/promises node:fs/promises worker_threads";
    const OUTSIDE: &str = "child_process node:child_process net dgram http https http2 tls dns dns/promises cluster \
        inspector module vm v8 os repl wasi process node:process";
    assert_allows(&javascript(SandboxMode::Strict, &["default"]), COMPUTE, &format!("{FILES} {OUTSIDE}"));
    assert_allows(&javascript(SandboxMode::Standard, &["default"]), &format!("{COMPUTE} {FILES}"), OUTSIDE);
    assert_allows(&javascript(SandboxMode::Relaxed, &["default"]), &format!("{COMPUTE} {FILES} {OUTSIDE}"), "");
}

#[test]
fn operators_add_to_the_built_in_lists_and_take_away() {
    use SandboxMode::Standard;
    assert_allows(&python(Standard, &["default", "os", "!json"]), "os os.path math", "json json.decoder sys");
    assert_allows(&python(Standard, &["math", "xml.etree"]), "math xml.etree.ElementTree", "json xml xml.sax xmlrpc");
    assert_allows(&python(Standard, &["*", "!subprocess", "!xml.sax"]), "os xml", "subprocess xml.sax xml.sax.handler");
    assert_allows(&python(Standard, &[]), "", "math json os");
    assert_allows(
        &javascript(Standard, &["node:os", "!node:fs/promises", "fs", "@a/b"]),
        "os fs @a/b/c",
        "fs/promises @a",
    );
    // What is denied is so even by name, so an operator who wants one of the denied says all but the others.
    assert_allows(&python(SandboxMode::Relaxed, &["default", "ctypes"]), "os", "ctypes");
}

#[test]
fn bash_imports_nothing_that_could_be_refused() {
    for language in [Language::Bash, Language::Shell] {
        assert!(Modules::resolve(language, SandboxMode::Strict, &[]).allows("anything"));
    }
}

#[test]
fn built_in_lists_name_each_module_once() {
    for (text, language) in [(PYTHON, Language::Python), (JAVASCRIPT, Language::Javascript)] {
        let entries: Vec<_> = built_in_entries(text, SandboxMode::Relaxed).collect();
        let once: BTreeSet<_> = entries.iter().collect();
        assert_eq!(entries.len(), once.len(), "{language:?}");
        let sections: Vec<_> = text.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(sections, ["[strict]", "[standard]", "[relaxed]"]);
    }
}

#[test]
fn way_out_names_the_level_and_the_setting() {
    assert_eq!(
        way_out(Language::Python, SandboxMode::Standard),
        "use sandbox_mode \"relaxed\" (needs the scope sandbox:relaxed), or ask the operator for \
         sandbox.standard.python_modules"
    );
    assert_eq!(
        way_out(Language::Javascript, SandboxMode::Relaxed),
        "ask the operator for sandbox.relaxed.javascript_modules"
    );
}

#[test]
fn drivers_are_told_the_list_without_default() {
    let told = |language| told_to_driver(language, SandboxMode::Relaxed, "record", &list(&["default", "!os"]));
    let bytes = told(Language::Javascript).expect("a policy");
    let told_to_node: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!((&told_to_node["action"], &told_to_node["level"]), (&"record".into(), &"relaxed".into()));
    assert_eq!(told_to_node["way_out"], "ask the operator for sandbox.relaxed.javascript_modules");
    let has = |entry: &str| told_to_node["modules"].as_array().expect("a list").iter().any(|it| it == entry);
    assert!(has("*") && has("!os") && has("fs") && !has("default"), "{told_to_node}");
    assert_eq!(told(Language::Bash), None);
}

fn any_language() -> impl Strategy<Value = Language> {
    prop_oneof![Just(Language::Python), Just(Language::Javascript), Just(Language::Bash)]
}

fn any_mode() -> impl Strategy<Value = SandboxMode> {
    prop_oneof![Just(SandboxMode::Strict), Just(SandboxMode::Standard), Just(SandboxMode::Relaxed)]
}

fn any_name() -> impl Strategy<Value = String> {
    "(node:)?[a-c]([./][a-c]){0,2}|json|fs|ctypes"
}

fn any_entries() -> impl Strategy<Value = Vec<String>> {
    let entry = prop_oneof![
        4 => any_name(),
        2 => any_name().prop_map(|name| format!("!{name}")),
        1 => Just("default".to_owned()),
        1 => Just("*".to_owned()),
    ];
    proptest::collection::vec(entry, 0..8)
}

proptest! {
    #[test]
    fn resolved_lists_resolve_to_themselves(
        language in any_language(), mode in any_mode(), entries in any_entries(),
    ) {
        let once = Modules::resolve(language, mode, &entries);
        prop_assert_eq!(Modules::resolve(language, mode, &once.entries()), once);
    }

    #[test]
    fn order_and_repetition_mean_nothing(
        language in any_language(), mode in any_mode(), entries in any_entries(), name in any_name(),
    ) {
        let twice: Vec<_> = entries.iter().rev().chain(&entries).cloned().collect();
        let (one, other) = (Modules::resolve(language, mode, &entries), Modules::resolve(language, mode, &twice));
        prop_assert_eq!(one.allows(&name), other.allows(&name));
    }

    #[test]
    fn denied_module_stays_denied_with_all_that_lies_in_it(
        mode in any_mode(), mut entries in any_entries(), name in "[a-c](\\.[a-c]){0,2}", below in "[a-c]",
    ) {
        entries.push(format!("!{name}"));
        let modules = Modules::resolve(Language::Python, mode, &entries);
        prop_assert!(!modules.allows(&name));
        let submodule = format!("{name}.{below}");
        prop_assert!(!modules.allows(&submodule));
    }

    #[test]
    fn submodule_of_an_allowed_package_is_allowed_unless_it_is_denied(
        mode in any_mode(), entries in any_entries(), name in "[a-c](\\.[a-c]){0,1}", below in "[a-c]",
    ) {
        let modules = Modules::resolve(Language::Python, mode, &entries);
        let submodule = format!("{name}.{below}");
        if modules.allows(&name) && !entries.contains(&format!("!{submodule}")) {
            prop_assert!(modules.allows(&submodule));
        }
    }

    #[test]
    fn higher_level_allows_by_default_what_a_lower_one_does(language in any_language(), name in any_name()) {
        let allows = |mode| Modules::resolve(language, mode, &list(&["default"])).allows(&name);
        prop_assert!(!allows(SandboxMode::Strict) || allows(SandboxMode::Standard));
    }
}
