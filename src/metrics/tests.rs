use repltool_protocol::event::{Exception, Limit, Outcome, RawJson, Usage, Violation, ViolationLayer};
use repltool_protocol::rest::{Language, SandboxMode};

use super::labels::OUTCOMES;
use super::standing::{Page, Pooled, Standing, Used};
use super::*;

fn metrics(standing: Option<std::fs::File>) -> Metrics {
    Metrics::new(Facts { tier: "A", max_sessions: 7, max_log_bytes: 9, max_open_files: 11, standing })
}

fn outcome() -> Outcome {
    Outcome {
        id: "e1".parse().unwrap(),
        execution_count: 1,
        success: false,
        result: RawJson::null(),
        result_text: None,
        exception: None,
        exit_code: None,
        limit: None,
        violation: None,
        truncated: false,
        state_lost: false,
        usage: Usage::default(),
        execution_time_ms: 20,
        timestamp: String::new(),
    }
}

fn violation(rule: &str, layer: ViolationLayer) -> Violation {
    Violation { rule: rule.to_owned(), detail: "x".to_owned(), layer }
}

/// Whether a sample is there with this value.
fn assert_sample(text: &str, sample: &str) {
    assert!(text.lines().any(|line| line == sample), "{sample} is missing: {text}");
}

#[test]
fn an_execution_has_one_outcome() {
    let limited = |limit| Outcome { limit: Some(limit), state_lost: true, ..outcome() };
    let named = Exception { name: "success".to_owned(), message: String::new(), traceback: Vec::new() };
    let cases = [
        (Outcome { success: true, ..outcome() }, "success"),
        (
            Outcome { success: true, violation: Some(violation("import", ViolationLayer::Policy)), ..outcome() },
            "success",
        ),
        (Outcome { exception: Some(named), ..outcome() }, "error"),
        (Outcome { violation: Some(violation("exec", ViolationLayer::Kernel)), ..outcome() }, "error"),
        (Outcome { violation: Some(violation("import", ViolationLayer::Policy)), ..outcome() }, "refused"),
        (Outcome { execution_count: 0, ..outcome() }, "cancelled"),
        (Outcome { state_lost: true, ..outcome() }, "state_lost"),
        (limited(Limit::WallTime), "wall_time"),
        (limited(Limit::CpuTime), "cpu_time"),
        (limited(Limit::Memory), "memory"),
        (limited(Limit::Output), "output"),
        (limited(Limit::Processes), "processes"),
    ];
    for (outcome, told) in cases {
        assert_eq!(labels::outcome(&outcome), told);
        assert!(OUTCOMES.contains(&told));
    }
}

#[test]
fn what_is_counted_is_told_by_language_and_level() {
    let metrics = metrics(None);
    let meter = metrics.session(Language::Shell, SandboxMode::Strict);
    meter.created();
    meter.executed(&Outcome { limit: Some(Limit::Memory), ..outcome() });
    meter.executed(&Outcome { execution_count: 0, ..outcome() });
    meter.kept(5);
    meter.violated(&violation("exec", ViolationLayer::Kernel), 3);
    meter.violated(&violation("made up\"}\n", ViolationLayer::Policy), 1);
    metrics.take_stock(&Stock { active: vec![(Language::Bash, SandboxMode::Strict)], log_bytes: 12 });
    let text = metrics.text().unwrap();
    for sample in [
        "repl_sessions_created_total{language=\"bash\",sandbox_mode=\"strict\"} 1",
        "repl_sessions_created_total{language=\"python\",sandbox_mode=\"standard\"} 0",
        "repl_executions_total{language=\"bash\",sandbox_mode=\"strict\",outcome=\"memory\"} 1",
        "repl_executions_total{language=\"bash\",sandbox_mode=\"strict\",outcome=\"cancelled\"} 1",
        "repl_execution_duration_seconds_count{language=\"bash\",sandbox_mode=\"strict\",outcome=\"memory\"} 1",
        "repl_limit_hits_total{language=\"bash\",limit=\"memory\"} 1",
        "repl_output_bytes_total{language=\"bash\"} 5",
        "repl_violations_total{rule=\"exec\",layer=\"kernel\"} 3",
        "repl_violations_total{rule=\"other\",layer=\"policy\"} 1",
        "repl_active_sessions{language=\"bash\",sandbox_mode=\"strict\"} 1",
        "repl_log_bytes 12",
        "repl_sessions_limit 7",
    ] {
        assert_sample(&text, sample);
    }
    assert!(!text.contains("duration_seconds_count{language=\"bash\",sandbox_mode=\"strict\",outcome=\"cancelled\"}"));
    metrics.take_stock(&Stock::default());
    assert_sample(&metrics.text().unwrap(), "repl_active_sessions{language=\"bash\",sandbox_mode=\"strict\"} 0");
}

