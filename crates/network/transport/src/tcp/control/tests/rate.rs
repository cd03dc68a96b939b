//! Delivery rates, and BBR's filters of them.

use super::super::model::{Aggregation, Rounds, WindowedMax};
use super::*;

const LENGTH: Bytes = Bytes::new(MSS);

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

#[test]
fn the_slower_of_sending_and_acknowledging_counts() {
    // Ten segments sent in 18 ms and acknowledged in 9 ms: the acknowledgements arrived in a burst.
    let mut rate = DeliveryRate::default();
    let marks: Vec<SentMark> =
        (0..10).map(|n| rate.on_sent(at(2 * n), LENGTH, Bytes::new(n * MSS))).collect();
    let mut last = None;
    for n in 0..10 {
        let mut sample = None;
        let mark = &marks[n as usize];
        rate.on_delivered(at(100 + n), LENGTH, at(2 * n), mark, &mut sample);
        rate.finish(Span::from_millis(50), &mut sample);
        last = sample;
    }
    // The whole flight was sent before the first delivery: it is measured from its start.
    let first = last.unwrap();
    assert_eq!((first.delivered, first.interval), (Bytes::new(10 * MSS), Span::from_millis(109)));
    // The second flight, likewise sent 2 ms apart, is acknowledged 1 ms apart.
    let marks: Vec<SentMark> =
        (0..10).map(|n| rate.on_sent(at(110 + 2 * n), LENGTH, Bytes::new((n + 1) * MSS))).collect();
    let mut sample = None;
    for n in 0..10 {
        sample = None;
        let mark = &marks[n as usize];
        rate.on_delivered(at(210 + n), LENGTH, at(110 + 2 * n), mark, &mut sample);
        rate.finish(Span::from_millis(50), &mut sample);
    }
    let second = sample.unwrap();
    assert_eq!(second.interval, Span::from_millis(110));
    assert_eq!(second.rate(), Some(Bandwidth::from_bits_per_sec(10 * MSS * 8 * 1000 / 110)));
    assert_eq!(second.total_delivered, Bytes::new(20 * MSS));
}

#[test]
fn a_sample_shorter_than_the_round_trip_tells_nothing() {
    let mut rate = DeliveryRate::default();
    let mark = rate.on_sent(at(0), LENGTH, Bytes::ZERO);
    let mut sample = None;
    rate.on_delivered(at(10), LENGTH, at(0), &mark, &mut sample);
    rate.finish(Span::from_millis(11), &mut sample);
    assert_eq!(sample.unwrap().rate(), None);
}

#[test]
fn losses_since_a_segment_was_sent_are_counted() {
    let mut rate = DeliveryRate::default();
    let marks: Vec<SentMark> =
        (0..3).map(|n| rate.on_sent(at(n), LENGTH, Bytes::new(n * MSS))).collect();
    assert_eq!(marks[2].in_flight(), Bytes::new(3 * MSS));
    assert_eq!(rate.on_lost(LENGTH, &marks[0]), LENGTH);
    let later = rate.on_sent(at(5), LENGTH, Bytes::new(2 * MSS));
    assert_eq!(rate.on_lost(LENGTH, &marks[1]), Bytes::new(2 * MSS));
    let mut sample = None;
    rate.on_delivered(at(50), LENGTH, at(5), &later, &mut sample);
    rate.finish(Span::ZERO, &mut sample);
    assert_eq!(sample.unwrap().lost, LENGTH, "only what was lost after it was sent");
    assert_eq!((rate.lost(), rate.delivered()), (Bytes::new(2 * MSS), LENGTH));
}

#[test]
fn marks_application_limited_data_until_delivered() {
    let mut rate = DeliveryRate::default();
    let free = rate.on_sent(at(0), LENGTH, Bytes::ZERO);
    rate.mark_app_limited(LENGTH);
    let limited = rate.on_sent(at(1), LENGTH, LENGTH);
    assert!(!free.is_app_limited() && limited.is_app_limited());
    let mut sample = None;
    rate.on_delivered(at(10), LENGTH, at(0), &free, &mut sample);
    rate.finish(Span::ZERO, &mut sample);
    assert!(rate.on_sent(at(11), LENGTH, LENGTH).is_app_limited(), "not delivered beyond it yet");
    rate.on_delivered(at(12), LENGTH, at(1), &limited, &mut sample);
    rate.finish(Span::ZERO, &mut sample);
    assert!(!rate.on_sent(at(13), LENGTH, LENGTH).is_app_limited());
}

#[test]
fn a_maximum_is_forgotten_after_its_periods() {
    let mut max = WindowedMax::<3>::new();
    max.update(1, 5.0);
    max.update(1, 4.0);
    max.update(2, 3.0);
    max.update(3, 2.0);
    assert!((max.get() - 5.0).abs() < 1e-9);
    max.update(4, 1.0);
    assert!((max.get() - 3.0).abs() < 1e-9);
    // Samples never expire without updates, but all old ones expire with the next update.
    max.update(100, 0.5);
    assert!((max.get() - 0.5).abs() < 1e-9);
}

#[test]
fn bunched_acknowledgements_are_told_from_a_higher_rate() {
    let mut aggregation = Aggregation::new();
    let rounds = Rounds::default();
    // 1 MB/s is expected; every 10 ms, 10 kB arrive at once.
    let mut now = at(1_000);
    aggregation.restart(now);
    for _ in 0..50 {
        for _ in 0..10 {
            now += Span::from_nanos(1);
            aggregation.update(now, 1_000.0, 1e6, 1e9, (&rounds, true));
        }
        now += Span::from_millis(10);
    }
    let extra = aggregation.extra();
    assert!((9_000.0..10_001.0).contains(&extra), "{extra}");
}
