use proptest::prelude::*;
use serde::Deserialize;

use super::find::{Limits, cpu_time, find};
use super::*;

const LANGUAGES: [Language; 3] = [Language::Python, Language::Javascript, Language::Bash];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    language: Language,
    code: String,
    refused: Option<String>,
    warned: Option<String>,
    line: Option<usize>,
}

fn cases() -> Vec<Case> {
    #[derive(Deserialize)]
    struct Cases {
        case: Vec<Case>,
    }
    toml::from_str::<Cases>(include_str!("cases.toml")).unwrap().case
}

/// A screen with these modules allowed, and this done about what is certain.
fn screen(action: PolicyAction, entries: &[&str]) -> Screen {
    let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    Screen::new(|mode| Policy {
        action,
        python: Modules::resolve(Language::Python, mode, &entries),
        javascript: Modules::resolve(Language::Javascript, mode, &entries),
    })
}

fn everything_allowed() -> Screen {
    screen(PolicyAction::Refuse, &["*"])
}

/// The rules of what is more than recorded.
fn told(judgement: &Judgement) -> Vec<&str> {
    judgement.violations.iter().map(|(violation, _)| violation.rule.as_str()).collect()
}

/// The module for whose import code is refused in standard.
fn refused_import(screen: &Screen, language: Language, code: &str) -> Option<String> {
    let refusal = screen.examine(language, SandboxMode::Standard, code).refuse?;
    assert_eq!((refusal.violation.rule.as_str(), refusal.exception.name.as_str()), (IMPORT, "ImportError"));
    Some(refusal.violation.detail)
}

#[test]
fn what_nobody_writes_by_accident_is_refused() {
    let screen = everything_allowed();
    for case in cases().iter().filter(|case| case.refused.is_some()) {
        let judgement = screen.examine(case.language, SandboxMode::Standard, &case.code);
        let refusal = judgement.refuse.unwrap_or_else(|| panic!("not refused: {}", case.code));
        assert_eq!(Some(refusal.violation.rule), case.refused, "{}", case.code);
        assert_eq!(refusal.violation.layer, ViolationLayer::Policy);
        if let Some(line) = case.line {
            let message = refusal.exception.message;
            assert!(message.contains(&format!("(line {line})")), "{message}");
        }
    }
}

#[test]
fn suspicious_code_runs_and_is_told() {
    let screen = everything_allowed();
    for case in cases().iter().filter(|case| case.warned.is_some()) {
        let judgement = screen.examine(case.language, SandboxMode::Standard, &case.code);
        assert_eq!(judgement.refuse, None, "{}", case.code);
        assert_eq!(told(&judgement), [case.warned.as_deref().unwrap()], "{}", case.code);
        assert!(judgement.violations.iter().all(|(_, action)| *action == PolicyAction::Warn));
    }
}

#[test]
fn what_people_write_passes_without_a_word() {
    let screen = everything_allowed();
    let ordinary: Vec<_> = cases().into_iter().filter(|case| case.refused.is_none() && case.warned.is_none()).collect();
    assert!(ordinary.len() >= 9);
    for case in ordinary {
        let judgement = screen.examine(case.language, SandboxMode::Standard, &case.code);
        assert_eq!(judgement, Judgement::default(), "{}", case.code);
    }
}

#[test]
fn strict_refuses_what_is_suspicious_too() {
    let screen = everything_allowed();
    for case in cases() {
        let refused = screen.examine(case.language, SandboxMode::Strict, &case.code).refuse.is_some();
        assert_eq!(refused, case.refused.is_some() || case.warned.is_some(), "{}", case.code);
    }
}

#[test]
fn the_policy_of_a_level_decides_what_is_done() {
    for (action, certain, suspicious) in [
        (PolicyAction::Refuse, PolicyAction::Refuse, PolicyAction::Warn),
        (PolicyAction::Warn, PolicyAction::Warn, PolicyAction::Warn),
        (PolicyAction::Record, PolicyAction::Record, PolicyAction::Record),
    ] {
        let judgement =
            screen(action, &["*"]).examine(Language::Bash, SandboxMode::Relaxed, "eval $x\nrm -rf /\ncat /etc/shadow");
        let actions: Vec<_> = judgement.violations.iter().map(|(_, action)| *action).collect();
        assert_eq!(actions, [suspicious, certain, certain]);
        assert_eq!(judgement.refuse.is_some(), action == PolicyAction::Refuse);
        assert_eq!(judgement.told().is_some(), action != PolicyAction::Record);
    }
}

