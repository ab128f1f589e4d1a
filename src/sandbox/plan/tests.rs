//! The compiled filters say what the policy says: each is run on many calls by an interpreter of its own, and compared
//! with the rules read one by one. libseccomp merges rules of one call, and not every combination comes out right.

use super::*;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

struct Call {
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    /// A word of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.architecture,
            16.. => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
            }
            _ => panic!("the filter reads the instruction pointer"),
        }
    }
}

/// Runs a filter, as far as filters of libseccomp use the language.
fn run(filter: &[libc::sock_filter], call: &Call) -> u32 {
    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let step = filter[at];
        at += 1;
        let mut jump = |yes: bool| at += usize::from(if yes { step.jt } else { step.jf });
        match step.code {
            0x20 => accumulator = call.word(step.k),
            0x54 => accumulator &= step.k,
            0x05 => at += step.k as usize,
            0x15 => jump(accumulator == step.k),
            0x25 => jump(accumulator > step.k),
            0x35 => jump(accumulator >= step.k),
            0x45 => jump(accumulator & step.k != 0),
            0x06 => return step.k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

fn expected(rules: &[(i32, Rule)], number: i32, arguments: [u64; 6]) -> u32 {
    let matching = rules.iter().filter(|(of, rule)| *of == number && rule.when.iter().all(|w| w.holds(arguments)));
    let mut answers: Vec<u32> = matching
        .map(|(_, rule)| match rule.answer {
            Answer::Allow => ALLOW,
            Answer::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
            Answer::Report(..) => libc::SECCOMP_RET_USER_NOTIF,
        })
        .collect();
    answers.dedup();
    match answers[..] {
        [] => libc::SECCOMP_RET_ERRNO | UNKNOWN.cast_unsigned(),
        [answer] => answer,
        _ => panic!("rules for call {number} disagree"),
    }
}

/// Values around every constant that a rule of this call names, with a clean and a dirty upper half.
fn interesting(rules: &[(i32, Rule)], number: i32) -> Vec<u64> {
    let mut values = vec![0, 1, u64::from(u32::MAX), u64::MAX, 0x1234_5678_9abc_def0];
    for when in rules.iter().filter(|(of, _)| *of == number).flat_map(|(_, rule)| &rule.when) {
        let value = match *when {
            When::Is(_, value) => u64::from(value),
            When::Bits(_, mask, value) => mask | value,
            When::Null(_) | When::NotNull(_) => 0,
        };
        values.extend([
            value,
            value | 0x11,
            value.wrapping_sub(1),
            value + 1,
            value | 1 << 32,
            value | 0xdead_beef << 32,
        ]);
    }
    values.sort_unstable();
    values.dedup();
    values
}

const WHOLE: Terms = Terms { has_memory: true, is_reduced: false };
const BARE: Terms = Terms { has_memory: false, is_reduced: false };
const REDUCED: Terms = Terms { has_memory: false, is_reduced: true };

#[test]
fn filters_say_what_the_policy_says() {
    let mut compared = 0;
    let levels = policy::ALL.into_iter().flat_map(|level| [(level, WHOLE), (level, BARE)]);
    let relaxed = policy::level(SandboxMode::Relaxed, Kind::Interpreter);
    for (level, terms) in levels.chain([(relaxed, REDUCED)]) {
        let rules = rules(level, terms);
        let filter = compile(&rules).unwrap();
        let rules: Vec<(i32, Rule)> =
            rules.into_iter().map(|rule| (number(rule.call).unwrap().as_raw_syscall(), rule)).collect();
        for number in 0..600 {
            let values = interesting(&rules, number);
            let mut check = |arguments: [u64; 6]| {
                let call = Call { number: number.cast_unsigned(), architecture: NATIVE, arguments };
                let expected = expected(&rules, number, arguments);
                assert_eq!(run(&filter, &call), expected, "{level:?} {number} {arguments:x?}");
                compared += 1;
            };
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                check([a, b, 0, 0, 0, 0]);
                check([a, b, 7, 7, 7, 7]);
                check([7, a, b, 7, 7, 7]);
                check([u64::MAX, a, b, 0, 0, 0]);
            }
        }
    }
    println!("{compared} calls");
}

#[test]
fn other_architectures_are_killed() {
    let filter = compile(&rules(policy::level(SandboxMode::Relaxed, Kind::Interpreter), WHOLE)).unwrap();
    for number in [0, 1, 20, 59, 102] {
        for architecture in [0x4000_0003, 0x4000_0028, 0xc000_0015, 0, u32::MAX] {
            assert_eq!(run(&filter, &Call { number, architecture, arguments: [0; 6] }), KILL);
        }
        #[cfg(target_arch = "x86_64")]
        for number in [number | 0x4000_0000, number | 0x8000_0000, u32::MAX - 1] {
            assert_eq!(run(&filter, &Call { number, architecture: NATIVE, arguments: [0; 6] }), KILL);
        }
    }
    assert!(filter.len() < 1000, "{} instructions", filter.len());
    println!("{} instructions", filter.len());
}

#[test]
fn without_namespaces_no_socket_reaches_anybody() {
    for level in policy::ALL {
        let filter = compile(&rules(level, REDUCED)).unwrap();
        let answer = |call: i64, arguments: [u64; 6]| {
            run(&filter, &Call { number: call as u32, architecture: NATIVE, arguments })
        };
        for family in 0..64 {
            assert_ne!(answer(libc::SYS_socket, [family, 1, 0, 0, 0, 0]), ALLOW, "{level:?} {family}");
        }
        let unix = libc::AF_UNIX as u64;
        for (kind, may) in [(1, true), (1 | 0o2000000, true), (5, true), (2, false), (2 | 0o4000, false), (3, false)] {
            assert_eq!(answer(libc::SYS_socketpair, [unix, kind, 0, 0, 0, 0]) == ALLOW, may, "{level:?} {kind}");
        }
        assert_ne!(answer(libc::SYS_inotify_init1, [0; 6]), ALLOW, "{level:?}");
    }
}

#[test]
fn every_refusal_is_reported_by_its_rule() {
    let level = policy::level(SandboxMode::Standard, Kind::Interpreter);
    let rules = rules(level, WHOLE);
    let of = |call| rules.iter().filter(move |rule| rule.call == call).map(|rule| rule.answer);
    for (call, name) in [
        ("ptrace", names::TRACE),
        ("mount", names::MOUNT),
        ("bpf", names::KERNEL),
        ("io_uring_setup", names::KERNEL),
        ("setns", names::NAMESPACE),
        ("unshare", names::NAMESPACE),
        ("kexec_load", names::MACHINE),
    ] {
        assert!(of(call).eq([Answer::Report(name, libc::EPERM)]), "{call}");
    }
    assert!(of("execve").eq([Answer::Report(names::EXEC, libc::EACCES)]));
    assert!(of("fork").eq([Answer::Allow]));
}
