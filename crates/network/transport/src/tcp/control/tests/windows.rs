//! The windows of Reno and CUBIC compared with values computed by hand.

use proptest::prelude::*;

use super::path::Path;
use super::*;

const RTT: Span = Span::from_millis(100);

fn cwnd(control: &impl CongestionControl) -> u64 {
    control.cwnd().count()
}

/// A round trip in which the whole window is sent and acknowledged two segments at a time.
struct Rounds {
    rtt: Span,
    /// Packets that each acknowledgement reports as marked.
    marked: u32,
    now: Time,
    delivered: u64,
    /// Bytes delivered when this round's first segment was sent.
    prior: u64,
}

impl Rounds {
    fn new() -> Self {
        Self { rtt: RTT, marked: 0, now: Time::ZERO, delivered: 0, prior: 0 }
    }

    fn ack(&mut self, control: &mut impl CongestionControl, bytes: u64, flight: u64) {
        self.delivered += bytes;
        let mut rate = None;
        let mut estimate = DeliveryRate::default();
        let mark = estimate.on_sent(Time::ZERO, Bytes::new(MSS), Bytes::ZERO);
        estimate.on_delivered(self.now, Bytes::new(bytes), Time::ZERO, &mark, &mut rate);
        if let Some(rate) = &mut rate {
            rate.prior_delivered = Bytes::new(self.prior);
            rate.total_delivered = Bytes::new(self.delivered);
        }
        let in_flight = Bytes::new(flight.saturating_sub(bytes));
        control.on_ack(&AckSample {
            now: self.now,
            acked: Bytes::new(bytes),
            delivered: Bytes::new(bytes),
            lost: Bytes::ZERO,
            rtt: Some(self.rtt),
            srtt: Some(self.rtt),
            prior_in_flight: Bytes::new(flight),
            in_flight,
            segments: (bytes / MSS) as u32,
            marked: self.marked,
            rate,
        });
    }

    fn round(&mut self, control: &mut impl CongestionControl) {
        let window = cwnd(control) / MSS * MSS;
        self.prior = self.delivered;
        let (now, length) = (self.now, Bytes::new(MSS));
        control.on_sent(&Sent { now, length, in_flight: Bytes::new(window) });
        let mut left = window;
        while left > 0 {
            let bytes = left.min(2 * MSS);
            self.now += Span::from_nanos(self.rtt.as_nanos() * bytes / window);
            self.ack(control, bytes, window);
            control.on_sent(&Sent { now: self.now, length, in_flight: control.cwnd() });
            left -= bytes;
        }
    }

    /// A loss that is repaired within a round trip.
    fn lose(&mut self, control: &mut impl CongestionControl) {
        control.enter_recovery(self.now, Cause::Loss, control.cwnd());
        self.now += RTT;
        control.exit_recovery(self.now);
    }
}

#[test]
fn slow_start_doubles_despite_delayed_acknowledgements() {
    let mut reno = Reno::new(&setup());
    let mut rounds = Rounds::new();
    for expected in [20, 40, 80] {
        rounds.round(&mut reno);
        assert_eq!(cwnd(&reno), expected * MSS);
    }
    assert_eq!(reno.ssthresh(), Bytes::MAX);
}

#[test]
fn reno_adds_a_segment_a_round_and_halves() {
    let mut reno = Reno::new(&setup());
    let mut rounds = Rounds::new();
    rounds.round(&mut reno);
    rounds.lose(&mut reno);
    assert_eq!((cwnd(&reno), reno.ssthresh()), (10 * MSS, Bytes::new(10 * MSS)));
    for expected in 11..=30 {
        rounds.round(&mut reno);
        assert_eq!(cwnd(&reno), expected * MSS);
    }
    reno.on_timeout(rounds.now, reno.cwnd());
    assert_eq!((cwnd(&reno), reno.ssthresh()), (MSS, Bytes::new(15 * MSS)));
    reno.on_timeout(rounds.now, reno.cwnd());
    assert_eq!(reno.ssthresh(), Bytes::new(15 * MSS), "one window of data, one reduction");
    reno.undo(rounds.now);
    assert_eq!(cwnd(&reno), 30 * MSS);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for control in [Control::Reno, Control::Cubic] {
        let mut control = Controller::new(control, &setup());
        let mut rounds = Rounds::new();
        // Four of ten segments in flight: twice this number is below the window.
        for _ in 0..20 {
            let (now, length) = (rounds.now, Bytes::new(MSS));
            control.on_sent(&Sent { now, length, in_flight: Bytes::new(4 * MSS) });
            rounds.prior = rounds.delivered;
            rounds.now += RTT;
            rounds.ack(&mut control, 4 * MSS, 4 * MSS);
        }
        assert_eq!(cwnd(&control), 10 * MSS);
    }
}

