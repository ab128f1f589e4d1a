//! The process that calls outside, driven by the two links that it has: what it sends to whom, and what it has given up.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use repltool::config::Log;
use repltool::outbound::link::{Called, Ended, Order, Outcome, ToCaller, WebhookOrder, pack};
use repltool::outbound::{Post, Target};
use repltool::supervisor::link::{self, MAX_PACKET_BYTES, lend};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::harness::names::Names;
use super::harness::site::Site;
use super::harness::{As, assert_root, binary_as, eventually, in_time};

const SECRET: &[u8] = b"a secret of more than twenty-four bytes";

/// The process, and this side of its links. Dropping it ends it.
struct Caller {
    process: Child,
    gateway: OwnedFd,
    supervisor: OwnedFd,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair")
}

impl Caller {
    fn start(order: &Order) -> Self {
        let ((supervisor, far), (gateway, for_caller)) = (pair(), pair());
        let mut command = binary_as(As::Me);
        let process = command.arg("outbound").stdin(Stdio::from(far)).spawn().expect("it starts");
        let memory = lend(&serde_json::to_vec(order).expect("JSON")).expect("memory");
        let start = link::encode(&ToCaller::Start).expect("a packet");
        link::send(supervisor.as_fd(), &start, &[memory.as_fd(), for_caller.as_fd()]).expect("sent");
        Self { process, gateway, supervisor }
    }

    fn post(&self, target: Target, body: &str) {
        let post = Post { target, content_type: "application/json", traceparent: None, body: body.into() };
        link::send(self.gateway.as_fd(), &pack(&post), &[]).expect("sent");
    }

    async fn outcome(&self) -> Outcome {
        let received = || async {
            let received = link::receive::<Outcome>(self.gateway.as_fd(), &mut vec![0; MAX_PACKET_BYTES]);
            received.ok().map(|(outcome, _)| outcome)
        };
        eventually("a call ends", received).await
    }

    fn status(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.expect("a line of this name").to_owned()
    }
}

fn order() -> Order {
    Order {
        keys: None,
        webhook: None,
        traces: None,
        roots: Vec::new(),
        resolv_conf: String::new(),
        hosts: "127.0.0.1 localhost collector.example".to_owned(),
        user: None,
        log: Log::default(),
    }
}

fn webhook(site: &Site) -> Order {
    let url = format!("http://127.0.0.1:{}/hook", site.port);
    Order { webhook: Some(WebhookOrder { url, secret: SECRET.to_vec() }), ..order() }
}

