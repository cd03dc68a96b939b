//! The states of both versions of BBR on a path of known bandwidth and delay.

use super::path::Path;
use super::*;
use crate::tcp::control::{bbr, bbr3};

const RTT: Span = Span::from_millis(40);
const BUFFERS: u64 = 10;

fn path<C: CongestionControl>(control: C) -> Path<C> {
    let rate = Bandwidth::from_mbits_per_sec(20);
    let bdp = rate.bytes_in(RTT).count();
    Path::new(control, rate, RTT, BUFFERS * bdp)
}

/// The states of a run, each with its start in milliseconds.
fn phases<C: CongestionControl, P: Copy + PartialEq>(
    path: &mut Path<C>,
    span: Span,
    phase: impl Fn(&C) -> P,
) -> Vec<(P, u64)> {
    let mut seen: Vec<(P, u64)> = Vec::new();
    path.run(span, |path| {
        let now = phase(&path.control);
        if seen.last().is_none_or(|last| last.0 != now) {
            seen.push((now, path.now.as_nanos() / 1_000_000));
        }
    });
    seen
}

fn utilisation<C: CongestionControl>(path: &mut Path<C>, span: Span) -> f64 {
    let before = path.delivered;
    path.run(span, |_| ());
    (path.delivered - before) as f64 / path.rate.bytes_in(span).count() as f64
}

fn assert_model(model: (Bandwidth, Option<Span>), rate: Bandwidth) {
    let error = model.0.bits_per_sec() as f64 / rate.bits_per_sec() as f64 - 1.0;
    assert!(error.abs() < 0.02, "{model:?}");
    // A segment takes 0.4 ms.
    assert_eq!(model.1, Some(Span::from_micros(40_400)));
}

#[test]
fn bbr_finds_the_bandwidth_drains_and_cycles() {
    use bbr::Phase::{Drain, ProbeBw, ProbeRtt, Startup};
    let mut path = path(Bbr::new(&setup()));
    let seen = phases(&mut path, Span::from_secs(9), Bbr::phase);
    let order: Vec<_> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(order, [Startup, Drain, ProbeBw]);
    assert!(seen[2].1 < 1_000, "{seen:?}");
    assert_model(path.control.model(), path.rate);
    assert_eq!(path.lost, 0);
    // Startup's queue has drained; the cycle keeps a quarter of the product, and quanta.
    path.worst_queue = 0;
    path.run(Span::from_millis(900), |_| ());
    assert!(path.worst_queue < path.bdp() * 2 / 5, "{}", path.worst_queue);
    let seen = phases(&mut path, Span::from_secs(3), Bbr::phase);
    let order: Vec<_> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(order, [ProbeBw, ProbeRtt, ProbeBw]);
    let length = seen[2].1 - seen[1].1;
    assert!((200..330).contains(&length), "{seen:?}");
    assert_model(path.control.model(), path.rate);
    let share = utilisation(&mut path, Span::from_secs(30));
    assert!(share > 0.96, "{share}");
}

#[test]
fn bbr_keeps_four_segments_while_it_looks_at_the_round_trip() {
    let mut path = path(Bbr::new(&setup()));
    let mut least = u64::MAX;
    path.run(Span::from_secs(12), |path| {
        if path.control.phase() == bbr::Phase::ProbeRtt {
            least = least.min(path.queue());
            assert!(path.control.cwnd().count() == 4 * MSS);
        }
    });
    assert_eq!(least, 0);
}

#[test]
fn bbr_starts_its_cycle_by_its_seed() {
    let starts: Vec<u64> = (0..8)
        .map(|seed| {
            let mut path = path(Bbr::new(&Setup { seed, ..setup() }));
            let mut sum = 0;
            path.run(Span::from_secs(2), |path| sum += path.queue());
            sum
        })
        .collect();
    assert!(starts.iter().any(|start| *start != starts[0]), "{starts:?}");
}

