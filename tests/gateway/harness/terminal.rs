//! A pseudo-terminal with a person before it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::{Child, Command};
use tokio::sync::Notify;

use super::in_time;

/// A command on a terminal of its own.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Shown>,
}

/// What the terminal has shown so far.
#[derive(Default)]
struct Shown {
    text: Mutex<String>,
    more: Notify,
}

impl Terminal {
    /// Starts a command whose three standard streams are a terminal, which is also its controlling one.
    pub fn start(command: &std::process::Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("the terminal is ours");
        unlockpt(&master).expect("the terminal is unlocked");
        let name = ptsname(&master, Vec::new()).expect("the name of the terminal").into_string().expect("text");
        let slave = File::options().read(true).write(true).open(name).expect("the other side");
        let side = || Stdio::from(slave.try_clone().expect("a copy of the other side"));
        // setsid(1) makes the terminal the controlling one, and then becomes the command.
        let mut terminal = Command::new("setsid");
        terminal.arg("--ctty").arg(command.get_program()).args(command.get_args()).env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => terminal.env(name, value),
                None => terminal.env_remove(name),
            };
        }
        terminal.stdin(side()).stdout(side()).stderr(side()).kill_on_drop(true);
        let child = terminal.spawn().expect("the command starts");
        let shown = Arc::new(Shown::default());
        let keys = File::from(master);
        let (reader, answers) = (keys.try_clone().expect("a copy"), keys.try_clone().expect("a copy"));
        let to = Arc::clone(&shown);
        std::thread::spawn(move || watch(reader, answers, &to));
        Self { child, keys, shown }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys reach the terminal");
    }

    /// Types a line, once the terminal shows this.
    pub async fn type_after(&mut self, text: &str, line: &str) {
        self.until(text).await;
        self.press(&format!("{line}\r"));
    }

    /// Waits until the terminal shows a text; what comes up to its end is not looked at again.
    pub async fn until(&mut self, text: &str) -> String {
        let found = async {
            loop {
                let more = self.shown.more.notified();
                if let Some(seen) = take_up_to(&self.shown, text) {
                    return seen;
                }
                more.await;
            }
        };
        match tokio::time::timeout(super::PATIENCE, found).await {
            Ok(seen) => seen,
            Err(_) => panic!("not shown in time: {text:?}, but {:?}", self.rest()),
        }
    }

    /// What was shown and not waited for.
    pub fn rest(&self) -> String {
        self.shown.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Waits for the end of the command; gives its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        in_time("the end of the command", self.child.wait()).await.expect("it can be waited for").code()
    }
}

fn take_up_to(shown: &Shown, text: &str) -> Option<String> {
    let mut all = shown.text.lock().unwrap_or_else(PoisonError::into_inner);
    let end = all.find(text)? + text.len();
    Some(all.drain(..end).collect())
}

/// Reads what is shown, and answers the question where the cursor is, as a terminal does.
fn watch(mut reader: File, mut answers: File, shown: &Shown) {
    let mut chunk = [0; 4096];
    // The other side is closed: EIO.
    while let Ok(length) = reader.read(&mut chunk) {
        let text = String::from_utf8_lossy(&chunk[..length]).into_owned();
        for _ in text.matches("\x1b[6n") {
            let _ = answers.write_all(b"\x1b[1;1R");
        }
        shown.text.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        shown.more.notify_one();
    }
}