#[test]
fn idleness_halves_the_window_down_to_the_initial_one() {
    let mut reno = Reno::new(&setup());
    let mut rounds = Rounds::new();
    (0..3).for_each(|_| rounds.round(&mut reno));
    let rto = Span::from_millis(300);
    reno.on_restart(rounds.now, Span::from_millis(299), rto);
    assert_eq!(cwnd(&reno), 80 * MSS);
    reno.on_restart(rounds.now, Span::from_millis(600), rto);
    assert_eq!(cwnd(&reno), 20 * MSS);
    reno.on_restart(rounds.now, Span::from_secs(600), rto);
    assert_eq!(cwnd(&reno), 10 * MSS);
}

#[test]
fn a_mark_costs_less_with_alternative_backoff() {
    let after = |control, abe| {
        let mut control = Controller::new(control, &Setup { initial_window: 100, abe, ..setup() });
        control.enter_recovery(Time::ZERO, Cause::Mark, control.cwnd());
        control.enter_recovery(Time::ZERO, Cause::Loss, control.cwnd());
        control.ssthresh().count() / MSS
    };
    assert_eq!(after(Control::Reno, false), 50);
    assert_eq!(after(Control::Reno, true), 80);
    assert_eq!(after(Control::Cubic, false), 70);
    assert_eq!(after(Control::Cubic, true), 85);
}

#[test]
fn the_rate_is_reduced_in_proportion() {
    let mut reno = Reno::new(&Setup { initial_window: 100, ..setup() });
    let mut rounds = Rounds::new();
    let mut flight = 100 * MSS;
    reno.enter_recovery(rounds.now, Cause::Loss, Bytes::new(flight));
    let mut sent = 0;
    for _ in 0..98 {
        rounds.ack(&mut reno, MSS, flight);
        flight -= MSS;
        while flight + MSS <= cwnd(&reno) {
            flight += MSS;
            sent += 1;
            let (now, length) = (rounds.now, Bytes::new(MSS));
            reno.on_sent(&Sent { now, length, in_flight: Bytes::new(flight) });
        }
    }
    // One segment for every two delivered, so that half of the flight remains at the end.
    assert_eq!((sent, flight / MSS), (48, 50));
    reno.exit_recovery(rounds.now);
    assert_eq!(cwnd(&reno), 50 * MSS);
}

/// CUBIC with a plateau at 1000 segments, just reduced to 700.
fn reduced_cubic() -> (Cubic, Rounds) {
    let mut cubic = Cubic::new(&Setup { initial_window: 1_000, ..setup() });
    let mut rounds = Rounds::new();
    rounds.lose(&mut cubic);
    assert_eq!(cwnd(&cubic), 700 * MSS);
    (cubic, rounds)
}

#[test]
fn cubic_reaches_its_plateau_after_k() {
    let (mut cubic, mut rounds) = reduced_cubic();
    let start = rounds.now;
    // K = cbrt(300 / 0.4) = 9.0856 s. W(t) = 0.4 (t - K)^3 + 1000, and the window follows
    // W(t + RTT) with the lag of a round trip.
    let mut seen = Vec::new();
    while rounds.now.since(start) < Span::from_millis(14_000) {
        rounds.round(&mut cubic);
        let t = rounds.now.since(start).as_secs_f64();
        let exact = 0.4 * (t - 9.0856_f64).powi(3) + 1_000.0;
        let segments = cwnd(&cubic) as f64 / MSS as f64;
        seen.push((t, segments, exact));
    }
    for (t, segments, exact) in seen {
        assert!((segments - exact).abs() < 6.0, "{t}: {segments} {exact}");
    }
}

#[test]
fn cubic_grows_at_least_as_reno() {
    // With a small window, W_est = 0.7 W + 0.53 t / RTT is above the cubic function for long.
    let mut cubic = Cubic::new(&setup());
    let mut rounds = Rounds::new();
    rounds.lose(&mut cubic);
    assert_eq!(cwnd(&cubic), 7 * MSS);
    let alpha = 3.0 * 0.3 / 1.7;
    for n in 1..=5 {
        rounds.round(&mut cubic);
        let expected = 7.0 + alpha * f64::from(n);
        let segments = cwnd(&cubic) as f64 / MSS as f64;
        assert!((segments - expected).abs() < 0.25, "{n}: {segments} {expected}");
    }
    // Above the former window it adds a whole segment per round.
    while cwnd(&cubic) < 11 * MSS {
        rounds.round(&mut cubic);
    }
    let before = cwnd(&cubic);
    rounds.round(&mut cubic);
    assert!(cwnd(&cubic) - before > 900, "{}", cwnd(&cubic) - before);
}