#[test]
fn bbr_does_not_mind_random_losses() {
    for (control, least) in [(Control::Bbr, 0.93), (Control::Bbr3, 0.75)] {
        let mut path = path(Controller::new(control, &setup()));
        path.lose_every = 101;
        path.run(Span::from_secs(3), |_| ());
        let share = utilisation(&mut path, Span::from_secs(20));
        assert!(share > least, "{control}: {share}");
    }
}

#[test]
fn bbr_notices_a_change_of_bandwidth() {
    for control in [Control::Bbr, Control::Bbr3] {
        let mut path = path(Controller::new(control, &setup()));
        path.run(Span::from_secs(4), |_| ());
        path.rate = Bandwidth::from_mbits_per_sec(60);
        path.run(Span::from_secs(8), |_| ());
        let share = utilisation(&mut path, Span::from_secs(2));
        assert!(share > 0.9, "{control}: {share}");
        path.rate = Bandwidth::from_mbits_per_sec(30);
        path.run(Span::from_secs(12), |_| ());
        path.worst_queue = 0;
        let share = utilisation(&mut path, Span::from_secs(2));
        assert!(share > 0.9, "{control}: {share}");
        assert!(path.worst_queue < 3 * path.bdp() / 2, "{control}: {}", path.worst_queue);
    }
}

#[test]
fn bbr_ignores_samples_that_the_application_limited() {
    for control in [Control::Bbr, Control::Bbr3] {
        let mut path = path(Controller::new(control, &setup()));
        path.run(Span::from_secs(2), |_| ());
        path.pace = Some(Bandwidth::from_mbits_per_sec(2));
        path.run(Span::from_secs(2), |_| ());
        let rate = path.control.pacing_rate().unwrap();
        assert!(rate > Bandwidth::from_mbits_per_sec(14), "{control}: {rate}");
    }
}

#[test]
fn bbr3_finds_the_bandwidth_drains_and_cycles() {
    use bbr3::Phase::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    let mut path = path(Bbr3::new(&setup()));
    let seen = phases(&mut path, Span::from_millis(4_900), Bbr3::phase);
    let order: Vec<_> = seen.iter().map(|seen| seen.0).collect();
    assert_eq!(order[..7], [Startup, Drain, Cruise, Refill, Up, Down, Cruise], "{seen:?}");
    assert_model(path.control.model(), path.rate);
    assert_eq!(path.lost, 0);
    let seen = phases(&mut path, Span::from_secs(2), Bbr3::phase);
    let at = seen.iter().position(|seen| seen.0 == ProbeRtt).expect("probes the round trip");
    assert_eq!(seen[at + 1].0, Cruise);
    let length = seen[at + 1].1 - seen[at].1;
    assert!((200..330).contains(&length), "{seen:?}");
    let share = utilisation(&mut path, Span::from_secs(30));
    assert!(share > 0.95, "{share}");
}

#[test]
fn bbr3_leaves_headroom_in_a_shallow_buffer() {
    let rate = Bandwidth::from_mbits_per_sec(20);
    let bdp = rate.bytes_in(RTT).count();
    let loss = |control| {
        let mut path = Path::new(Controller::new(control, &setup()), rate, RTT, bdp / 5);
        path.run(Span::from_secs(3), |_| ());
        let (lost, delivered) = (path.lost, path.delivered);
        path.run(Span::from_secs(20), |_| ());
        let share =
            (path.delivered - delivered) as f64 / rate.bytes_in(Span::from_secs(20)).count() as f64;
        (share, (path.lost - lost) as f64 / (path.delivered - delivered) as f64)
    };
    let (first, third) = (loss(Control::Bbr), loss(Control::Bbr3));
    assert!(first.0 > 0.9 && third.0 > 0.85, "{first:?} {third:?}");
    assert!(third.1 < 0.02 && third.1 < first.1, "{first:?} {third:?}");
}
