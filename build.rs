//! The web page is part of the binary: without it there is nothing to build. So is the native half of the zygote, a library
//! for Python that the C compiler makes.

use std::path::{Path, PathBuf};

fn main() {
    const DIST: &str = "web-client/dist";
    println!("cargo::rerun-if-changed={DIST}");
    if !Path::new(DIST).join("index.html").is_file() {
        println!("cargo::error={DIST}/index.html is missing: `make web` builds the page, and `make build` does all");
    }
    native();
}

fn native() {
    const SOURCE: &str = "src/sandbox/zygote/native.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("native.so");
    let compiler = cc::Build::new().opt_level(2).debug(false).std("gnu11").warnings(true).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,relro,-z,now", "-s", "-o"]).arg(&out).arg(SOURCE);
    match command.status() {
        Ok(status) if status.success() => {}
        outcome => println!("cargo::error={SOURCE} cannot be compiled by {command:?}: {outcome:?}"),
    }
}
