//! The rules of a language as data: its grammar, and the queries of its file, compiled once.

use std::collections::BTreeSet;

use repltool_protocol::rest::Language;
use tree_sitter::Query;

const PYTHON: &str = include_str!("python.scm");
const JAVASCRIPT: &str = include_str!("javascript.scm");
const BASH: &str = include_str!("bash.scm");
const PYTHON_MODULES: &str = include_str!("python_modules.txt");
const JAVASCRIPT_MODULES: &str = include_str!("javascript_modules.txt");

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// Honest code looks like this too, now and then.
    Suspicious,
    /// Nobody writes this by accident.
    Certain,
}

/// What a pattern finds, as its properties say.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) certainty: Certainty,
    /// An import that no driver sees, of something that is no module of the language.
    pub(super) is_native: bool,
}

/// What a capture means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Where it is, and what is told of it.
    Found,
    /// The name of a module that is imported.
    Module,
    /// Within, code runs perhaps.
    Conditional,
    /// It is for a predicate.
    None,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) grammar: tree_sitter::Language,
    pub(super) query: Query,
    /// One for each pattern of the query; none for what is conditional.
    rules: Vec<Option<Rule>>,
    /// One for each capture of the query.
    meanings: Vec<Meaning>,
    /// The modules that the language itself has.
    modules: BTreeSet<&'static str>,
}

impl Rules {
    /// Reads the rules that were built in.
    ///
    /// # Panics
    /// If they are malformed.
    pub(super) fn compile(language: Language) -> Self {
        let (grammar, text, modules) = match language {
            Language::Python => (tree_sitter_python::LANGUAGE, PYTHON, PYTHON_MODULES),
            Language::Javascript => (tree_sitter_javascript::LANGUAGE, JAVASCRIPT, JAVASCRIPT_MODULES),
            Language::Bash | Language::Shell => (tree_sitter_bash::LANGUAGE, BASH, ""),
        };
        let grammar = tree_sitter::Language::from(grammar);
        let query = Query::new(&grammar, text).expect("built-in queries fit their grammar");
        let rules = (0..query.pattern_count()).map(|pattern| rule(&query, pattern)).collect();
        let meanings = query.capture_names().iter().map(|name| meaning(name)).collect();
        Self { grammar, query, rules, meanings, modules: modules.split_whitespace().collect() }
    }

    /// What a pattern finds.
    pub(super) fn rule(&self, pattern: usize) -> Option<&Rule> {
        self.rules.get(pattern).and_then(Option::as_ref)
    }

    /// What a capture means.
    pub(super) fn meaning(&self, capture: u32) -> Meaning {
        usize::try_from(capture).ok().and_then(|at| self.meanings.get(at)).copied().unwrap_or(Meaning::None)
    }

    /// Whether the language itself has a module of this name, so that no file of the user's can be meant.
    pub(super) fn has_module(&self, name: &str) -> bool {
        let package = name.split(['.', '/']).next().unwrap_or_default();
        name.starts_with("node:") || self.modules.contains(name) || self.modules.contains(package)
    }
}

fn rule(query: &Query, pattern: usize) -> Option<Rule> {
    let settings = query.property_settings(pattern);
    let of = |key: &str| settings.iter().find(|setting| &*setting.key == key);
    let name = of("rule")?.value.as_ref().expect("a rule has a name").to_string();
    let certainty = match of("certainty").and_then(|setting| setting.value.as_deref()) {
        Some("certain") => Certainty::Certain,
        Some("suspicious") => Certainty::Suspicious,
        other => panic!("the certainty of {name} is {other:?}"),
    };
    Some(Rule { name, certainty, is_native: of("native").is_some() })
}

fn meaning(capture: &str) -> Meaning {
    match capture {
        "found" => Meaning::Found,
        "module" => Meaning::Module,
        "conditional" => Meaning::Conditional,
        _ => Meaning::None,
    }
}
