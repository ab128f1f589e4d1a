//! The TypeScript types that the web client is built with.

use repltool_protocol::typescript;

use super::beside;

const MODULE: &str = "../web-client/src/protocol.generated.ts";

#[test]
fn the_checked_in_typescript_is_that_of_the_types() {
    let generated = typescript::module();
    if std::env::var_os("REPLTOOL_BLESS").is_some() {
        std::fs::create_dir_all(beside(MODULE).parent().unwrap()).unwrap();
        std::fs::write(beside(MODULE), &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(beside(MODULE)).unwrap_or_default();
    assert!(checked_in == generated, "{MODULE} is stale: run `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`");
}