#[test]
fn cubic_converges_fast_when_it_lost_early() {
    let (mut cubic, mut rounds) = reduced_cubic();
    rounds.round(&mut cubic);
    rounds.round(&mut cubic);
    let before = cwnd(&cubic) as f64;
    assert!(before < 1_000.0 * MSS as f64);
    rounds.lose(&mut cubic);
    // The plateau is at 0.85 of the window: K = cbrt(0.15 W / 0.4), against cbrt(0.3 W / 0.4).
    let start = rounds.now;
    let k = (0.15 * before / MSS as f64 / 0.4).cbrt();
    while rounds.now.since(start).as_secs_f64() < k {
        rounds.round(&mut cubic);
    }
    let reached = cwnd(&cubic) as f64;
    assert!((reached / before - 0.85).abs() < 0.01, "{}", reached / before);
}

#[test]
fn cubic_takes_a_reduction_back() {
    let (mut cubic, mut rounds) = reduced_cubic();
    (0..20).for_each(|_| rounds.round(&mut cubic));
    let mut other = cubic.clone();
    other.enter_recovery(rounds.now, Cause::Loss, other.cwnd());
    other.undo(rounds.now);
    assert_eq!(other.cwnd(), cubic.cwnd());
    let mut again = Rounds { ..rounds };
    (0..20).for_each(|_| rounds.round(&mut cubic));
    (0..20).for_each(|_| again.round(&mut other));
    assert_eq!(other.cwnd(), cubic.cwnd());
}

#[test]
fn a_timeout_starts_cubic_anew() {
    let (mut cubic, mut rounds) = reduced_cubic();
    cubic.on_timeout(rounds.now, cubic.cwnd());
    assert_eq!((cwnd(&cubic), cubic.ssthresh()), (MSS, Bytes::new(490 * MSS)));
    cubic.exit_recovery(rounds.now);
    while cubic.cwnd() < cubic.ssthresh() {
        rounds.round(&mut cubic);
    }
    // K is zero: 0.4 t^3 above the end of slow start.
    let (start, from) = (rounds.now, cwnd(&cubic));
    while rounds.now.since(start) < Span::from_secs(5) {
        rounds.round(&mut cubic);
    }
    let grown = (cwnd(&cubic) - from) / MSS;
    assert!((46..=54).contains(&grown), "{grown}");
}

#[test]
fn hystart_leaves_slow_start_before_losses() {
    let rate = Bandwidth::from_mbits_per_sec(80);
    let buffer = 10_000_000;
    let mut plain = Path::new(Reno::new(&setup()), rate, RTT, buffer);
    let mut gentle = Path::new(Cubic::new(&setup()), rate, RTT, buffer);
    let hystart = Setup { hystart: true, ..setup() };
    let mut gentle_reno = Path::new(Reno::new(&hystart), rate, RTT, buffer);
    let span = Span::from_secs(8);
    plain.run(span, |_| ());
    gentle.run(span, |_| ());
    gentle_reno.run(span, |_| ());
    assert!(plain.lost > 0, "Reno overshoots");
    for (lost, queue, ssthresh) in [
        (gentle.lost, gentle.worst_queue, gentle.control.ssthresh()),
        (gentle_reno.lost, gentle_reno.worst_queue, gentle_reno.control.ssthresh()),
    ] {
        assert_eq!(lost, 0);
        assert!(queue < 7_500_000, "{queue}");
        assert!((2_000_000..8_500_000).contains(&ssthresh.count()), "{ssthresh}");
    }
}

#[test]
fn hystart_resumes_when_the_delay_was_a_jitter() {
    use super::super::hystart::{HyStart, Verdict};
    let mut hystart = HyStart::new();
    let ms = |ms| Some(Span::from_millis(ms));
    let mut round = |rtt, acks: u32| {
        let mut verdict = |n| hystart.on_ack(n == 0, ms(rtt), 1_000, 1_000);
        (0..acks).fold(None, |_, n| Some(verdict(n)))
    };
    assert_eq!(round(40, 10), Some(Verdict::Grow(1_000)));
    assert_eq!(round(44, 10), Some(Verdict::Grow(1_000)), "5 ms would be needed");
    assert_eq!(round(50, 8), Some(Verdict::Grow(250)), "conservative from the eighth sample on");
    assert_eq!(round(49, 7), Some(Verdict::Grow(250)));
    assert_eq!(round(49, 8), Some(Verdict::Grow(1_000)), "shorter than the baseline");
    assert_eq!(round(80, 8), Some(Verdict::Grow(250)));
    for _ in 0..4 {
        assert_eq!(round(80, 8), Some(Verdict::Grow(250)));
    }
    assert_eq!(round(80, 1), Some(Verdict::Leave), "after five conservative rounds");
}

