use super::*;

const SANDBOX: SandboxId = SandboxId(1);
const SECOND: u64 = 1_000_000_000;

/// A queue for two CPUs with one sandbox in it, and a clock that the test moves.
struct Trial {
    queue: LimitQueue,
    now: Instant,
}

fn used(cpu_ns: u64) -> Reading {
    Reading { counts: Counts { cpu_ns, ..Counts::default() }, ..Reading::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Trial {
    fn new(counted: bool) -> Self {
        let mut queue = LimitQueue::new(2);
        queue.add(SANDBOX, counted);
        Self { queue, now: Instant::now() }
    }

    fn execution(counted: bool, cpu_ns: u64) -> Self {
        let mut it = Self::new(counted);
        it.begin(Some(1), cpu_ns, &used(0));
        it
    }

    fn begin(&mut self, deadline_ns: Option<u64>, cpu_ns: u64, reading: &Reading) {
        self.queue.begin(SANDBOX, &Watch { begins: true, deadline_ns, cpu_ns }, reading, self.now);
    }

    /// The time until the next look.
    fn wait(&self) -> Duration {
        self.queue.next_due().expect("something is due") - self.now
    }

    fn look(&mut self, reading: &Reading) -> Verdict {
        self.now = self.queue.next_due().expect("something is due");
        assert_eq!(self.queue.due(self.now), [SANDBOX]);
        self.queue.look(SANDBOX, reading, self.now)
    }
}

#[test]
fn cpu_time_is_overrun_by_no_more_than_the_floor_on_each_cpu() {
    for (counted, floor) in [(true, 5), (false, 20)] {
        let mut it = Trial::execution(counted, SECOND);
        let begun = it.now;
        loop {
            // Both CPUs burn all the time.
            let due = it.queue.next_due().expect("something is due");
            let cpu = u64::try_from((due - begun).as_nanos()).expect("short") * 2;
            match it.look(&used(cpu)) {
                Verdict::Fits => assert!(cpu < SECOND),
                verdict => {
                    assert_eq!(verdict, Verdict::Tell(Limit::CpuTime));
                    assert!((SECOND..SECOND + 2 * floor * 1_000_000).contains(&cpu), "{cpu}");
                    break;
                }
            }
        }
    }
}

#[test]
fn what_was_used_before_it_began_does_not_count() {
    let mut it = Trial::new(true);
    it.begin(Some(1), SECOND, &used(50 * SECOND));
    assert_eq!(it.look(&used(51 * SECOND - 1)), Verdict::Fits);
    assert_eq!(it.look(&used(51 * SECOND)), Verdict::Tell(Limit::CpuTime));
}

#[test]
fn a_limit_is_told_once_and_kills_if_nothing_new_begins() {
    let mut it = Trial::execution(true, SECOND);
    assert_eq!(it.look(&used(SECOND)), Verdict::Tell(Limit::CpuTime));
    assert_eq!(it.wait(), LIMIT_SLACK);
    assert_eq!(it.look(&used(SECOND)), Verdict::Kill(Limit::CpuTime));
    assert_eq!(it.queue.next_due(), None, "killed once");
    it.begin(Some(1), SECOND, &used(SECOND));
    assert_eq!(it.queue.next_due(), None, "nothing begins in what is being killed");
    assert_eq!(it.queue.struck(SANDBOX, &used(SECOND)), Some(Limit::CpuTime));
}

#[test]
fn what_begins_anew_is_granted_anew() {
    let mut it = Trial::execution(true, SECOND);
    assert_eq!(it.look(&used(SECOND)), Verdict::Tell(Limit::CpuTime));
    it.begin(None, SECOND, &used(SECOND));
    assert_eq!(it.look(&used(SECOND + 1)), Verdict::Fits);
    assert_eq!(it.queue.struck(SANDBOX, &used(SECOND + 1)), None);
    it.begin(Some(1), SECOND, &used(SECOND + 1));
    assert_eq!(it.look(&used(2 * SECOND + 1)), Verdict::Tell(Limit::CpuTime));
}

#[test]
fn kills_for_memory_and_refused_processes_are_told_within_50_ms() {
    let counted = |oom_kills, refused_forks| Reading {
        counts: Counts { cpu_ns: 1, oom_kills, refused_forks },
        ..Reading::default()
    };
    for (reading, limit) in
        [(counted(4, 2), Limit::Memory), (counted(3, 3), Limit::Processes), (counted(4, 3), Limit::Memory)]
    {
        let mut it = Trial::new(true);
        it.begin(Some(1), 100 * SECOND, &counted(3, 2));
        assert_eq!(it.look(&counted(3, 2)), Verdict::Fits, "those of before are not told");
        assert!(it.wait() <= ms(50));
        assert_eq!(it.look(&reading), Verdict::Tell(limit));
        it.begin(None, 100 * SECOND, &reading);
        assert_eq!(it.look(&reading), Verdict::Fits);
    }
}

#[test]
fn memory_that_linux_does_not_hold_is_watched_closely_and_kills_at_once() {
    let at = |pressure, cpu_ns| Reading { pressure, ..used(cpu_ns) };
    let mut it = Trial::execution(false, 100 * SECOND);
    assert_eq!(it.look(&at(Pressure::Low, 1)), Verdict::Fits);
    assert_eq!(it.wait(), ms(100));
    assert_eq!(it.look(&at(Pressure::High, 2)), Verdict::Fits);
    assert_eq!(it.wait(), ms(20));
    assert_eq!(it.look(&at(Pressure::Past, 3)), Verdict::Kill(Limit::Memory));
    assert_eq!(it.queue.struck(SANDBOX, &at(Pressure::Low, 3)), Some(Limit::Memory));
}

#[test]
fn who_sleeps_is_looked_at_seldom_and_who_wakes_soon_enough() {
    let mut it = Trial::new(true);
    it.begin(None, 30 * SECOND, &used(7));
    it.look(&used(8));
    assert_eq!(it.wait(), ms(250), "something still runs");
    it.look(&used(8));
    assert_eq!(it.wait(), ms(5000), "idle");
    let mut it = Trial::execution(true, SECOND);
    it.look(&used(SECOND - 1));
    assert_eq!(it.wait(), ms(5));
    it.look(&used(SECOND - 1));
    assert_eq!(it.wait(), ms(50), "asleep shortly before its limit");
}

#[test]
fn a_look_that_costs_much_is_seldom() {
    let mut it = Trial::execution(false, SECOND);
    it.look(&Reading { cost: ms(10), pressure: Pressure::High, ..used(1) });
    assert_eq!(it.wait(), ms(200));
}

#[test]
fn a_new_gateway_is_told_what_struck_and_gets_its_time() {
    let mut it = Trial::execution(true, SECOND);
    assert_eq!(it.queue.adopted(SANDBOX, it.now), None);
    assert_eq!(it.look(&used(SECOND)), Verdict::Tell(Limit::CpuTime));
    it.now += LIMIT_SLACK / 2;
    assert_eq!(it.queue.adopted(SANDBOX, it.now), Some(Limit::CpuTime));
    assert_eq!(it.wait(), LIMIT_SLACK);
    assert_eq!(it.look(&used(SECOND)), Verdict::Kill(Limit::CpuTime));
    assert_eq!(it.queue.adopted(SANDBOX, it.now), None, "it is being killed");
}

#[test]
fn the_end_of_a_sandbox_tells_what_no_look_has_found() {
    let it = Trial::execution(true, SECOND);
    let last = Reading { counts: Counts { oom_kills: 1, ..Counts::default() }, ..Reading::default() };
    assert_eq!(it.queue.struck(SANDBOX, &last), Some(Limit::Memory));
    assert_eq!(it.queue.struck(SANDBOX, &used(0)), None);
}

#[test]
fn before_anything_is_watched_and_after_the_end_nothing_is_due() {
    let mut it = Trial::new(true);
    assert_eq!(it.queue.next_due(), None);
    it.begin(Some(1), SECOND, &used(0));
    it.queue.remove(SANDBOX);
    assert_eq!((it.queue.next_due(), it.queue.struck(SANDBOX, &used(9 * SECOND))), (None, None));
}

#[test]
fn what_is_due_soon_is_looked_at_along() {
    let mut queue = LimitQueue::new(2);
    let now = Instant::now();
    let watch = Watch { begins: true, deadline_ns: Some(1), cpu_ns: 100 * SECOND };
    for (id, after) in [(1, 0), (2, 1), (3, 10)] {
        queue.add(SandboxId(id), true);
        queue.begin(SandboxId(id), &watch, &used(0), now + ms(after));
    }
    assert_eq!(queue.due(now + ms(49)), [SandboxId(1), SandboxId(2)]);
}
