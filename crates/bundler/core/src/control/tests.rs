use base::{Bandwidth, Bytes, Span, Time};
use proptest::prelude::*;

use self::path::{Bundle, Cross, Offer, Path, Trace};
use super::{Control, Observation};
use crate::constants::Constants;

mod path;
mod requests;

const CONTROLLERS: [Control; 3] = [Control::Copa, Control::BasicDelay, Control::Bbr];
/// Controllers that keep the queue in the network short.
const DELAY_CONTROLLERS: [Control; 2] = [Control::Copa, Control::BasicDelay];

/// One backlogged bundle for 60 s.
fn alone(control: Control, path: &Path) -> Trace {
    let capacity = path.capacity[0].1;
    path.run(vec![Bundle::new(control.build(&Constants::default()), 0.9 * capacity)], 60.0)
}

/// Two bundles at 96 Mbit/s, 50 ms: one that uses all of it, and one that starts 10 s later.
fn two(control: Control) -> Trace {
    let first = Bundle::new(control.build(&Constants::default()), 90e6);
    let second = Bundle { from: 10.0, ..Bundle::new(control.build(&Constants::default()), 10e6) };
    Path::new(96.0, 50.0).run(vec![first, second], 80.0)
}

fn in_steps() -> Path {
    let capacity = vec![(0.0, 96e6), (20.0, 24e6), (40.0, 96e6)];
    Path { capacity, ..Path::new(96.0, 50.0) }
}

/// Seconds after the capacity fell to a quarter in which the queue is above 10 ms, and after it
/// rose again in which less than 90 % of it is used.
fn recovery(control: Control) -> (f64, f64) {
    let trace = alone(control, &in_steps());
    let short = trace.first(20.0, |trace, from, to| trace.longest(from, to) < 12.0);
    let full = trace.first(40.0, |trace, from, to| trace.utilisation(from, to) > 0.9);
    (short, full)
}

/// Requests with a mean of 60 Mbit/s at 96 Mbit/s, 50 ms.
fn requests(control: Control) -> Trace {
    let offer = Offer::Requests { load: 60e6 };
    let bundle = Bundle { offer, ..Bundle::new(control.build(&Constants::default()), 90e6) };
    Path::new(96.0, 50.0).run(vec![bundle], 120.0)
}

/// Several bundles at 96 Mbit/s for 90 s: four that start at intervals of 5 s, and two with 20 and
/// 100 ms.
fn company(control: Control) -> [(usize, Trace); 2] {
    let late = |index| Bundle {
        from: 5.0 * f64::from(index),
        ..Bundle::new(control.build(&Constants::default()), 24e6)
    };
    let near = Bundle::new(control.build(&Constants::default()), 48e6);
    let far = Bundle { farther: 0.08, ..Bundle::new(control.build(&Constants::default()), 48e6) };
    let four = Path::new(96.0, 50.0).run((0..4).map(late).collect(), 90.0);
    [(4, four), (2, Path::new(96.0, 20.0).run(vec![near, far], 90.0))]
}

fn shares(trace: &Trace, bundles: usize, from: f64, to: f64) -> Vec<f64> {
    (0..bundles).map(|source| trace.rate(source, from, to) / 1e6).collect()
}

/// 150 Mbit/s for one second out of five, at 96 Mbit/s and 50 ms.
fn bursts(control: Control) -> Trace {
    let offer = Offer::Bursts { rate: 150e6, on: 1.0, off: 4.0 };
    let bundle = Bundle { offer, ..Bundle::new(control.build(&Constants::default()), 90e6) };
    Path::new(96.0, 50.0).run(vec![bundle], 60.0)
}

/// This is why the sendbox detects such traffic, and lets the hosts compete with it.
#[test]
fn delay_controllers_starve_beside_elastic_traffic() {
    for control in DELAY_CONTROLLERS {
        let cross = vec![(20.0, 60.0, Cross::Elastic)];
        let trace = alone(control, &Path { cross, ..Path::new(96.0, 50.0) });
        let [before, beside] = [5.0, 40.0].map(|from| trace.rate(0, from, from + 15.0) / 1e6);
        assert!(before > 90.0 && beside < 32.0, "{control}: {before} and {beside} Mbit/s");
    }
}

