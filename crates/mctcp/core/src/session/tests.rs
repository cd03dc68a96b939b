//! A session without connections: effects of single frames.

use base::{Span, Time};

use super::*;
use crate::Counted;
use crate::frame::HelloAck;

fn settings() -> Settings {
    Settings { autotune: false, ..Settings::default() }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

#[test]
fn rejects_a_server_without_the_secret() {
    let secret: &[u8] = b"between us";
    let opening =
        Opening { seed: [1; 32], target: String::new(), secret: Some(secret.into()), proof: true };
    let mut client: Session<Counted> = Session::connect(settings(), opening);
    client.add_path(at(0), PathId(0), Priority::default());
    let subflow = client.connected(at(10), PathId(0)).unwrap();
    let hello = std::iter::from_fn(|| client.poll()).find_map(|output| match output {
        Output::Send { frame: Frame::Hello(hello), .. } => Some(hello),
        _ => None,
    });
    let nonce = [2; 32];
    let key = SessionKey::derive(b"another", &hello.unwrap().nonce, &nonce);
    let limits = settings().limits(true);
    let proof = key.hello_ack_proof();
    let ack = HelloAck { nonce, credit: 1 << 20, limits, session: 7, proof };
    client.on_frame(at(20), subflow, 0, Frame::HelloAck(ack));
    assert_eq!(client.failed(), Some(Reason::Authentication));
}
