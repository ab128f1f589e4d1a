//! Which execution is legal in which state, and in what order they run: pure, synchronous, without a clock or I/O.
//!
//! ```text
//!   offer ─▶ Admit ─▶ queued ─▶ running ─▶ finished
//!        ├─▶ Follow (same id, same code)       ▲
//!        └─▶ Refuse                queued ─────┘ cancelled, or the interpreter was lost
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use repltool_protocol::ids::{ExecutionId, Seq};

use super::Refusal;

/// What an execution is compared by, when its id comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of code and options.
    pub fn of(job: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        job.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// An execution that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket<J> {
    /// Its name.
    pub id: ExecutionId,
    /// What it is to do.
    pub job: J,
    /// What it takes of the queue's bytes.
    pub bytes: usize,
}

/// What becomes of an offered execution.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store it, then [`Book::queue`] it.
    Admit,
    /// It is known: its events come after this number.
    Follow(Seq),
    /// No.
    Refuse(Refusal),
}

/// What a session accepts.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Executions that may wait.
    pub queue: usize,
    /// Bytes of code that may wait.
    pub queue_bytes: usize,
    /// Executions in the life of the session.
    pub max_expressions: u64,
}

/// The executions of one session. Holds at most one running, `rules.queue` waiting, and for each execution ever
/// accepted its name and fingerprint, which `max_expressions` bounds.
#[derive(Debug)]
pub struct Book<J> {
    rules: Rules,
    waiting: VecDeque<Ticket<J>>,
    waiting_bytes: usize,
    running: Option<ExecutionId>,
    known: HashMap<ExecutionId, (Fingerprint, Seq)>,
    begun: u64,
}

impl<J> Book<J> {
    /// A session that has begun so many executions.
    pub fn new(rules: Rules, begun: u64) -> Self {
        Self { rules, waiting: VecDeque::new(), waiting_bytes: 0, running: None, known: HashMap::new(), begun }
    }

    /// Says what becomes of an execution. Changes nothing.
    pub fn judge(&self, id: &ExecutionId, fingerprint: Fingerprint, bytes: usize) -> Verdict {
        if let Some((known, after)) = self.known.get(id) {
            let same = *known == fingerprint;
            return if same { Verdict::Follow(*after) } else { Verdict::Refuse(Refusal::Conflict(id.clone())) };
        }
        let promised = self.begun + self.waiting.len() as u64;
        if promised >= self.rules.max_expressions {
            return Verdict::Refuse(Refusal::ExpressionLimit(self.rules.max_expressions));
        }
        let full = self.waiting.len() >= self.rules.queue || self.waiting_bytes + bytes > self.rules.queue_bytes;
        // What can start at once does not wait, however large it is.
        if full && !(self.running.is_none() && self.waiting.is_empty()) {
            return Verdict::Refuse(Refusal::Busy(self.waiting.len()));
        }
        Verdict::Admit
    }

    /// Puts an admitted execution at the end of the queue. `after` is the number before its first event.
    pub fn queue(&mut self, ticket: Ticket<J>, fingerprint: Fingerprint, after: Seq) {
        self.known.insert(ticket.id.clone(), (fingerprint, after));
        self.waiting_bytes += ticket.bytes;
        self.waiting.push_back(ticket);
    }

    /// Remembers an execution of an earlier gateway that has ended.
    pub fn remember(&mut self, id: ExecutionId, fingerprint: Fingerprint, after: Seq) {
        self.known.insert(id, (fingerprint, after));
    }

    /// Takes the next execution for a start, if none runs. Gives its count, from 1.
    pub fn begin(&mut self) -> Option<(Ticket<J>, u64)> {
        if self.running.is_some() {
            return None;
        }
        let ticket = self.waiting.pop_front()?;
        self.waiting_bytes -= ticket.bytes;
        self.running = Some(ticket.id.clone());
        self.begun += 1;
        Some((ticket, self.begun))
    }

    /// Notes that an execution of an earlier gateway runs; its start was counted then.
    pub fn resume(&mut self, id: ExecutionId, fingerprint: Fingerprint, after: Seq) {
        self.known.insert(id.clone(), (fingerprint, after));
        self.running = Some(id);
    }

    /// Puts an execution back to the head of the queue: its start could not be stored.
    pub fn put_back(&mut self, ticket: Ticket<J>) {
        self.running = None;
        self.begun -= 1;
        self.waiting_bytes += ticket.bytes;
        self.waiting.push_front(ticket);
    }

    /// The running execution has ended.
    pub fn finish(&mut self) {
        self.running = None;
    }