/// For each controller: minimum utilisation and maximum mean queue in ms on any path.
const STEADY: [(Control, f64, f64); 3] = [
    (Control::Copa, 0.97, 8.5),
    (Control::BasicDelay, 0.98, 7.0),
    // It probes, and does not detect that it causes the queue.
    (Control::Bbr, 0.93, 15.0),
];

#[test]
fn controllers_fill_every_path_with_a_short_queue() {
    for (control, least, most) in STEADY {
        for mbits in [12.0, 96.0, 1_000.0] {
            for millis in [10.0, 50.0, 300.0] {
                let bundle = Bundle::new(control.build(&Constants::default()), 0.9e6 * mbits);
                let trace = Path::new(mbits, millis).run(vec![bundle], 40.0);
                let (used, queue) = (trace.utilisation(20.0, 40.0), trace.queue(20.0, 40.0));
                let place = format!("{control} at {mbits} Mbit/s, {millis} ms");
                assert!(used > least, "{place} uses {used}");
                assert!(queue < most, "{place} queues for {queue} ms");
            }
        }
    }
}

#[test]
fn controllers_follow_the_capacity() {
    for control in DELAY_CONTROLLERS {
        let (short, full) = recovery(control);
        assert!(short < 2.5, "{control}: the queue is short after {short} s");
        assert!(full < 2.0, "{control}: the path is used after {full} s");
    }
}

#[test]
fn controllers_follow_the_route() {
    for control in DELAY_CONTROLLERS {
        let rtt = vec![(0.0, 0.05), (20.0, 0.09), (40.0, 0.05)];
        let trace = alone(control, &Path { rtt, ..Path::new(96.0, 50.0) });
        for (from, to) in [(20.5, 25.0), (25.0, 40.0), (40.5, 45.0)] {
            let used = trace.utilisation(from, to);
            assert!(used > 0.97, "{control} uses {used} from {from} to {to} s");
        }
        assert!(trace.longest(40.5, 60.0) < 15.0, "{control}");
    }
}

#[test]
fn reverse_queue_does_not_lower_the_rate() {
    let path = Path { reverse: vec![(0.0, 0.0), (20.0, 0.06)], ..Path::new(96.0, 50.0) };
    for control in DELAY_CONTROLLERS {
        let trace = alone(control, &path);
        let (used, queue) = (trace.utilisation(20.0, 60.0), trace.queue(20.0, 60.0));
        assert!(used > 0.97 && queue < 8.0, "{control}: {used}, {queue} ms");
    }
}

#[test]
fn controllers_converge_from_a_distant_rate() {
    for control in DELAY_CONTROLLERS {
        for (share, millis) in [(0.1, 50.0), (0.1, 300.0), (2.0, 50.0), (2.0, 300.0)] {
            let bundle = Bundle::new(control.build(&Constants::default()), share * 96e6);
            let trace = Path::new(96.0, millis).run(vec![bundle], 20.0);
            let full = trace.first(0.0, |trace, from, to| trace.utilisation(from, to) > 0.9);
            let short = trace.first(1.0, |trace, from, to| trace.longest(from, to) < 12.0);
            let place = format!("{control} from {share} of the capacity at {millis} ms");
            assert!(full < f64::max(3.0, 0.02 * millis), "{place}: full after {full} s");
            assert!(short < 3.0, "{place}: a short queue after {short} s");
        }
    }
}

#[test]
fn losses_limit_the_rate_at_a_short_buffer() {
    let path = Path { buffer: 24e3, ..Path::new(96.0, 50.0) };
    for control in DELAY_CONTROLLERS {
        let trace = alone(control, &path);
        let (used, loss) = (trace.utilisation(10.0, 60.0), trace.loss(10.0, 60.0));
        assert!(used > 0.95 && loss < 0.04, "{control}: {used}, {loss} lost");
    }
}

#[test]
fn pause_of_the_site_keeps_the_rate() {
    for control in DELAY_CONTROLLERS {
        let trace = bursts(control);
        let (least, most) = trace.rates(10.0, 60.0);
        assert!(least > 40e6 && most < 150e6, "{control}: {least} to {most}");
        let got = trace.rate(0, 10.0, 60.0);
        assert!(got > 26e6, "{control}: {got} of 30 Mbit/s");
    }
}

#[test]
fn short_requests_do_not_lower_the_capacity() {
    for control in [Control::Copa, Control::BasicDelay] {
        let trace = requests(control);
        let (least, most) = trace.rates(10.0, 120.0);
        assert!(least > 48e6 && most < 144e6, "{control}: {least} to {most}");
        assert!(trace.queue(10.0, 120.0) < 8.0, "{control}");
    }
}

