//! What a driver that waited is told of the session that it gets, before all else: left in its socket by the supervisor.

use serde::Serialize;

use crate::supervisor::link::Create;

/// The longest first message: all of it finds room in the socket of a driver that has read nothing yet.
const MAX_BEGIN_BYTES: usize = 60 << 10;

/// What a driver is told before all else, if anything.
#[derive(Serialize)]
struct Begin<'a> {
    t: &'static str,
    /// Where it goes, below `/workspace`.
    directory: &'a str,
    /// `NAME=value`, over what it has.
    environment: Vec<String>,
}

/// The first message to the driver, framed as all of them: empty if there is nothing to tell, none if it would be too long.
pub(super) fn first_message(create: &Create) -> Option<Vec<u8>> {
    if create.environment.is_empty() && create.working_directory.is_none() {
        return Some(Vec::new());
    }
    let environment = create.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let directory = create.working_directory.as_deref().unwrap_or("");
    let payload = serde_json::to_vec(&Begin { t: "begin", directory, environment }).ok()?;
    let frame = [format!("{:08}", payload.len()).into_bytes(), payload].concat();
    Some(frame).filter(|frame| frame.len() <= MAX_BEGIN_BYTES)
}

#[cfg(test)]
mod tests {
    use repltool_protocol::rest::{Language, SandboxMode};

    use super::*;

    fn create(environment: &[(&str, &str)], directory: Option<&str>) -> Create {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Create {
            request: 1,
            session: "0123456789abcdefghijkl".parse().unwrap(),
            language: Language::Python,
            mode: SandboxMode::Standard,
            environment: environment.iter().map(own).collect(),
            working_directory: directory.map(str::to_owned),
            memory_bytes: 1,
            cpu_seconds: 1,
        }
    }

    #[test]
    fn the_first_message_is_what_the_drivers_read() {
        assert_eq!(first_message(&create(&[], None)), Some(Vec::new()));
        let told = first_message(&create(&[("A", "x\"\n")], Some("a/b"))).unwrap();
        let text = r#"00000065{"t":"begin","directory":"a/b","environment":["A=x\"\n"]}"#;
        assert_eq!(String::from_utf8(told).unwrap(), text.replace("00000065", &format!("{:08}", text.len() - 8)));
    }

    #[test]
    fn an_environment_that_is_too_long_for_it_has_none() {
        let long = "\u{1}".repeat(11_000);
        assert_eq!(first_message(&create(&[("A", &long)], None)), None);
    }
}
