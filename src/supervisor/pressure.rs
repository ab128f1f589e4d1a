//! Whether the machine has memory to spare for what nobody has asked for yet.

/// Of all memory, as much is left to others: a part in so many.
const LEFT: u64 = 10;
/// Percent of the last ten seconds in which somebody waited for memory.
const STALLED: f64 = 10.0;

/// Whether memory is short, by proc(5): `MemAvailable` is low, or somebody waits for memory (`pressure/memory`). What
/// cannot be read says nothing.
pub(super) fn memory_is_short() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is_low(&read("/proc/meminfo")) || is_stalled(&read("/proc/pressure/memory"))
}

fn is_low(meminfo: &str) -> bool {
    let field = |name| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    matches!((field("MemTotal:"), field("MemAvailable:")), (Some(total), Some(left)) if left < total / LEFT)
}

fn is_stalled(pressure: &str) -> bool {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
    some.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).is_some_and(|share: f64| share > STALLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_and_long_waits_are_found() {
        let meminfo =
            |left: u64| format!("MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    {left} kB\n");
        assert!(is_low(&meminfo(99)) && !is_low(&meminfo(100)) && !is_low(""));
        let pressure = |avg10: &str| format!("some avg10={avg10} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
        assert!(is_stalled(&pressure("10.01")) && !is_stalled(&pressure("10.00")) && !is_stalled(""));
    }
}
