//! What the supervisor tells, and whom.

use std::os::fd::BorrowedFd;

use repltool_protocol::rest::{Language, SandboxMode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::sandbox::cgroup::Counter;
use crate::supervisor::link::Counts;

const SANDBOX: SandboxId = SandboxId(7);

/// The supervisor's end, played by the test: makes a sandbox whose descriptors are all the same socket, and tells.
fn play(far: &OwnedFd) {
    let tell = |message: &ToGateway, fds: &[BorrowedFd<'_>]| {
        link::send(far.as_fd(), &link::encode(message).expect("encoded"), fds).expect("sent");
    };
    let session: SessionId = "0123456789abcdefghijkl".parse().expect("an id");
    let counters = vec![Counter::Cpu, Counter::RefusedForks];
    let held = Held { sandbox: SANDBOX, session, deadline_ns: None, counters, begun: Counts::default() };
    tell(&ToGateway::Created { request: 1, held }, &[far.as_fd(); 7]);
    let measured = Measured { sandbox: SANDBOX, cpu_ns: 5, peak_memory_bytes: 6 };
    tell(&ToGateway::Limit { sandbox: SandboxId(8), limit: Limit::Memory }, &[]);
    tell(&ToGateway::Limit { sandbox: SANDBOX, limit: Limit::CpuTime }, &[]);
    tell(&ToGateway::Measured(measured), &[]);
    tell(&ToGateway::Refused { sandbox: SANDBOX, refused: refused() }, &[]);
    tell(&ToGateway::Exited(Exited { sandbox: SANDBOX, ..Exited::default() }), &[]);
}

fn refused() -> Refused {
    Refused { rule: "exec".to_owned(), detail: "execve /usr/bin/id".to_owned(), times: 2 }
}

#[tokio::test]
async fn news_reaches_who_holds_the_sandbox_and_ends_with_it() {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
    let (notices, _kept) = mpsc::channel(1);
    let (handle, serve) = SupervisorHandle::new(link::register(near, Interest::READABLE).expect("registered"), notices);
    let create = Create {
        request: 0,
        session: "0123456789abcdefghijkl".parse().expect("an id"),
        language: Language::Python,
        mode: SandboxMode::Standard,
        environment: Vec::new(),
        working_directory: None,
        memory_bytes: 1,
        cpu_seconds: 1,
    };
    let check = async {
        let (delivered, ()) = tokio::join!(handle.create(create), async { play(&far) });
        let Delivered { fds, exit, mut news, .. } = delivered.expect("made");
        assert!(fds.cpu.is_some() && fds.refused_forks.is_some());
        assert!(fds.memory_peak.is_none() && fds.oom_kills.is_none(), "each by its name");
        assert_eq!(exit.await.expect("told").sandbox, SANDBOX);
        assert_eq!(news.recv().await, Some(News::Limit(Limit::CpuTime)));
        let measured = Measured { sandbox: SANDBOX, cpu_ns: 5, peak_memory_bytes: 6 };
        assert_eq!(news.recv().await, Some(News::Measured(measured)));
        assert_eq!(news.recv().await, Some(News::Refused(refused())));
        assert_eq!(news.recv().await, None);
    };
    tokio::select! {
        error = serve => panic!("{error}"),
        () = check => {}
    }
}
