//! The web page is part of the binary: without it there is nothing to build.

fn main() {
    const DIST: &str = "web-client/dist";
    println!("cargo::rerun-if-changed={DIST}");
    if !std::path::Path::new(DIST).join("index.html").is_file() {
        println!("cargo::error={DIST}/index.html is missing: `make web` builds the page, and `make build` does all");
    }
}