#[test]
fn constant_cross_traffic_keeps_its_rate() {
    let path = Path { cross: vec![(20.0, 60.0, Cross::Constant(32e6))], ..Path::new(96.0, 50.0) };
    for control in DELAY_CONTROLLERS {
        let trace = alone(control, &path);
        let (own, other) = (trace.rate(0, 30.0, 60.0), trace.rate(1, 30.0, 60.0));
        assert!(own > 0.95 * 64e6 && other > 0.99 * 32e6, "{control}: {own}, {other}");
        assert!(trace.queue(30.0, 60.0) < 8.0, "{control}");
    }
}

#[test]
fn bundles_converge_to_equal_shares() {
    for control in [Control::Copa, Control::Bbr] {
        let trace = two(control);
        for from in [37.5, 67.5] {
            let [one, other] = [0, 1].map(|source| trace.rate(source, from, from + 5.0));
            let ratio = one / other;
            assert!((0.67..1.5).contains(&ratio), "{control}: {ratio} after {from} s");
        }
    }
    // The published controller keeps the shares.
    let trace = two(Control::BasicDelay);
    assert!(trace.rate(0, 70.0, 80.0) > 2.0 * trace.rate(1, 70.0, 80.0));
}

#[test]
fn copa_is_fair_to_newcomers_and_to_longer_round_trips() {
    for (count, trace) in company(Control::Copa) {
        let shares = shares(&trace, count, 60.0, 90.0);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(most < 1.5 * least, "{shares:?}");
        assert!(trace.utilisation(60.0, 90.0) > 0.97 && trace.queue(60.0, 90.0) < 8.0);
    }
}

#[test]
fn constant_control_keeps_its_rate() {
    let trace = alone(Control::Constant(Bandwidth::from_mbits_per_sec(48)), &in_steps());
    assert!((0.99..1.01).contains(&(trace.rate(0, 5.0, 20.0) / 48e6)));
    assert!(trace.longest(5.0, 20.0) < 0.2);
    // It stays at twice the capacity: the buffer is full.
    assert!(trace.queue(30.0, 40.0) > 350.0);
}

fn any_quantity() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..1_000_u64, 0..1_000_000_000_u64, any::<u64>()]
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let times = (any_quantity(), any_quantity(), any_quantity(), any_quantity(), any_quantity());
    let rates = (any_quantity(), any_quantity(), any_quantity(), any_quantity(), any_quantity());
    (times, rates, any::<bool>(), any::<bool>()).prop_map(|(times, rates, limited, fresh)| {
        Observation {
            now: Time::from_nanos(times.0),
            elapsed: Span::from_nanos(times.1),
            rtt: Span::from_nanos(times.2),
            min_rtt: Span::from_nanos(times.3),
            queueing: Span::from_nanos(times.4),
            standing: Span::from_nanos(times.4),
            noise: Span::ZERO,
            weight: 1,
            send_rate: Bandwidth::from_bits_per_sec(rates.0),
            receive_rate: Bandwidth::from_bits_per_sec(rates.1),
            capacity: Bandwidth::from_bits_per_sec(rates.2),
            lost: Bytes::new(rates.3),
            backlog: Bytes::new(rates.4),
            limited,
            fresh,
        }
    })
}

proptest! {
    /// For any observation the rate stays positive, and the controller recovers.
    #[test]
    fn rates_stay_finite(seen in prop::collection::vec(any_observation(), 1..40)) {
        for control in CONTROLLERS {
            let mut controller = control.build(&Constants::default());
            controller.start(seen[0].send_rate, &seen[0]);
            for observation in &seen {
                let rate = controller.on_tick(observation).bits_per_sec();
                prop_assert!((1_200..=100_000_000_000_000).contains(&rate), "{control}: {rate}");
            }
        }
    }
}

#[test]
fn controllers_parse_from_their_names() {
    for name in ["copa", "basic-delay", "bbr", "constant:90 Mbit/s"] {
        assert_eq!(name.parse::<Control>().unwrap().to_string(), name);
    }
    for name in ["", "cubic", "constant", "constant:", "constant:fast"] {
        assert!(name.parse::<Control>().is_err(), "{name}");
    }
}
