//! Frames over a link that loses, duplicates and delays.

use base::{RandomStream, Ratio, Span, Time};
use proptest::prelude::*;

use super::*;

/// Sends `count` numbers over a link that loses and, rarely, reorders frames and acknowledgements;
/// returns the numbers in the order of arrival, and the number of transmissions.
fn transfer(seed: u64, loss: Ratio, jitter: u64, count: u64) -> (Vec<u64>, u64) {
    let mut rng = RandomStream::new(seed, "reliable");
    let mut sender = Sender::new(usize::MAX);
    let mut receiver = Receiver::new();
    let (mut frames, mut acks) = (Vec::new(), Vec::new());
    let (mut out, mut arrived, mut transmissions) = (Vec::new(), Vec::new(), 0);
    let mut now = Time::default();
    for packet in 0..count {
        sender.send(now, packet, &mut out).unwrap();
    }
    while sender.held() > 0 {
        for frame in out.drain(..) {
            transmissions += 1;
            if !rng.chance(loss) {
                let late = 10_000_000 + rng.below(jitter + 1);
                frames.push((now + Span::from_nanos(late), transmissions, frame));
            }
        }
        let frame = frames.iter().copied().min_by_key(|(at, order, _)| (*at, *order));
        let ack = acks.iter().copied().min_by_key(|(at, order, _)| (*at, *order));
        let wake = sender.next_wake();
        let times = [frame.map(|f| f.0), ack.map(|a: (Time, u64, Ack)| a.0), wake];
        now = times.into_iter().flatten().min().expect("a timer runs while anything is held");
        if let Some((at, order, frame)) = frame.filter(|frame| frame.0 == now) {
            frames.retain(|other| other.1 != order);
            let (packet, ack) = receiver.receive(frame);
            arrived.extend(packet);
            if !rng.chance(loss) {
                let late = 10_000_000 + rng.below(jitter + 1);
                acks.push((at + Span::from_nanos(late), order, ack));
            }
        } else if let Some((_, order, ack)) = ack.filter(|ack| ack.0 == now) {
            acks.retain(|other| other.1 != order);
            sender.acknowledge(now, ack, &mut out);
        } else {
            sender.on_wake(now, &mut out);
        }
    }
    (arrived, transmissions)
}

#[test]
fn without_loss_each_frame_is_sent_once() {
    let (arrived, transmissions) = transfer(1, Ratio::ZERO, 0, 1_000);
    assert_eq!(arrived, (0..1_000).collect::<Vec<_>>());
    assert_eq!(transmissions, 1_000);
}

#[test]
fn losses_cost_little_more_than_what_was_lost() {
    let (_, transmissions) = transfer(1, "10 %".parse().unwrap(), 0, 10_000);
    // 1 / 0.9 for lost frames; acknowledgements describe many frames, so their loss
    // costs almost nothing.
    assert!((11_000..11_700).contains(&transmissions), "{transmissions}");
}

#[test]
fn a_full_sender_gives_the_packet_back() {
    let mut sender = Sender::new(2);
    let mut out = Vec::new();
    for packet in 0..Sender::<usize>::WINDOW + 2 {
        sender.send(Time::default(), packet, &mut out).unwrap();
    }
    assert_eq!(sender.send(Time::default(), 99, &mut out), Err(Full(99)));
    assert_eq!(out.len(), Sender::<usize>::WINDOW);
}

#[test]
fn a_dead_link_is_tried_less_and_less_often() {
    let mut sender = Sender::new(0);
    let mut out = Vec::new();
    sender.send(Time::default(), (), &mut out).unwrap();
    let mut waits = Vec::new();
    let mut last = Time::default();
    for _ in 0..8 {
        let at = sender.next_wake().unwrap();
        sender.on_wake(at, &mut out);
        waits.push(at.since(last));
        last = at;
    }
    assert_eq!(out.len(), 9);
    assert!(waits.is_sorted() && waits[7] == Span::from_secs(1), "{waits:?}");
}

#[test]
fn answers_to_frames_that_were_never_sent_do_no_harm() {
    let mut sender = Sender::new(8);
    let mut out = Vec::new();
    sender.send(Time::default(), 1, &mut out).unwrap();
    let wrong = Ack { next: u64::MAX, later: u64::MAX, transmission: u64::MAX };
    sender.acknowledge(Time::from_nanos(1), wrong, &mut out);
    sender.send(Time::from_nanos(2), 2, &mut out).unwrap();
    assert_eq!(out.last().map(|frame| frame.number), Some(1));
}

proptest! {
    #[test]
    fn every_packet_arrives_exactly_once(
        seed: u64,
        loss in 0_u64..600_000_000,
        jitter in prop_oneof![Just(0), 0_u64..30_000_000],
        count in 1_u64..400,
    ) {
        let (mut arrived, _) = transfer(seed, Ratio::from_parts_per_billion(loss), jitter, count);
        arrived.sort_unstable();
        prop_assert_eq!(arrived, (0..count).collect::<Vec<_>>());
    }
}
