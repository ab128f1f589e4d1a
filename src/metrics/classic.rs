//! The text format of Prometheus from before OpenMetrics, for those who ask for no other.

/// The same samples in the older format, in which a counter is called as its samples are, and there are no units.
pub(super) fn classic(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    let is_counter = |line: &&str| line.starts_with("# TYPE ") && line.ends_with(" counter");
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        // The line on the type follows that with the help.
        let of_counter = is_counter(&line) || (line.starts_with("# HELP ") && lines.peek().is_some_and(is_counter));
        match line.split(' ').nth(2).filter(|_| of_counter) {
            Some(name) => out += &line.replacen(name, &format!("{name}_total"), 1),
            None => out += line,
        }
        out.push('\n');
    }
    out
}
