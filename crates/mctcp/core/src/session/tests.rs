//! A session without connections: effects of single frames.

use base::{Span, Time};

use super::subflow::State;
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
    let secret: &[u8] = b"secret";
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

/// A client with a main subflow and a backup, which have carried nothing so far.
fn with_backup() -> Session<Counted> {
    let opening = Opening { seed: [1; 32], target: String::new(), secret: None, proof: false };
    let mut client = Session::connect(settings(), opening);
    client.phase = Phase::Established;
    client.outgoing.raise_credit(1 << 30);
    for (id, backup) in [(MAIN, false), (BACKUP, true)] {
        let mut subflow = Subflow::new(id, None, 1 << id.0, at(0));
        subflow.state = State::Active;
        subflow.priority.backup = backup;
        client.subflows.push(subflow);
    }
    client
}

const MAIN: SubflowId = SubflowId(0);
const BACKUP: SubflowId = SubflowId(1);

/// Reports room on both subflows and returns the ones that carry data then.
fn carriers(client: &mut Session<Counted>, now: Time) -> Vec<SubflowId> {
    assert!(client.write(now, Counted(100_000)).is_none());
    for id in [MAIN, BACKUP] {
        client.set_room(now, id, Bytes::new(32 << 10));
    }
    let data = |output| match output {
        Output::Send { subflow, frame: Frame::Data { .. }, .. } => Some(subflow),
        _ => None,
    };
    let mut carriers: Vec<_> = std::iter::from_fn(|| client.poll()).filter_map(data).collect();
    carriers.dedup();
    carriers
}

/// After an outage, new data on the main path would wait until TCP has retransmitted what was lost.
#[test]
fn backup_carries_data_until_tcp_has_retransmitted_on_the_returned_path() {
    let tcp = |acked, in_flight| PathInfo {
        srtt: Some(Span::from_millis(20)),
        acked: Bytes::new(acked),
        in_flight: Bytes::new(in_flight),
        ..PathInfo::default()
    };
    let mut client = with_backup();
    assert_eq!(carriers(&mut client, at(0)), [MAIN]);
    client.on_path_info(at(10), MAIN, tcp(0, 20_000));
    client.on_path_info(at(210), MAIN, tcp(0, 20_000));
    assert_eq!(carriers(&mut client, at(210)), [BACKUP], "no progress for 200 ms");
    client.on_path_info(at(300), MAIN, tcp(10_000, 30_000));
    assert_eq!(carriers(&mut client, at(300)), [BACKUP], "TCP has retransmitted a half");
    client.on_path_info(at(320), MAIN, tcp(20_000, 20_000));
    assert_eq!(carriers(&mut client, at(320)), [MAIN]);

    let mut client = with_backup();
    assert_eq!(carriers(&mut client, at(0)), [MAIN]);
    client.on_path_info(at(10), MAIN, tcp(0, 20_000));
    client.on_path_info(at(210), MAIN, tcp(0, 20_000));
    client.on_end(at(220), BACKUP, End::Failed);
    client.on_path_info(at(300), MAIN, tcp(10_000, 30_000));
    assert_eq!(carriers(&mut client, at(300)), [MAIN], "no other subflow is active");
}
