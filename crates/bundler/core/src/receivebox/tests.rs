use super::*;
use crate::association::Sent;
use crate::encapsulation::{ADDED_BYTES, HEADER, Header};
use crate::message::Authenticator;
use crate::message::{Body, Message};

fn key() -> Key {
    Key::from_secret("correct horse")
}

fn settings(id: u32) -> Settings {
    Settings { id, key: key(), overhead: Bytes::new(38) }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn sender(id: u32, incarnation: u64) -> Association {
    Association::new(Role::SendBox, id, &key(), incarnation)
}

fn sent(period_log2: u8) -> Sent {
    Sent { period_log2, bytes: 0, packets: 0 }
}

/// Delivers a heartbeat and all its answers.
fn exchange(at: Time, sender: &mut Association, receiver: &mut ReceiveBox, period_log2: u8) {
    receiver.on_message(at, &sender.heartbeat(at, sent(period_log2)));
    while let Some(output) = receiver.poll() {
        let _ = sender.receive(at, &output.payload);
    }
}

/// A receivebox with one bundle, associated with a sendbox, with this period.
fn introduced(period_log2: u8) -> (ReceiveBox, BundleIndex, Association) {
    let (mut receiver, mut sender) = (ReceiveBox::new(20), sender(7, 10));
    let index = receiver.add(at(0), settings(7));
    exchange(at(0), &mut sender, &mut receiver, period_log2);
    exchange(at(0), &mut sender, &mut receiver, period_log2);
    (receiver, index, sender)
}

fn acks(receiver: &mut ReceiveBox) -> Vec<Ack> {
    let authenticator = Authenticator::new(&key());
    let payloads = std::iter::from_fn(|| receiver.poll());
    let bodies = payloads.map(|it| Message::open(&authenticator, &it.payload).unwrap().body);
    bodies.filter_map(|body| if let Body::Ack(ack) = body { Some(ack) } else { None }).collect()
}

#[test]
fn packets_that_end_an_epoch_are_acknowledged_with_the_counters() {
    let (mut receiver, index, _) = introduced(3);
    for digest in 1..=16 {
        receiver.on_packet(at(digest), index, 100, digest);
    }
    let ack = |packets: u64| Ack {
        digest: packets,
        received_at: packets * 1_000_000,
        bytes_received: packets * 138,
        packets_received: packets,
    };
    assert_eq!(acks(&mut receiver), [ack(8), ack(16)]);
    let status = receiver.status(index).unwrap();
    assert_eq!((status.peer, status.period, status.heartbeat), (Some(10), Some(8), Some(at(0))));
    assert_eq!((status.counters.packets, status.counters.acks), (16, 2));
}

#[test]
fn counts_packets_but_sends_no_acks_without_a_sendbox() {
    let mut receiver = ReceiveBox::new(20);
    let index = receiver.add(at(0), settings(7));
    receiver.on_packet(at(0), index, 100, 0);
    assert_eq!(receiver.poll(), None);
    assert_eq!(receiver.next_wake(), None);
    let mut sender = sender(7, 10);
    receiver.on_message(at(1), &sender.heartbeat(at(1), sent(0)));
    let report = receiver.poll().unwrap();
    let Ok(Received::Report { report, .. }) = sender.receive(at(2), &report.payload) else {
        panic!("no report")
    };
    assert_eq!((report.bytes_received, report.packets_received), (138, 1));
    assert_eq!(report.period_log2, None);
}

#[test]
fn stops_acks_without_heartbeats_and_resumes_with_one() {
    let (mut receiver, index, mut sender) = introduced(0);
    exchange(at(10_000), &mut sender, &mut receiver, 0);
    assert_eq!(receiver.next_wake(), Some(at(40_000)));
    receiver.on_packet(at(39_999), index, 100, 0);
    assert_eq!(acks(&mut receiver).len(), 1);
    // Also if the driver is late.
    receiver.on_packet(at(40_000), index, 100, 0);
    assert_eq!(acks(&mut receiver), []);
    receiver.on_wake(at(40_000));
    assert_eq!(receiver.next_wake(), None);
    receiver.on_packet(at(40_001), index, 100, 0);
    let status = receiver.status(index).unwrap();
    assert_eq!((status.period, status.counters.expiries), (None, 1));
    assert_eq!((status.counters.packets, status.counters.acks), (3, 1));
    // They are still associated.
    exchange(at(50_000), &mut sender, &mut receiver, 0);
    receiver.on_packet(at(50_001), index, 100, 0);
    assert_eq!(acks(&mut receiver)[0].packets_received, 4);
}

#[test]
fn accepts_a_replaced_bundle_immediately() {
    let (mut receiver, old, mut sender) = introduced(0);
    for millis in 10..100 {
        exchange(at(millis), &mut sender, &mut receiver, 0);
    }
    let index = receiver.add(at(100), settings(7));
    assert_eq!(receiver.bundles().collect::<Vec<_>>(), [index]);
    assert_eq!(index, old, "its place is used again");
    exchange(at(101), &mut sender, &mut receiver, 0);
    exchange(at(102), &mut sender, &mut receiver, 0);
    receiver.on_packet(at(103), index, 100, 0);
    let output = receiver.poll().unwrap();
    assert!(matches!(sender.receive(at(103), &output.payload), Ok(Received::Ack(_))));
}

#[test]
fn keeps_bundles_separate() {
    let (mut receiver, first, mut one) = introduced(0);
    let second = receiver.add(at(0), settings(8));
    let mut other = sender(8, 11);
    exchange(at(1), &mut other, &mut receiver, 1);
    exchange(at(1), &mut other, &mut receiver, 1);
    receiver.on_packet(at(2), second, 100, 0);
    let output = receiver.poll().unwrap();
    assert_eq!(output.bundle, second);
    assert!(one.receive(at(2), &output.payload).is_err());
    assert!(other.receive(at(2), &output.payload).is_ok());
    assert_eq!(receiver.status(first).unwrap().counters.packets, 0);
    assert_eq!(receiver.bundles().collect::<Vec<_>>(), [first, second]);
    receiver.remove(second);
    assert_eq!((receiver.bundle(8), receiver.status(second)), (None, None));
    assert_eq!(receiver.next_wake(), Some(at(30_000)));
    receiver.on_message(at(3), &other.heartbeat(at(3), sent(0)));
    receiver.on_packet(at(3), second, 100, 0);
    assert_eq!(receiver.poll(), None);
    assert_eq!(receiver.rejections().unknown_bundle, 1);
}

#[test]
fn bounds_outputs_that_are_not_polled() {
    let (mut receiver, index, _) = introduced(0);
    for digest in 0..2 * MAX_OUTPUTS as u64 {
        receiver.on_packet(at(1), index, 100, digest);
    }
    let counters = receiver.status(index).unwrap().counters;
    assert_eq!((counters.acks, counters.dropped), (2 * 4096, 4096));
    assert_eq!(acks(&mut receiver).len(), MAX_OUTPUTS);
}

#[test]
fn counts_rejections_by_reason() {
    let (mut receiver, index, mut sender) = introduced(0);
    let good = sender.heartbeat(at(1), sent(0));
    receiver.on_message(at(1), &good[..good.len() - 1]);
    receiver.on_message(at(1), &good[..5]);
    receiver.on_message(at(1), b"GET / HTTP/1.1");
    receiver.on_message(at(1), &good);
    receiver.on_message(at(1), &good);
    let mut forged = good;
    forged[40] ^= 1;
    receiver.on_message(at(1), &forged);
    let rejections = receiver.status(index).unwrap().counters.rejections;
    assert_eq!((rejections.truncated, rejections.replayed, rejections.bad_tag), (1, 1, 1));
    assert_eq!(rejections.total(), 3);
    assert_eq!((receiver.rejections().truncated, receiver.rejections().malformed), (1, 1));
}

/// A datagram with a packet of `length` bytes, encapsulated for receivebox `receiver`.
fn encapsulated(incarnation: u64, receiver: u64, sequence: u64, length: usize) -> Vec<u8> {
    let header = Header { bundle: 7, incarnation, sequence };
    let envelope = Envelope::new(header, &key(), receiver);
    let mut datagram = vec![0x45; HEADER + length];
    envelope.seal(&mut datagram);
    datagram
}

/// Whether a copy of the datagram is accepted.
fn open(receiver: &mut ReceiveBox, datagram: &[u8]) -> Result<Range<usize>, Rejection> {
    let opened = receiver.on_encapsulated(at(1), &mut datagram.to_vec());
    opened.map(|(_, inner)| inner)
}

#[test]
fn counts_and_acknowledges_each_encapsulated_packet_once() {
    let (mut receiver, index, _) = introduced(0);
    let payload = encapsulated(10, 20, 1, 100);
    assert_eq!(open(&mut receiver, &payload), Ok(HEADER..HEADER + 100));
    assert_eq!(open(&mut receiver, &payload), Err(Rejection::Replayed));
    let [ack] = acks(&mut receiver)[..] else { panic!("not one") };
    assert_eq!(ack.digest, digest::of_sequence(&key().digest(), 10, 1));
    assert_eq!(ack.bytes_received, 100 + u64::from(ADDED_BYTES) + 38);
    assert_eq!(open(&mut receiver, &encapsulated(11, 20, 1, 100)), Err(Rejection::NotAdopted));
    let counters = receiver.status(index).unwrap().counters;
    assert_eq!(counters.packets, 1);
    let rejections = counters.encapsulated_rejections;
    assert_eq!((rejections.replayed, rejections.not_adopted, rejections.total()), (1, 1, 2));
    let mut other = payload;
    other[7] = 9;
    assert_eq!(open(&mut receiver, &other), Err(Rejection::UnknownBundle(9)));
    assert_eq!(receiver.rejections().unknown_bundle, 1);
}

#[test]
fn accepts_none_of_20_packets_recorded_in_a_previous_incarnation() {
    let (mut receiver, index, mut before) = introduced(0);
    let heartbeats: Vec<_> = (0..20).map(|_| before.heartbeat(at(1), sent(0))).collect();
    let packets: Vec<_> = (1..=20).map(|number| encapsulated(10, 20, number, 100)).collect();
    let replay = |receiver: &mut ReceiveBox| {
        let mut accepted = 0;
        for (heartbeat, packet) in heartbeats.iter().zip(&packets) {
            // Replayed heartbeats of the earlier sendbox do not cause its incarnation to
            // be adopted again.
            receiver.on_message(at(2), heartbeat);
            accepted += u32::from(open(receiver, packet).is_ok());
        }
        accepted
    };
    // The sendbox restarts.
    let mut after = sender(7, 11);
    exchange(at(1), &mut after, &mut receiver, 0);
    exchange(at(1), &mut after, &mut receiver, 0);
    assert_eq!(replay(&mut receiver), 0);
    let counters = receiver.status(index).unwrap().counters;
    assert_eq!((counters.encapsulated_rejections.not_adopted, counters.packets), (20, 0));
    // The receivebox restarts: before it has adopted any sendbox, and after.
    let mut restarted = ReceiveBox::new(21);
    restarted.add(at(1), settings(7));
    assert_eq!(replay(&mut restarted), 0);
    exchange(at(2), &mut before, &mut restarted, 0);
    exchange(at(2), &mut before, &mut restarted, 0);
    assert_eq!(restarted.status(index).unwrap().peer, Some(10));
    assert_eq!(replay(&mut restarted), 0);
    assert!(open(&mut restarted, &encapsulated(10, 21, 21, 100)).is_ok());
}

#[test]
fn implements_the_machine_trait() {
    let (mut receiver, bundle, _) = introduced(0);
    receiver.handle(at(1), Input::Packet { bundle, size: 100, digest: 0 });
    receiver.handle(at(1), Input::Message(vec![1, 2, 3]));
    assert!(StateMachine::poll(&mut receiver).is_some());
    assert_eq!(StateMachine::next_wake(&receiver), Some(at(30_000)));
    StateMachine::on_wake(&mut receiver, at(30_000));
    assert_eq!(receiver.status(bundle).unwrap().counters.expiries, 1);
}
