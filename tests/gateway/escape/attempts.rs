//! Attempts as their files have them, and what is expected of each.

use std::collections::BTreeSet;
use std::path::Path;

use repltool_protocol::event::Limit;
use repltool_protocol::rest::ExecutionResult;
use serde::Deserialize;

/// The files with attempts on what Linux enforces.
pub const WALLS: &[&str] = &["files", "processes", "network", "syscalls", "resources", "descriptors", "channels"];
/// Attempts on the policy on imports and on the screening, which are advice: a server gives it as shipped.
pub const ADVICE: &[&str] = &["imports"];

const LEVELS: [&str; 3] = ["strict", "standard", "relaxed"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Nothing comes before the code of the attempts.
    #[serde(default)]
    bare: bool,
    attempt: Vec<Attempt>,
}

/// One thing that is tried; see the module above for its keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    name: String,
    #[expect(dead_code, reason = "read by people")]
    tries: String,
    levels: Option<Vec<String>>,
    python: Option<String>,
    javascript: Option<String>,
    bash: Option<String>,
    #[serde(default)]
    plant: Plant,
    #[serde(flatten)]
    expected: Expected,
    #[serde(default)]
    otherwise: Vec<Otherwise>,
    #[serde(skip)]
    bare: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plant {
    python: Option<String>,
    javascript: Option<String>,
    bash: Option<String>,
}

/// How an attempt has to end.
#[derive(Debug, Default, Deserialize)]
pub struct Expected {
    refused: Option<BTreeSet<String>>,
    violation: Option<String>,
    detail: Option<String>,
    exception: Option<String>,
    limit: Option<Limit>,
    #[serde(default)]
    dies: bool,
}

#[derive(Debug, Deserialize)]
struct Otherwise {
    levels: Option<Vec<String>>,
    languages: Option<Vec<String>>,
    #[serde(flatten)]
    expected: Expected,
}

/// An attempt in one language at one level.
#[derive(Debug)]
pub struct Case<'a> {
    attempt: &'a Attempt,
    pub level: &'a str,
    pub language: &'static str,
    pub code: &'a str,
    pub plant: Option<&'a str>,
    expected: &'a Expected,
}

/// The attempts of a file.
pub fn read(name: &str) -> Vec<Attempt> {
    let file: File = toml::from_str(&text(&format!("{name}.toml"))).expect("a readable list of attempts");
    let bare = file.bare;
    file.attempt.into_iter().map(|attempt| Attempt { bare, ..attempt }).collect()
}

/// A file beside this one. It is read when it is needed, so that another attempt needs no other test program.
fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/escape").join(name);
    std::fs::read_to_string(path).expect("a file of attempts")
}

impl Attempt {
    /// The attempt in each language and at each level that it is made for.
    pub fn cases(&self) -> Vec<Case<'_>> {
        let languages = [
            ("python", &self.python, &self.plant.python),
            ("javascript", &self.javascript, &self.plant.javascript),
            ("bash", &self.bash, &self.plant.bash),
        ];
        let levels: Vec<&str> = match &self.levels {
            Some(levels) => levels.iter().map(String::as_str).collect(),
            None => LEVELS.to_vec(),
        };
        assert!(levels.iter().all(|level| LEVELS.contains(level)), "{}: {levels:?}", self.name);
        let each = levels.into_iter().flat_map(|level| languages.map(|language| (level, language)));
        let cases = each.filter_map(|(level, (language, code, plant))| {
            let expected = self.otherwise.iter().find(|it| it.is_for(level, language)).map(|it| &it.expected);
            let expected = expected.unwrap_or(&self.expected);
            let (code, plant) = (code.as_deref()?, plant.as_deref());
            Some(Case { attempt: self, level, language, code, plant, expected })
        });
        cases.collect()
    }
}

impl Otherwise {
    fn is_for(&self, level: &str, language: &str) -> bool {
        let among =
            |list: &Option<Vec<String>>, it: &str| list.as_ref().is_none_or(|list| list.iter().any(|x| x == it));
        among(&self.levels, level) && among(&self.languages, language)
    }
}

impl Case<'_> {
    /// What is attacked.
    pub fn title(&self) -> &str {
        &self.attempt.name
    }

    pub fn name(&self) -> String {
        format!("{} ({}, {})", self.attempt.name, self.level, self.language)
    }

    /// Code with what comes before it.
    pub fn whole(&self, code: &str) -> String {
        if self.attempt.bare {
            return code.to_owned();
        }
        let prelude = match self.language {
            "python" => "prelude.py",
            "javascript" => "prelude.js",
            _ => "prelude.bash",
        };
        format!("{}\n{code}", text(prelude))
    }
}

/// How exactly an attempt has to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// In the words of its file.
    AsTold,
    /// In any: where other walls stand, Linux has other words.
    Somehow,
}

/// What is wrong with how an attempt ended, if anything is.
pub fn fault(case: &Case<'_>, result: &ExecutionResult, refusal: Refusal) -> Option<String> {
    let expected = case.expected;
    let named = |line: &str| line.strip_prefix("refused: ")?.split_whitespace().next().map(str::to_owned);
    let refused: BTreeSet<String> = result.output.lines().filter_map(named).collect();
    let exception = result.exception.as_ref().map(|exception| exception.name.clone());
    let violation = result.violation.as_ref();
    if result.output.lines().any(|line| line.starts_with("ESCAPED")) {
        return Some("it got through".to_owned());
    }
    if refusal == Refusal::Somehow {
        let is_refused = !refused.is_empty() || result.violation.is_some() || !result.success;
        return (!is_refused).then(|| "nothing was refused".to_owned());
    }
    if expected.violation.is_some() && expected.violation.as_ref() != violation.map(|it| &it.rule) {
        return Some(format!("{violation:?} is named as the violation"));
    }
    if expected.detail.is_some() && expected.detail.as_ref() != violation.map(|it| &it.detail) {
        return Some(format!("{violation:?} is named as the violation"));
    }
    if expected.dies && (result.state_lost || result.limit.is_some()) {
        let other = expected.limit.is_some() && result.limit != expected.limit && result.limit.is_some();
        return other.then(|| format!("it was ended by {:?}", result.limit));
    }
    match () {
        () if expected.exception.is_some() => {
            (exception != expected.exception).then(|| format!("it ended with {exception:?}"))
        }
        () if refused.is_empty() => Some("nothing was refused".to_owned()),
        () if !result.success => Some(format!("it broke off before its end, with {exception:?}, {:?}", result.limit)),
        () if expected.refused.as_ref().is_some_and(|expected| *expected != refused) => {
            Some(format!("it was refused with {refused:?}"))
        }
        () => None,
    }
}