#[test]
fn imports_that_certainly_happen_are_refused_by_the_name_of_the_module() {
    let screen = screen(PolicyAction::Refuse, &["default"]);
    for (code, module) in [
        ("import subprocess", "subprocess"),
        ("import json, os.path as p", "os.path"),
        ("from os import environ", "os"),
        ("x = 1; __import__('ctypes')", "ctypes"),
        ("import importlib\nm = importlib.import_module('socket')", "socket"),
        ("with a:\n    class B:\n        import sys", "sys"),
        ("try:\n    import os\nfinally:\n    pass", "os"),
    ] {
        assert_eq!(refused_import(&screen, Language::Python, code).as_deref(), Some(module), "{code}");
    }
    for (code, module) in [
        ("const { exec } = require('child_process')", "child_process"),
        ("import net from 'net'", "net"),
        ("import 'node:http'", "node:http"),
        ("export * from 'dns/promises'", "dns/promises"),
        ("const os = await import('os')", "os"),
        ("process.getBuiltinModule('vm')", "vm"),
        ("process.binding('spawn_sync')", "process.binding"),
        ("process.mainModule.require('module')", "module"),
    ] {
        assert_eq!(refused_import(&screen, Language::Javascript, code).as_deref(), Some(module), "{code}");
    }
}

#[test]
fn imports_that_are_allowed_or_perhaps_never_happen_are_left_to_the_driver() {
    let screen = screen(PolicyAction::Refuse, &["default"]);
    for code in [
        "import json, math, numpy as np\nfrom collections.abc import Mapping",
        "from . import os\nfrom .os import path",
        "import mymodule, my.subprocess",
        "def f():\n    import os",
        "try:\n    import fcntl\nexcept ImportError:\n    fcntl = None",
        "if sys.platform == 'win32':\n    import msvcrt",
        "name = 'os'\n__import__(name)",
        "'import os'  # import os",
        "import os_tools",
        "import",
    ] {
        assert_eq!(refused_import(&screen, Language::Python, code), None, "{code}");
    }
    for code in [
        "import fs from 'fs'; const p = require('node:path')",
        "const own = require('./child_process'); import x from '../net.js'",
        "const _ = require('lodash'), mine = require('my-package/os')",
        "function f() { return require('os') }",
        "let os; try { os = require('os') } catch {}",
        "const cp = isNode && require('child_process')",
        "// require('child_process')\n'require(\"child_process\")'",
        "require(name)",
    ] {
        assert_eq!(refused_import(&screen, Language::Javascript, code), None, "{code}");
    }
    assert_eq!(refused_import(&screen, Language::Bash, "source ./os.sh; import os; command -v subprocess"), None);
}

#[test]
fn lists_of_the_configuration_decide_what_may_be_imported() {
    let code = "import os, json";
    let refused = |entries: &[&str]| {
        let judgement = screen(PolicyAction::Refuse, entries).examine(Language::Python, SandboxMode::Standard, code);
        judgement.refuse.map(|refusal| refusal.violation.detail)
    };
    assert_eq!(refused(&["default"]).as_deref(), Some("os"));
    assert_eq!(refused(&["default", "os"]), None);
    assert_eq!(refused(&["*"]), None);
    assert_eq!(refused(&["*", "!json"]).as_deref(), Some("json"));
}

#[test]
fn refused_imports_say_where_and_what_to_do() {
    let judgement = screen(PolicyAction::Refuse, &["default"]).examine(
        Language::Python,
        SandboxMode::Standard,
        "\n\nimport subprocess",
    );
    let exception = judgement.refuse.unwrap().exception;
    let message = "\"import subprocess\" (line 3) is not allowed in the level standard; use sandbox_mode \"relaxed\" (needs \
                   the scope sandbox:relaxed), or ask the operator for sandbox.standard.python_modules";
    assert_eq!(exception.message, message);
    assert_eq!(exception.traceback, [format!("ImportError: {message}")]);
    let judgement = everything_allowed().examine(Language::Bash, SandboxMode::Relaxed, "rm -rf /");
    let exception = judgement.refuse.unwrap().exception;
    assert_eq!(exception.name, "PolicyViolation");
    assert_eq!(
        exception.message,
        "\"rm -rf /\" (line 1) breaks the rule destruction of the level relaxed; ask the operator for \
         sandbox.relaxed.policy"
    );
}

#[test]
fn details_are_short_and_printable_and_findings_few() {
    let long = format!("rm -rf '\u{202e}\u{7}{}' /", "ä\n\t ".repeat(300));
    let judgement = everything_allowed().examine(Language::Bash, SandboxMode::Standard, &long.replace('\'', ""));
    for (Violation { detail, .. }, _) in &judgement.violations {
        assert!(detail.chars().count() <= words::MAX_DETAIL && detail.is_ascii(), "{detail}");
    }
    assert_eq!(words::detail(&long), format!("rm -rf '{}…", "ä ".repeat(45) + "ä"));
    let many = "cat /etc/shadow\n".repeat(1000);
    let judgement = everything_allowed().examine(Language::Bash, SandboxMode::Standard, &many);
    assert_eq!(judgement.violations.len(), MAX_FINDINGS);
}