#[tokio::test]
async fn webhooks_are_signed_and_tried_again_until_they_are_taken() {
    let site = Site::new().await;
    site.say_each(&["500 Internal Server Error", "429 Too Many Requests", "204 No Content"]);
    let caller = Caller::start(&webhook(&site));
    caller.post(Target::Webhook, r#"{"type":"test"}"#);
    assert_eq!(caller.outcome().await, Outcome { called: Called::Webhook, ended: Ended::Delivered });
    let asked = site.asked();
    assert_eq!(asked.len(), 3);
    for one in &asked {
        assert!(one.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", one.head);
        assert_eq!((&*one.body, &*one.header("content-type")), (&br#"{"type":"test"}"#[..], "application/json"));
        let (id, at) = (one.header("webhook-id"), one.header("webhook-timestamp"));
        assert_eq!(id, asked[0].header("webhook-id"), "the same message");
        let age = jiff::Timestamp::now().as_second() - at.parse::<i64>().expect("seconds");
        assert!((0..300).contains(&age), "{age}");
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET);
        let text = [format!("{id}.{at}.").as_bytes(), &one.body].concat();
        let signed = STANDARD.decode(one.header("webhook-signature").strip_prefix("v1,").expect("version 1"));
        aws_lc_rs::hmac::verify(&key, &text, &signed.expect("base64")).expect("our signature");
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_refusals_are_final() {
    let (site, elsewhere) = (Site::new().await, Site::new().await);
    elsewhere.say("200 OK", "", "");
    site.say("307 Temporary Redirect", &format!("location: {}\r\n", elsewhere.url()), "");
    let caller = Caller::start(&webhook(&site));
    caller.post(Target::Webhook, "1");
    assert_eq!(caller.outcome().await, Outcome { called: Called::Webhook, ended: Ended::Failed });
    site.say("410 Gone", "", "");
    caller.post(Target::Webhook, "2");
    assert_eq!(caller.outcome().await.ended, Ended::Failed);
    assert_eq!((site.asked().len(), elsewhere.asked().len()), (2, 0), "each is tried once");
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_comes_beyond_is_dropped() {
    let silent = Site::new().await;
    let caller = Caller::start(&Order { traces: Some(silent.url()), ..order() });
    for _ in 0..70 {
        caller.post(Target::Traces, "{}");
    }
    for _ in 0..6 {
        assert_eq!(caller.outcome().await, Outcome { called: Called::Traces, ended: Ended::Dropped });
    }
    eventually("some go out", || async { (!silent.asked().is_empty()).then_some(()) }).await;
    assert!(silent.asked().len() <= 4, "few at once");
}

/// A server for this name, and the certificate that it shows.
async fn with_tls(name: &str) -> (Site, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let site = Site::with(Some(TlsAcceptor::from(Arc::new(config.expect("a certificate"))))).await;
    site.say("200 OK", "", "");
    (site, made.cert.der().to_vec())
}

#[tokio::test]
async fn only_who_shows_a_trusted_certificate_for_its_name_is_told_anything() {
    let (site, certificate) = with_tls("collector.example").await;
    let (_, stranger) = with_tls("collector.example").await;
    for (host, root, ended) in [
        ("collector.example", &certificate, Ended::Delivered),
        ("collector.example", &stranger, Ended::Failed),
        ("localhost", &certificate, Ended::Failed),
        ("nowhere.example", &certificate, Ended::Failed),
    ] {
        let traces = Some(format!("https://{host}:{}/v1/traces", site.port));
        let caller = Caller::start(&Order { traces, roots: vec![root.clone()], ..order() });
        caller.post(Target::Traces, "{}");
        assert_eq!(caller.outcome().await, Outcome { called: Called::Traces, ended }, "{host}");
    }
    assert_eq!(site.asked().len(), 1);
}

#[tokio::test]
async fn names_are_asked_for_in_the_cage_by_udp_and_by_tcp_where_an_answer_is_too_long() {
    assert_root();
    let (site, certificate) = with_tls("collector.test").await;
    for is_long in [false, true] {
        let names = Names::knowing("collector.test", is_long).await;
        for (host, ended) in [("collector.test", Ended::Delivered), ("nowhere.test", Ended::Failed)] {
            let caller = Caller::start(&Order {
                traces: Some(format!("https://{host}:{}/v1/traces", site.port)),
                roots: vec![certificate.clone()],
                resolv_conf: format!("nameserver {}\n", names.address),
                user: Some(0x7000_0001),
                ..order()
            });
            caller.post(Target::Traces, "{}");
            assert_eq!(caller.outcome().await, Outcome { called: Called::Traces, ended }, "{host}, long: {is_long}");
            assert_eq!(caller.status("Seccomp"), "2");
        }
        let (by_udp, by_tcp) = names.asked();
        assert!(by_udp > 0 && (by_tcp > 0) == is_long, "{:?}, long: {is_long}", names.asked());
    }
    assert_eq!(site.asked().len(), 2);
}

#[tokio::test]
async fn the_process_gives_up_all_rights_and_ends_with_its_supervisor() {
    let site = Site::new().await;
    site.say("200 OK", "", "");
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then_some(0x7000_0001);
    let mut caller = Caller::start(&Order { user, ..webhook(&site) });
    caller.post(Target::Webhook, "{}");
    assert_eq!(caller.outcome().await.ended, Ended::Delivered);
    assert_eq!((&*caller.status("NoNewPrivs"), &*caller.status("Seccomp")), ("1", "2"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(caller.status(set), "0000000000000000", "{set}");
    }
    if let Some(user) = user {
        assert_eq!(caller.status("Uid"), [user; 4].map(|it| it.to_string()).join("\t"));
        assert_eq!(caller.status("Groups").trim(), "");
    }
    let (near, _) = pair();
    caller.supervisor = near;
    let ended = tokio::task::spawn_blocking(move || caller.process.wait());
    assert!(in_time("it ends", ended).await.expect("it is waited for").expect("it is a child").success());
}
