//! TypeScript types of everything that travels, and the constants of the protocol, for the web client.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use ts_rs::{Config, TS, TypeVisitor};

use crate::close::CloseCode;
use crate::event::Event;
use crate::frame::{BEARER_PREFIX, ClientFrame, Notice, SUBPROTOCOL, ServerFrame};
use crate::rest::{MAX_CODE_CHARS, MAX_MESSAGE_BYTES};
use crate::{event, files, query, rest};

/// The module as it is checked in at `web-client/src/protocol.generated.ts`.
pub fn module() -> String {
    let mut module = Module::default();
    module.visit::<ClientFrame>();
    module.visit::<ServerFrame>();
    module.visit::<event::LoggedEvent>();
    module.visit::<rest::SessionConfig>();
    module.visit::<rest::SessionList>();
    module.visit::<rest::ExecutionRequest>();
    module.visit::<rest::ExecutionResult>();
    module.visit::<rest::OneShotRequest>();
    module.visit::<rest::Capabilities>();
    module.visit::<crate::me::Me>();
    module.visit::<rest::History>();
    module.visit::<rest::InterruptRequest>();
    module.visit::<rest::StdinRequest>();
    module.visit::<rest::Problem>();
    module.visit::<query::CodeRequest>();
    module.visit::<files::FileList>();
    HEAD.to_owned() + &module.declarations.into_values().collect::<String>() + &constants()
}

const HEAD: &str = "\
// Generated from the Rust types in protocol/. Do not edit: `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`
// writes it anew.
";

/// Those limits of a session that a request names; the others have their defaults.
#[derive(Debug, TS)]
#[ts(type = "Partial<ResourceLimits>")]
pub struct SomeLimits;

/// Declarations by their names: the order in which types are met differs from one build to the next.
struct Module {
    config: Config,
    met: HashSet<TypeId>,
    declarations: BTreeMap<String, String>,
}

impl Default for Module {
    fn default() -> Self {
        // `JSON.parse` makes numbers of all numbers, and none of ours lies beyond 2^53.
        Self { config: Config::new().with_large_int("number"), met: HashSet::new(), declarations: BTreeMap::new() }
    }
}

impl TypeVisitor for Module {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Numbers, texts and lists have no declaration of their own.
        if T::output_path().is_none() || !self.met.insert(TypeId::of::<T>()) {
            return;
        }
        T::visit_dependencies(self);
        let declaration = format!("\n{}export {}\n", T::docs().unwrap_or_default(), T::decl(&self.config));
        let lines = declaration.lines().map(|line| format!("{}\n", line.trim_end()));
        self.declarations.insert(T::ident(&self.config), lines.collect());
    }
}

fn constants() -> String {
    let mut text = String::new();
    let mut put = |doc: &str, name: &str, value: String| {
        text.push_str(&format!("\n/** {doc} */\nexport const {name} = {value};\n"));
    };
    put("The subprotocol every client must offer.", "SUBPROTOCOL", format!("{SUBPROTOCOL:?}"));
    put(
        "A page puts its token into a second subprotocol that begins so.",
        "BEARER_PREFIX",
        format!("{BEARER_PREFIX:?}"),
    );
    put("The largest message, in bytes.", "MAX_MESSAGE_BYTES", MAX_MESSAGE_BYTES.to_string());
    put("The longest code of one execution, in code points.", "MAX_CODE_CHARS", MAX_CODE_CHARS.to_string());
    put("Every `type` of what a client sends.", "CLIENT_FRAME_TYPES", list(&ClientFrame::TYPES));
    put("Every `type` of an event.", "EVENT_TYPES", list(&Event::TYPES));
    put("Every `type` of a notice.", "NOTICE_TYPES", list(&Notice::TYPES));
    put("Why the server closed a socket, and whether to connect again by oneself.", "CLOSE_CODES", close_codes());
    text.push_str("\n/** A close code of the server. */\nexport type CloseCode = keyof typeof CLOSE_CODES;\n");
    text
}

fn list(names: &[&str]) -> String {
    format!("{names:?} as const")
}

fn close_codes() -> String {
    let mut table = String::from("{\n");
    for code in CloseCode::ALL {
        let _ = writeln!(table, "  {}: {{ name: \"{code:?}\", mayRetry: {} }},", code.code(), code.may_retry());
    }
    table + "} as const"
}