#[test]
fn hostile_code_takes_bounded_time() {
    const LEN: usize = 1 << 20;
    const PIECES: [&str; 15] = [
        "(", "[{", "f(", "a.b().", "$(", "\"${", "if x:\n ", "((a+b)*", "`", "<<E\n", "else ", "'", "\0", "a+", "x=1\n",
    ];
    let screen = everything_allowed();
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let garbage: String = (0..LEN).map(|i| char::from(33 + (i * i / 7 % 90) as u8)).collect();
    let codes = PIECES.iter().map(|piece| piece.repeat(LEN / piece.len())).chain([garbage]);
    for (code, language) in codes.flat_map(|code| LANGUAGES.map(|language| (code.clone(), language))) {
        screen.prepare(language);
        let begun = cpu_time();
        let findings = find(screen.rules(language), &code, &|_| true, limits);
        // Between two looks at the clock the parser may take a second or two. Without the limit some take minutes.
        let used = cpu_time() - begun;
        assert!(used < Duration::from_secs(20), "{language:?} {}: {used:?}", &code[..20]);
        assert!(findings.iter().all(|finding| finding.rule == UNSCREENED), "{findings:?}");
    }
}

#[test]
fn characters_that_the_grammars_cannot_take_do_no_harm() {
    let screen = everything_allowed();
    for code in
        ["echo {\u{10ffff}", "a{1..\u{100000}}", "x <<E\n{\u{fffff}", "\u{10fffe}{\u{10fffe}", "echo é; rm -rf /"]
    {
        for language in LANGUAGES {
            let judgement = screen.examine(language, SandboxMode::Standard, code);
            assert_eq!(judgement.refuse.is_some(), language == Language::Bash && code.contains("rm -rf"), "{code:?}");
        }
    }
}

#[test]
fn what_is_not_read_in_time_runs_and_is_recorded() {
    let screen = everything_allowed();
    let late = Limits { time: Duration::ZERO, ..Limits::default() };
    let code = "x = 1\n".repeat(50_000) + "while True: os.fork()\n";
    for limits in [late, Limits { bytes: 1000, ..Limits::default() }] {
        let findings = find(screen.rules(Language::Python), &code, &|_| false, limits);
        assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [UNSCREENED]);
        let judgement = judge(Language::Python, SandboxMode::Strict, PolicyAction::Refuse, findings);
        assert_eq!(judgement.refuse, None);
        assert_eq!(judgement.violations[0].1, PolicyAction::Record);
    }
}

#[test]
fn a_glance_judges_alike_or_not_at_all() {
    let screen = everything_allowed();
    let ordinary = cases().iter().map(|case| (case.language, case.code.clone())).collect::<Vec<_>>();
    for (language, code) in ordinary.into_iter().chain([(Language::Javascript, "a+".repeat(8000))]) {
        screen.prepare(language);
        let glance = screen.glance(language, SandboxMode::Standard, &code);
        assert!(glance.is_none_or(|it| it == screen.examine(language, SandboxMode::Standard, &code)), "{code}");
    }
}

#[test]
fn judgements_survive_a_journal() {
    let screen = everything_allowed();
    for case in cases() {
        let judgement = screen.examine(case.language, SandboxMode::Standard, &case.code);
        let stored = serde_json::to_vec(&judgement).unwrap();
        assert_eq!(serde_json::from_slice::<Judgement>(&stored).unwrap(), judgement);
    }
}

/// Compiled once for all of what is made up.
static DEFAULT: LazyLock<Screen> = LazyLock::new(|| screen(PolicyAction::Refuse, &["default"]));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_is_judged_and_always_alike(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("import os"), Just("while True:"), Just("os.fork()"), Just(":(){ :|:& };:"), Just("require('fs')"),
                Just("\n"), Just("open('/etc/shadow')"), Just("\""), Just("'"), Just("${"), Just("{"), Just(")"), Just("<<E"),
                Just("é\u{202e}"), Just("eval $x"), Just("&"), Just(" "),
            ],
            0..40,
        ),
        noise in ".{0,40}",
    ) {
        let code = pieces.concat() + &noise;
        let lines = code.matches('\n').count() + 1;
        let screen = &*DEFAULT;
        for language in LANGUAGES {
            let findings = find(screen.rules(language), &code, &|_| true, Limits::default());
            prop_assert!(findings.len() <= MAX_FINDINGS);
            for finding in &findings {
                prop_assert!((1..=lines).contains(&finding.line));
                prop_assert!(finding.detail.chars().count() <= words::MAX_DETAIL);
            }
            let judgement = screen.examine(language, SandboxMode::Standard, &code);
            prop_assert_eq!(&judgement, &screen.examine(language, SandboxMode::Standard, &code));
        }
    }
}