#[test]
fn loss_based_controls_fill_the_bottleneck() {
    for control in [Control::Reno, Control::Cubic] {
        let rate = Bandwidth::from_mbits_per_sec(20);
        let rtt = Span::from_millis(40);
        let bdp = rate.bytes_in(rtt).count();
        let mut path = Path::new(Controller::new(control, &setup()), rate, rtt, bdp);
        path.run(Span::from_secs(5), |_| ());
        let before = path.delivered;
        path.run(Span::from_secs(20), |_| ());
        let share =
            (path.delivered - before) as f64 / rate.bytes_in(Span::from_secs(20)).count() as f64;
        assert!(share > 0.985, "{control}: {share}");
        assert!(path.worst_queue + 2 * MSS > bdp, "{control} fills the buffer");
    }
}

proptest! {
    #[test]
    fn any_history_leaves_a_window(
        which in 0..Control::ALL.len(),
        steps in prop::collection::vec((0..9, 0u64..3_000_000, 0u64..2_000), 1..200),
    ) {
        let mut control = Controller::new(Control::ALL[which], &setup());
        let mut rounds = Rounds::new();
        for (step, bytes, millis) in steps {
            rounds.now += Span::from_millis(millis);
            let (now, flight) = (rounds.now, Bytes::new(bytes));
            match step {
                0 => control.enter_recovery(now, Cause::Loss, flight),
                1 => control.enter_recovery(now, Cause::Mark, flight),
                2 => control.exit_recovery(now),
                3 => control.on_timeout(now, flight),
                4 => control.undo(now),
                5 => control.on_restart(now, Span::from_millis(millis), Span::from_millis(200)),
                6 => control.on_lost(&LostSegment {
                    now,
                    length: Bytes::new(MSS),
                    sent_in_flight: flight,
                    lost: flight,
                    app_limited: millis % 2 == 0,
                }),
                7 => rounds.ack(&mut control, bytes.min(u64::from(u32::MAX)), bytes * 2),
                _ => if cwnd(&control) < 100_000_000 { rounds.round(&mut control) },
            }
            prop_assert!(cwnd(&control) >= MSS && cwnd(&control) <= 1 << 30, "{control:?}");
            prop_assert!(control.ssthresh().count() >= 2 * MSS);
            prop_assert!(control.pacing_rate().is_none_or(Bandwidth::is_positive));
        }
    }
}

/// α is (15/16)ⁿ after n round trips without a mark, and a mark takes half of it.
#[test]
fn dctcp_reduces_by_half_of_the_share_of_marks() {
    let mut dctcp = Scalable::dctcp(&setup());
    let mut rounds = Rounds::new();
    dctcp.enter_recovery(rounds.now, Cause::Mark, dctcp.cwnd());
    dctcp.exit_recovery(rounds.now);
    // The first mark halves the window and ends slow start.
    assert_eq!(cwnd(&dctcp), 5 * MSS);
    (0..16).for_each(|_| rounds.round(&mut dctcp));
    let window = cwnd(&dctcp);
    dctcp.enter_recovery(rounds.now, Cause::Mark, dctcp.cwnd());
    let expected = window as f64 * (1.0 - (15.0_f64 / 16.0).powi(16) / 2.0);
    assert!((dctcp.ssthresh().count() as f64 - expected).abs() < 2.0, "{expected}");
    // A loss within the response halves the window.
    let lost = LostSegment {
        now: rounds.now,
        length: Bytes::new(MSS),
        sent_in_flight: Bytes::new(window),
        lost: Bytes::new(MSS),
        app_limited: false,
    };
    dctcp.on_lost(&lost);
    assert_eq!(dctcp.ssthresh().count(), window / 2);
}

/// At 5 ms, a fifth of 25 ms, the window grows by a 25th of a segment per round trip.
#[test]
fn prague_grows_on_short_paths_as_on_one_of_25_ms() {
    for (millis, rounds_per_segment) in [(5, 25), (25, 1), (100, 1)] {
        let mut prague = Scalable::prague(&setup());
        let rtt = Span::from_millis(millis);
        let mut rounds = Rounds { rtt, ..Rounds::new() };
        prague.on_handshake(Time::ZERO, rtt);
        rounds.now = Time::ZERO + Span::from_secs(1);
        rounds.marked = 1;
        rounds.ack(&mut prague, MSS, 10 * MSS);
        rounds.marked = 0;
        assert_eq!(cwnd(&prague), 5 * MSS);
        (0..4 * rounds_per_segment).for_each(|_| rounds.round(&mut prague));
        assert!((8..=9).contains(&(cwnd(&prague) / MSS)), "{millis} ms: {}", cwnd(&prague));
    }
}
