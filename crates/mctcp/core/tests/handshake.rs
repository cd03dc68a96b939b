//! Failed handshakes, seen from one end.

use base::{Span, Time};
use bytes::Bytes;
use mctcp::frame::{Copy, Dack, Hello, HelloAck, Join, Limits, Priority};
use mctcp::secret::SessionKey;
use mctcp::session::{End, Opening};
use mctcp::{Event, Frame, Output, PathId, Reason, Session, Settings, SubflowId};

const LIMITS: Limits = Limits { subflows: 8, frame: 16_384, idle: 60, resume: 30, proof: false };
const FIRST: SubflowId = SubflowId(0);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn outputs(session: &mut Session<Bytes>) -> Vec<Output<Bytes>> {
    std::iter::from_fn(|| session.poll()).collect()
}

fn key() -> SessionKey {
    SessionKey::derive(b"secret", &[1; 32], &[2; 32])
}

fn hello_ack(key: &SessionKey) -> HelloAck {
    let proof = key.hello_ack_proof();
    HelloAck { nonce: [2; 32], credit: 0, limits: LIMITS, session: 7, proof }
}

fn server(proof: bool) -> Session<Bytes> {
    let target = String::new();
    let hello =
        Hello { nonce: [1; 32], subflow: FIRST, credit: 0, limits: LIMITS, target, token: [0; 16] };
    let ack = hello_ack(&key());
    let mut server = Session::accept(at(0), Settings::default(), &hello, &ack, key(), proof);
    outputs(&mut server);
    server
}

/// A client with two paths.
fn client(target: &str) -> Session<Bytes> {
    let target = target.to_owned();
    let opening = Opening { seed: [1; 32], target, secret: None, proof: false };
    let mut client = Session::connect(Settings::default(), opening);
    (0..2).for_each(|id| client.add_path(at(0), PathId(id), Priority::default()));
    client
}

fn data() -> Frame<Bytes> {
    Frame::Data { dsn: 0, payload: Bytes::from_static(b"early"), copy: Copy::First }
}

fn dack() -> Frame<Bytes> {
    Frame::Dack(Dack { next: 0, credit: 0, path_seq: 0, delay_us: 0, ranges: Vec::new() })
}

fn join() -> Join {
    let priority = Priority::default();
    let (nonce, token) = ([3; 16], key().token(0));
    Join { session: 7, index: 0, subflow: SubflowId(1), priority, nonce, token }
}

#[test]
fn data_after_hello_do_not_confirm_the_session() {
    let mut server = server(false);
    server.on_frame(at(0), FIRST, 1, data());
    assert!(!server.is_confirmed());
    assert_eq!(server.read(at(0)).as_deref(), Some(&b"early"[..]));
    server.on_frame(at(0), FIRST, 2, dack());
    assert!(server.is_confirmed());
}

#[test]
fn delivers_no_data_before_the_proof() {
    let mut server = server(true);
    server.on_frame(at(0), FIRST, 1, data());
    assert!(!outputs(&mut server).contains(&Output::Event(Event::Readable)));
    assert_eq!(server.read(at(0)), None);
    server.on_frame(at(1), FIRST, 2, Frame::Proof(key().hello_proof()));
    assert!(outputs(&mut server).contains(&Output::Event(Event::Readable)));
    assert_eq!(server.read(at(1)).as_deref(), Some(&b"early"[..]));
    // A client repeats it if it cannot know that the first one was received.
    server.on_frame(at(2), FIRST, 3, Frame::Proof(key().hello_proof()));
    assert_eq!(server.failed(), None);
}

#[test]
fn wrong_proof_ends_the_session() {
    let mut server = server(true);
    server.on_frame(at(0), FIRST, 1, Frame::Proof([0; 32]));
    assert_eq!(server.failed(), Some(Reason::Authentication));
    let is_reset = outputs(&mut server).into_iter().any(|output| {
        matches!(output, Output::Send { frame: Frame::Reset { reason, .. }, .. }
            if reason == Reason::Authentication)
    });
    assert!(is_reset);
}

#[test]
fn join_replaces_a_lost_proof() {
    let mut server = server(true);
    server.on_frame(at(0), FIRST, 1, data());
    server.on_end(at(10), FIRST, End::Failed);
    assert!(server.attach(at(20), &join()));
    assert!(server.is_confirmed());
    assert_eq!(server.read(at(20)).as_deref(), Some(&b"early"[..]));
}

#[test]
fn drops_a_session_without_proof() {
    let mut server = server(true);
    let deadline = at(0) + Settings::default().handshake;
    for path_seq in 1.. {
        let wake = server.next_wake().unwrap();
        if wake >= deadline {
            break;
        }
        server.on_wake(wake);
        server.on_frame(wake, FIRST, path_seq, dack());
        outputs(&mut server);
    }
    server.on_wake(deadline);
    assert_eq!(server.failed(), Some(Reason::Authentication));
}

#[test]
fn repeats_hello_on_another_connection_when_the_first_is_lost() {
    let mut client = client("example.org:80");
    client.on_wake(at(250));
    let first = client.connected(at(260), PathId(0)).unwrap();
    let second = client.connected(at(270), PathId(1)).unwrap();
    let is_hello = |output: &Output<Bytes>, id| {
        matches!(output, Output::Send { subflow, path_seq: 0, frame: Frame::Hello(hello) }
            if *subflow == id && hello.subflow == id)
    };
    let sent = outputs(&mut client);
    assert!(sent.iter().any(|output| is_hello(output, first)));
    assert!(!sent.iter().any(|output| is_hello(output, second)));
    client.on_end(at(300), first, End::Failed);
    assert!(outputs(&mut client).iter().any(|output| is_hello(output, second)));
}

#[test]
fn forged_answer_to_join_ends_only_its_connection() {
    let reset = Frame::Reset { reason: Reason::Aborted, text: String::new() };
    let challenge = mctcp::frame::Challenge { nonce: [9; 16], proof: [9; 16] };
    for frame in [reset, data(), Frame::Challenge(challenge), Frame::Refuse(Reason::Limit)] {
        let mut client = client("");
        let first = client.connected(at(10), PathId(0)).unwrap();
        let nonce = outputs(&mut client).into_iter().find_map(|output| match output {
            Output::Send { frame: Frame::Hello(hello), .. } => Some(hello.nonce),
            _ => None,
        });
        let key = SessionKey::derive(&[], &nonce.unwrap(), &[2; 32]);
        client.on_frame(at(20), first, 0, Frame::HelloAck(hello_ack(&key)));
        client.join_now(at(20));
        let joining = client.connected(at(30), PathId(1)).unwrap();
        outputs(&mut client);
        client.on_frame(at(40), joining, 0, frame);
        assert!(client.is_established());
        let closed = outputs(&mut client)
            .into_iter()
            .any(|output| matches!(output, Output::Close { subflow, .. } if subflow == joining));
        assert!(closed);
    }
}
