use proptest::prelude::*;

use super::*;

const OFFSET: u64 = 7_000_000_000_000;

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

/// One packet of 1,250 B per millisecond: 10 Mbit/s; `delay` in ms and `lost` by packet.
fn run(count: u64, delay: impl Fn(u64) -> u64, lost: impl Fn(u64) -> bool) -> Measure {
    let mut measure = Measure::default();
    let mut acks = Vec::new();
    let mut received = 0;
    for n in 1..=count {
        let mark = Mark {
            digest: n,
            sent_at: at(n),
            bytes: n * 1250,
            packets: n,
            flow: 0,
            limited: n % 2 == 0 || n > 100,
        };
        measure.sent(mark);
        if !lost(n) {
            received += 1;
            let came = at(n + delay(n));
            let arrived = Arrived {
                digest: n,
                received_at: Time::from_nanos(came.as_nanos() + OFFSET),
                bytes: received * 1250,
                packets: received,
            };
            acks.push((at(n + delay(n) + 25), arrived));
        }
    }
    for (at, arrived) in acks {
        measure.acknowledged(at, &arrived);
    }
    measure
}

#[test]
fn path_without_queue() {
    let measure = run(200, |_| 25, |_| false);
    let rates = measure.rates(Span::from_millis(50)).unwrap();
    assert_eq!(rates.send, Bandwidth::from_mbits_per_sec(10));
    assert_eq!(rates.receive, Bandwidth::from_mbits_per_sec(10));
    assert_eq!(rates.lost, Bytes::new(0));
    let delays = measure.delays().unwrap();
    assert_eq!(delays.rtt, Span::from_millis(50));
    assert_eq!(delays.min_rtt, Span::from_millis(50));
    assert_eq!(delays.queueing, Span::ZERO);
    assert_eq!(measure.capacity(), Some(Bandwidth::from_mbits_per_sec(10)));
}

#[test]
fn a_queue_that_grows() {
    // Every packet is delayed 0.5 ms more than the previous one: R = 2/3 S.
    let measure = run(200, |n| 25 + n / 2, |_| false);
    let rates = measure.rates(Span::from_millis(50)).unwrap();
    let receive = rates.receive.bits_per_sec() as f64;
    assert!((receive - 6.667e6).abs() < 0.1e6, "{receive}");
    let queueing = measure.delays().unwrap().queueing;
    assert!(queueing > Span::from_millis(90), "{queueing:?}");
}

/// Jitter of 0 to 7 ms that differs from packet to packet.
fn jitter(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & 7
}

#[test]
fn separates_jitter_from_queue() {
    // Packets stay in order: one is sent every 10 ms.
    let spaced = |delay: &dyn Fn(u64) -> u64| {
        let mut measure = Measure::default();
        for n in 1..=400_u64 {
            let mark = Mark {
                digest: n,
                sent_at: at(10 * n),
                bytes: n * 1250,
                packets: n,
                flow: 0,
                limited: true,
            };
            measure.sent(mark);
            let came = at(10 * n + delay(n));
            let received_at = Time::from_nanos(came.as_nanos() + OFFSET);
            let arrived = Arrived { digest: n, received_at, bytes: n * 1250, packets: n };
            measure.acknowledged(at(10 * n + delay(n) + 25), &arrived);
        }
        measure.delays().unwrap()
    };
    let still = spaced(&|_| 25);
    assert_eq!((still.noise, still.standing), (Span::ZERO, Span::ZERO));
    let noisy = spaced(&|n| 25 + jitter(n));
    let deviation = noisy.noise.as_secs_f64() * 1e3;
    assert!((1.5..3.2).contains(&deviation), "{deviation} ms");
    assert!(noisy.standing < Span::from_millis(2), "{:?}", noisy.standing);
    let queue = spaced(&|n| 25 + jitter(n) + if n > 380 { 20 } else { 0 });
    let standing = queue.standing.as_secs_f64() * 1e3;
    assert!((17.0..23.0).contains(&standing), "{standing} ms");
    // A queue that grows and drains is not jitter.
    let waves = spaced(&|n| 25 + (n % 40).min(39 - n % 40));
    assert!(waves.noise < Span::from_micros(500), "{:?}", waves.noise);
}

#[test]
fn counts_losses_and_keeps_delays() {
    let measure = run(200, |_| 25, |n| n % 10 == 5);
    let rates = measure.rates(Span::from_millis(50)).unwrap();
    assert!(rates.lost.count().abs_diff(5 * 1250) <= 1250, "{:?}", rates.lost);
    assert_eq!(measure.delays().unwrap().queueing, Span::ZERO);
}

#[test]
fn ignores_ambiguous_digests() {
    let mut measure = Measure::default();
    let mark =
        |n| Mark { digest: 9, sent_at: at(n), bytes: n * 100, packets: n, flow: 0, limited: false };
    measure.sent(mark(1));
    measure.sent(mark(2));
    let arrived = Arrived { digest: 9, received_at: at(50), bytes: 100, packets: 1 };
    assert_eq!(measure.acknowledged(at(60), &arrived), Match::Unknown);
}

#[test]
fn counters_restart_with_the_receiver() {
    let mut measure = run(200, |_| 25, |_| false);
    measure.restart();
    assert!(measure.rates(Span::from_millis(50)).is_none());
    assert_eq!(measure.min_rtt(), Some(Span::from_millis(50)));
}

#[test]
fn path_change_resets_the_base_delay() {
    let mut measure = run(400, |n| if n < 200 { 25 } else { 65 }, |_| false);
    assert_eq!(measure.delays().unwrap().queueing, Span::from_millis(40));
    measure.rebase(at(500));
    assert_eq!(measure.delays().unwrap().queueing, Span::ZERO);
    assert_eq!(measure.min_rtt(), Some(Span::from_millis(90)));
}

proptest! {
    /// Wrong, duplicate or reordered acknowledgements give bounded measurements.
    #[test]
    fn any_acknowledgements(
        acks in prop::collection::vec((0_u64..60, any::<u64>(), any::<u64>()), 0..200),
    ) {
        let mut measure = Measure::default();
        for n in 0..60 {
            let (bytes, packets) = (n, n);
            let sent_at = at(n);
            measure.sent(Mark { digest: n, sent_at, bytes, packets, flow: 0, limited: true });
        }
        for (index, (digest, received, bytes)) in acks.into_iter().enumerate() {
            let received_at = Time::from_nanos(received);
            let arrived = Arrived { digest, received_at, bytes, packets: 0 };
            let now = at(100 + index as u64);
            measure.acknowledged(now, &arrived);
            let _ = (measure.rates(Span::from_millis(20)), measure.delays(), measure.capacity());
            measure.rebase(now);
        }
    }
}
