//! Times every step: `cargo bench -p repltool-benches --bench micro [-- WORD]`.

use divan::Bencher;
use repltool_benches::{Step, codec, fence, log, screening};

fn main() {
    divan::main();
}

#[divan::bench(name = "codec", min_time = 0.1, args = &codec::STEPS)]
fn time_codec(bencher: Bencher<'_, '_>, step: &Step) {
    time(bencher, step);
}

#[divan::bench(name = "fence", min_time = 0.1, args = &fence::STEPS)]
fn time_fence(bencher: Bencher<'_, '_>, step: &Step) {
    time(bencher, step);
}

#[divan::bench(name = "log", min_time = 0.1, args = &log::STEPS)]
fn time_log(bencher: Bencher<'_, '_>, step: &Step) {
    time(bencher, step);
}

#[divan::bench(name = "screening", min_time = 0.1, args = &screening::STEPS)]
fn time_screening(bencher: Bencher<'_, '_>, step: &Step) {
    time(bencher, step);
}

fn time(bencher: Bencher<'_, '_>, step: &Step) {
    bencher.bench_local((step.make)());
}
