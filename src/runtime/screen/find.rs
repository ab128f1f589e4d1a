//! Looks for what the rules of a language describe, within bounds: hostile code costs no more time and memory than they
//! allow, and what was not read is a finding of its own.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tree_sitter::{Node, ParseOptions, Parser, QueryCursor, QueryCursorOptions, QueryMatch, StreamingIterator, Tree};

use super::rules::{Certainty, Meaning, Rule, Rules};
use super::{IMPORT, MAX_FINDINGS, UNSCREENED, words};

/// What is told of code that was not read to its end.
pub(super) const TOO_MUCH: &str = "the code is too long, or too deep, to be read in time";
/// Places that are kept until the end decides which of them are told.
const MAX_PLACES: usize = 4096;
/// How deep in the tree a pattern may begin. Beyond it, each step of the search costs by the depth.
const MAX_DEPTH: u32 = 1000;
/// Matches that the query may have begun at one time; beyond it, the oldest are given up.
const MAX_UNFINISHED: u32 = 4096;

/// What one look may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of the code that are read. A tree takes up to 250 times as much.
    pub(super) bytes: usize,
    /// Of this thread's CPU time, for reading and searching together: a busy machine skips nothing.
    pub(super) time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 20, time: Duration::from_millis(500) }
    }
}

/// Something that a rule describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding<'a> {
    pub(super) rule: &'a str,
    pub(super) certainty: Certainty,
    /// What was found, printable and short.
    pub(super) detail: String,
    /// From 1.
    pub(super) line: usize,
    /// An import of a module of the language: the driver sees it too, when it happens.
    pub(super) is_seen_by_driver: bool,
}

/// Finds in code what breaks a rule, in the order of the code, at most [`MAX_FINDINGS`]. Of the modules that certainly
/// are imported, those break one of which `is_refused` says so and that the language itself has.
pub(super) fn find<'a>(
    rules: &'a Rules,
    code: &str,
    is_refused: &dyn Fn(&str) -> bool,
    limits: Limits,
) -> Vec<Finding<'a>> {
    let deadline = cpu_time() + limits.time;
    let read = &code[..code.floor_char_boundary(limits.bytes)];
    let text = plain(read);
    let mut search = Search { rules, code: read, text: &text, is_refused, places: Vec::new(), conditional: Vec::new() };
    let is_whole = match parse(rules, &text, deadline) {
        Some(tree) => search.run(&tree, deadline) && read.len() == code.len(),
        None => false,
    };
    search.findings(is_whole)
}

/// Code as it is read, byte for byte: letters that are not ASCII are some letter, and control characters blanks. The
/// scanners of the grammars look up characters in tables of 256, whatever the character is, and read beside them.
fn plain(code: &str) -> Vec<u8> {
    let plain = |byte: u8| match byte {
        b'\n' | b'\t' | b'\r' | b' '..=b'~' => byte,
        0x80.. => b'x',
        _ => b' ',
    };
    code.bytes().map(plain).collect()
}

thread_local! {
    /// To make one takes as long as to read a short line.
    static PARSER: RefCell<Parser> = RefCell::new(Parser::new());
}

/// The tree of code, if there is one in time.
fn parse(rules: &Rules, text: &[u8], deadline: Duration) -> Option<Tree> {
    PARSER.with_borrow_mut(|parser| {
        parser.set_language(&rules.grammar).expect("the grammar is of this version of tree-sitter");
        // What was broken off would be gone on with.
        parser.reset();
        let mut late = |_: &_| until(deadline);
        let options = ParseOptions::new().progress_callback(&mut late);
        parser.parse_with_options(&mut |at, _| text.get(at..).unwrap_or_default(), None, Some(options))
    })
}

/// What this thread has used of the processors.
pub(super) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.try_into().unwrap_or_default(), used.tv_nsec.try_into().unwrap_or_default())
}

