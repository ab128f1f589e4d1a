//! Installs the tracing subscriber; emits nothing itself.
//!
//! Lines go to standard error, one write for each. Whatever a client put into a value, a line stays one line: control
//! characters are written as `\u001b`. There are no colours, since those could not be told from a client's. The level can
//! change while the process runs.

use std::io::{self, Write};
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, Layered, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::{Log, LogFormat, LogLevel};

/// What is heard, once there is a subscriber.
static FILTER: OnceLock<reload::Handle<Targets, Beneath>> = OnceLock::new();

/// Installs the subscriber for the whole process.
///
/// # Errors
/// If there is one already.
pub fn init(settings: &Log) -> Result<(), TryInitError> {
    init_beside(None, settings)
}

/// [`init`], beside a layer that takes what it takes whatever the level of the log is.
///
/// # Errors
/// As [`init`].
pub fn init_beside(layer: Option<OtherLayer>, settings: &Log) -> Result<(), TryInitError> {
    let (filter, handle) = reload::Layer::new(filter(settings.level));
    subscriber(layer, settings, filter, io::stderr).try_init()?;
    let _ = FILTER.set(handle);
    Ok(())
}

/// Has this process tell of more, or of less, from now on. Nothing happens before [`init`].
pub fn set_level(level: LogLevel) {
    if let Some(handle) = FILTER.get() {
        // It fails without a subscriber alone, and that one is there for as long as the process.
        let _ = handle.reload(filter(level));
    }
}

/// A layer that writes no lines.
pub type OtherLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What is beneath the layer that writes lines.
type Beneath = Layered<Option<OtherLayer>, Registry>;

fn subscriber<F, W>(
    other: Option<OtherLayer>,
    settings: &Log,
    filter: F,
    writer: W,
) -> impl Subscriber + Send + Sync + use<F, W>
where
    F: Filter<Beneath> + Send + Sync + 'static,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(OneLine(writer));
    let layer = match settings.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(other).with(layer.with_filter(filter))
}

/// Other crates may tell of what they carry, which can be user code or a token: they are heard from `warn` up only.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target(env!("CARGO_CRATE_NAME"), level)
}

/// Escapes the control characters of each write but a line break at its end. The formatter gives a line in one write.
struct OneLine<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mut clean = String::with_capacity(text.len() + 1);
        for character in text.chars() {
            if character.is_control() {
                clean.push_str(&format!("\\u{:04x}", u32::from(character)));
            } else {
                clean.push(character);
            }
        }
        clean.push('\n');
        self.0.write_all(clean.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: LogLevel, format: LogFormat, emit: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let written = buffer.clone();
        let subscriber = subscriber(None, &Log { level, format }, filter(level), move || buffer.clone());
        tracing::subscriber::with_default(subscriber, emit);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn values_of_clients_break_no_line() {
        let error = io::Error::other("disk\nforged");
        let emit = || {
            let span = tracing::info_span!("session", id = %"x\nforged");
            span.in_scope(|| {
                tracing::info!(path = %"/a\r\n{\"event\":\"login\"}\u{1b}[2J\u{9b}", error = &error as &dyn std::error::Error, "said\nso");
            });
        };
        let text = logged(LogLevel::Info, LogFormat::Text, emit);
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.ends_with('\n') && text.contains("\\u001b[2J\\u009b") && text.contains("said\\u000aso"), "{text}");
        let text = logged(LogLevel::Info, LogFormat::Json, emit);
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "said\nso");
        assert!(line["path"].as_str().unwrap().starts_with("/a\r\n{\"event\""));
    }

    #[test]
    fn other_crates_are_heard_from_warn_up() {
        let emit = || {
            tracing::debug!(target: "hyper::proto", "body");
            tracing::info!(target: "hyper::proto", "body");
            tracing::warn!(target: "hyper::proto", "loud");
            tracing::debug!("ours");
            tracing::trace!("quiet");
        };
        let text = logged(LogLevel::Debug, LogFormat::Text, emit);
        assert!(!text.contains("body") && !text.contains("quiet"), "{text}");
        assert!(text.contains("loud") && text.contains("ours"), "{text}");
        let text = logged(LogLevel::Error, LogFormat::Text, emit);
        assert_eq!(text, "");
    }
}