    /// Takes a waiting execution out of the queue.
    pub fn cancel(&mut self, id: &ExecutionId) -> Option<Ticket<J>> {
        let at = self.waiting.iter().position(|ticket| ticket.id == *id)?;
        let ticket = self.waiting.remove(at)?;
        self.waiting_bytes -= ticket.bytes;
        Some(ticket)
    }

    /// The interpreter is lost: takes everything that waits, in order.
    pub fn lose(&mut self) -> Vec<Ticket<J>> {
        self.waiting_bytes = 0;
        self.waiting.drain(..).collect()
    }

    /// The execution that runs.
    pub fn running(&self) -> Option<&ExecutionId> {
        self.running.as_ref()
    }

    /// Whether something runs or waits.
    pub fn is_busy(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// Executions begun so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules { queue: 3, queue_bytes: 100, max_expressions: 12 };

    fn id(n: u8) -> ExecutionId {
        format!("e{n}").parse().expect("a valid id")
    }

    fn offer(book: &mut Book<u8>, n: u8, job: u8, bytes: usize) -> Verdict {
        let fingerprint = Fingerprint::of(&job);
        let verdict = book.judge(&id(n), fingerprint, bytes);
        if verdict == Verdict::Admit {
            book.queue(Ticket { id: id(n), job, bytes }, fingerprint, Seq(u64::from(n)));
        }
        verdict
    }

    #[test]
    fn the_same_id_follows_and_other_code_conflicts() {
        let mut book = Book::new(RULES, 0);
        assert_eq!(offer(&mut book, 1, 7, 1), Verdict::Admit);
        assert_eq!(offer(&mut book, 1, 7, 1), Verdict::Follow(Seq(1)));
        assert_eq!(offer(&mut book, 1, 8, 1), Verdict::Refuse(Refusal::Conflict(id(1))));
    }

    #[test]
    fn the_queue_is_bounded_in_number_and_bytes() {
        let mut book = Book::new(RULES, 0);
        assert_eq!(offer(&mut book, 0, 0, 1000), Verdict::Admit, "what can start at once may be large");
        book.begin().expect("it starts");
        for n in 1..=3 {
            assert_eq!(offer(&mut book, n, 0, 1), Verdict::Admit);
        }
        assert_eq!(offer(&mut book, 4, 0, 1), Verdict::Refuse(Refusal::Busy(3)));
        book.cancel(&id(1)).expect("it waits");
        assert_eq!(offer(&mut book, 4, 0, 100), Verdict::Refuse(Refusal::Busy(2)));
    }

    #[derive(Debug, Clone)]
    enum Act {
        Offer(u8, u8, usize),
        Begin,
        Finish,
        Cancel(u8),
        Lose,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => (0u8..30, 0u8..2, 0usize..60).prop_map(|(n, job, bytes)| Act::Offer(n, job, bytes)),
            3 => Just(Act::Begin),
            3 => Just(Act::Finish),
            1 => (0u8..30).prop_map(Act::Cancel),
            1 => Just(Act::Lose),
        ]
    }

    proptest! {
        /// Whatever is asked in whatever order: each accepted execution runs or is taken out exactly once, in the order
        /// of acceptance, never two at a time, and the bounds hold.
        #[test]
        fn every_execution_ends_once_and_in_order(acts in prop::collection::vec(act(), 0..200)) {
            let mut book = Book::new(RULES, 0);
            let mut expected: VecDeque<ExecutionId> = VecDeque::new();
            for act in acts {
                match act {
                    Act::Offer(n, job, bytes) => {
                        if offer(&mut book, n, job, bytes) == Verdict::Admit {
                            expected.push_back(id(n));
                        }
                    }
                    Act::Begin => {
                        let idle = book.running().is_none();
                        match book.begin() {
                            Some((ticket, count)) => {
                                prop_assert!(idle);
                                prop_assert_eq!(Some(ticket.id), expected.pop_front());
                                prop_assert_eq!(count, book.begun());
                            }
                            None => prop_assert!(!idle || expected.is_empty()),
                        }
                    }
                    Act::Finish => book.finish(),
                    Act::Cancel(n) => {
                        let waits = expected.iter().position(|it| *it == id(n));
                        prop_assert_eq!(book.cancel(&id(n)).is_some(), waits.is_some());
                        waits.and_then(|at| expected.remove(at));
                    }
                    Act::Lose => {
                        let lost: Vec<_> = book.lose().into_iter().map(|ticket| ticket.id).collect();
                        prop_assert_eq!(lost, expected.drain(..).collect::<Vec<_>>());
                    }
                }
                prop_assert!(book.waiting.len() <= RULES.queue);
                prop_assert_eq!(book.waiting_bytes, book.waiting.iter().map(|it| it.bytes).sum::<usize>());
                prop_assert!(book.begun() <= RULES.max_expressions);
            }
        }
    }
}