fn until(deadline: Duration) -> ControlFlow<()> {
    if cpu_time() < deadline { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

struct Search<'a, 'c> {
    rules: &'a Rules,
    code: &'c str,
    /// The code as it is read.
    text: &'c [u8],
    is_refused: &'c dyn Fn(&str) -> bool,
    places: Vec<Place<'a>>,
    /// What runs perhaps, as ranges of the code.
    conditional: Vec<Range<usize>>,
}

/// Where something was found.
struct Place<'a> {
    at: usize,
    finding: Finding<'a>,
}

impl<'a> Search<'a, '_> {
    /// Says whether everything was seen.
    fn run(&mut self, tree: &Tree, deadline: Duration) -> bool {
        let is_late = Cell::new(false);
        let mut late = |_: &_| {
            let verdict = until(deadline);
            is_late.set(verdict.is_break());
            verdict
        };
        let mut cursor = QueryCursor::new();
        cursor.set_match_limit(MAX_UNFINISHED);
        cursor.set_max_start_depth(Some(MAX_DEPTH));
        let options = QueryCursorOptions::new().progress_callback(&mut late);
        let mut matches = cursor.matches_with_options(&self.rules.query, tree.root_node(), self.text, options);
        while let Some(found) = matches.next() {
            self.take(found);
            if self.places.len() == MAX_PLACES {
                return false;
            }
        }
        drop(matches);
        !is_late.get() && !cursor.did_exceed_match_limit()
    }

    fn take(&mut self, found: &QueryMatch<'_, '_>) {
        let captured = |wanted| {
            let mut captures = found.captures().iter();
            captures.find(|it| self.rules.meaning(it.index) == wanted).map(|it| it.node)
        };
        match self.rules.rule(found.pattern_index) {
            Some(rule) => {
                let node = captured(Meaning::Found).or_else(|| captured(Meaning::Module));
                let place = node.and_then(|node| self.place(rule, node));
                self.places.extend(place);
            }
            None => self.conditional.extend(captured(Meaning::Conditional).map(|node| node.byte_range())),
        }
    }

    fn place(&self, rule: &'a Rule, node: Node<'_>) -> Option<Place<'a>> {
        let text = self.code.get(node.byte_range()).unwrap_or_default();
        let is_seen_by_driver = rule.name == IMPORT && !rule.is_native;
        if rule.name == IMPORT && !(self.is_refused)(text) || is_seen_by_driver && !self.rules.has_module(text) {
            return None;
        }
        let (detail, line) = (words::detail(text), node.start_position().row + 1);
        let finding = Finding { rule: &rule.name, certainty: rule.certainty, detail, line, is_seen_by_driver };
        Some(Place { at: node.start_byte(), finding })
    }

    fn findings(self, is_whole: bool) -> Vec<Finding<'a>> {
        let Self { mut places, conditional, code, .. } = self;
        let certain = certain(conditional);
        places.retain(|place| place.finding.rule != IMPORT || certain(place.at));
        // Of a rule that is broken several times in a line, the surest place is told.
        places.sort_by_key(|Place { at, finding }| (finding.line, Reverse(finding.certainty), *at));
        let mut told = BTreeSet::new();
        places.retain(|Place { finding, .. }| told.insert((finding.line, finding.rule)));
        let mut findings: Vec<_> = places.into_iter().map(|place| place.finding).take(MAX_FINDINGS).collect();
        if !is_whole {
            findings.truncate(MAX_FINDINGS - 1);
            findings.push(unscreened(code));
        }
        findings
    }
}

/// Whether a place of the code lies in none of these ranges.
fn certain(mut conditional: Vec<Range<usize>>) -> impl Fn(usize) -> bool {
    conditional.sort_by_key(|range| (range.start, Reverse(range.end)));
    let mut end = 0;
    // What lies within another is of no use.
    conditional.retain(|range| {
        let reaches_on = range.end > end;
        end = end.max(range.end);
        reaches_on
    });
    move |at| {
        let after = conditional.partition_point(|range| range.start <= at);
        after.checked_sub(1).is_none_or(|last| conditional[last].end <= at)
    }
}

fn unscreened(code: &str) -> Finding<'static> {
    let line = code.lines().count().max(1);
    let detail = TOO_MUCH.to_owned();
    Finding { rule: UNSCREENED, certainty: Certainty::Suspicious, detail, line, is_seen_by_driver: false }
}