#[test]
fn availability_counts_what_the_server_accounts_for() {
    let metrics = metrics(None);
    let took = Duration::from_millis(1);
    for (route, status) in [
        ("/api/v1/sessions", 201),
        ("/api/v1/sessions", 503),
        ("/api/v1/sessions", 404),
        ("/api/v1/sessions/{id}/ws", 101),
        ("/healthz", 200),
        ("none", 404),
    ] {
        metrics.answered(route, "GET", status, took);
    }
    let text = metrics.text().unwrap();
    assert_sample(&text, "repl_availability_requests_total 3");
    assert_sample(&text, "repl_availability_good_requests_total 2");
}

#[test]
fn a_socket_is_open_until_it_is_dropped() {
    let metrics = metrics(None);
    let open = [metrics.socket(), metrics.socket()];
    assert_sample(&metrics.text().unwrap(), "repl_sockets_open 2");
    drop(open);
    assert_sample(&metrics.text().unwrap(), "repl_sockets_open 0");
}

#[test]
fn the_page_of_the_supervisor_is_read_whole_or_not_at_all() {
    let page = Page::new().unwrap();
    let reader = std::fs::File::from(page.reader().unwrap());
    assert_eq!(standing::read(&reader), None, "nothing is written yet");
    let used = Used { resident_bytes: 4096, open_files: 12 };
    let waiting = Pooled { ready: 2, hits: 3, misses: 1, refills: 5, refill_us: 1_500_000 };
    let pooled = [Pooled::default(), waiting, Pooled::default()];
    let gateway = Used::default();
    let standing = Standing { gateway_starts: 3, sandboxes: u64::MAX, supervisor: used, gateway, pooled };
    page.write(&standing).unwrap();
    assert_eq!(standing::read(&reader), Some(standing));
    let torn = tempfile::tempfile().unwrap();
    let mut bytes = vec![0; 1024];
    let length = std::os::unix::fs::FileExt::read_at(&reader, &mut bytes, 0).unwrap();
    bytes.truncate(length);
    bytes[19] = b'4';
    std::os::unix::fs::FileExt::write_all_at(&torn, &bytes, 0).unwrap();
    assert_eq!(standing::read(&torn), None);
    assert!(std::os::unix::fs::FileExt::write_at(&reader, b"0", 0).is_err(), "a gateway only reads");

    let metrics = metrics(Some(reader));
    let text = metrics.text().unwrap();
    assert_sample(&text, "repl_gateway_restarts_total 2");
    assert_sample(&text, "repl_process_resident_memory_bytes{process=\"supervisor\"} 4096");
    assert_sample(&text, "repl_process_open_files{process=\"supervisor\"} 12");
    assert_sample(&text, "repl_pool_ready{language=\"javascript\"} 2");
    assert_sample(&text, "repl_pool_misses_total{language=\"javascript\"} 1");
    assert_sample(&text, "repl_pool_refill_seconds_total{language=\"javascript\"} 1.5");
    assert_sample(&metrics.text().unwrap(), "repl_gateway_restarts_total 2");
}

#[test]
fn the_older_format_names_counters_as_their_samples() {
    let text = "# HELP a Says a of a.\n# TYPE a counter\na_total 1\n# HELP b_seconds B.\n# TYPE b_seconds gauge\n\
                # UNIT b_seconds seconds\nb_seconds 2\n# EOF\n";
    let older = "# HELP a_total Says a of a.\n# TYPE a_total counter\na_total 1\n# HELP b_seconds B.\n\
                 # TYPE b_seconds gauge\nb_seconds 2\n";
    assert_eq!(classic::classic(text), older);
}
