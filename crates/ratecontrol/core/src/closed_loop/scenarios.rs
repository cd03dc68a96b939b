//! Networks for tests of the three protocols, with fluid data.

use base::{Bandwidth, Bytes, Span, Time};
use proptest::prelude::*;

use crate::exchange::{Exchange, Wire};
use crate::{
    Link, MAX_RATE, Measured, Outbox, RateController, SessionId, Settings, Towards, Visit,
};

/// Time in which all three protocols become stable.
pub(crate) const LONG: Span = Span::from_secs(15);

const MBIT: u64 = 1_000_000;
const NO_LIMIT: Bandwidth = Bandwidth::from_bits_per_sec(MAX_RATE);

/// Ratios of the rates to the oracle's rates.
#[derive(Debug)]
pub(crate) struct Outcome(Vec<f64>);

impl Outcome {
    /// The largest relative error, if sessions should get this share of the fair rates.
    pub(crate) fn worst_error(&self, target: f64) -> f64 {
        self.0.iter().map(|ratio| (ratio / target - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Ratio of load to capacity of a link.
#[derive(Debug)]
pub(crate) struct Rush {
    pub(crate) peak: f64,
    pub(crate) last: f64,
}

fn wire(mbits: u64, delay: Span) -> Wire {
    Wire::new(Bandwidth::from_mbits_per_sec(mbits), delay)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn outcome<R: RateController>(net: &Exchange<R>) -> Outcome {
    let ratio = |(id, fair): (SessionId, f64)| {
        net.rate(id).map_or(0.0, |rate| rate.bits_per_sec() as f64) / fair
    };
    Outcome(net.fair_rates().into_iter().map(ratio).collect())
}

fn settle<R: RateController>(wires: &[Wire], paths: &[Vec<u32>], time: Span) -> Outcome {
    let mut net = Exchange::<R>::try_new(&Settings::default(), wires).unwrap();
    for (place, path) in paths.iter().enumerate() {
        net.join(at(place as u64 * 7 % 1000), path, NO_LIMIT).unwrap();
    }
    net.run_until(Time::ZERO + time).unwrap();
    outcome(&net)
}

/// Sessions with equal round trips of 80 ms over a link of 100 Mbit/s.
pub(crate) fn bottleneck<R: RateController>(sessions: usize, time: Span) -> Outcome {
    settle::<R>(&[wire(100, Span::from_millis(40))], &vec![vec![0]; sessions], time)
}

/// Three links in series of 100, 60 and 100 Mbit/s: two sessions over all, three over
/// each single one.
pub(crate) fn parking_lot<R: RateController>(time: Span) -> Outcome {
    let wires = [100, 60, 100].map(|mbits| wire(mbits, Span::from_millis(10)));
    let mut paths = vec![vec![0, 1, 2]; 2];
    for link in 0..3 {
        paths.extend(vec![vec![link]; 3]);
    }
    settle::<R>(&wires, &paths, time)
}

/// Sessions with round trips of 2, 20 and 200 ms over one link. It is the first link of their
/// paths: links receive rates when sources change them, and ERICA's links read CCR from packets.
pub(crate) fn mixed_round_trips<R: RateController>(time: Span) -> Outcome {
    let access = [900, 9_900, 99_900].map(|delay| wire(1000, Span::from_micros(delay)));
    let mut wires = vec![wire(100, Span::from_micros(100))];
    wires.extend(access);
    let paths: Vec<_> = (0..12).map(|session| vec![0, 1 + session % 3]).collect();
    settle::<R>(&wires, &paths, time)
}

/// One session uses a link of 100 Mbit/s for 10 s, then 100 more join at once.
pub(crate) fn rush<R: RateController>() -> Rush {
    let wires = [wire(100, Span::from_millis(40))];
    let mut net = Exchange::<R>::try_new(&Settings::default(), &wires).unwrap();
    for session in 0..=100 {
        net.join(at(if session == 0 { 0 } else { 10_000 }), &[0], NO_LIMIT).unwrap();
    }
    let mut rush = Rush { peak: 0.0, last: 0.0 };
    for millis in (10_000..40_000).step_by(5) {
        net.run_until(at(millis)).unwrap();
        let rate = |id| net.rate(id).unwrap_or_default().bits_per_sec();
        let load: u64 = net.present().map(rate).sum();
        rush.last = load as f64 / (100 * MBIT) as f64;
        rush.peak = rush.peak.max(rush.last);
    }
    rush
}

/// Passes a downstream packet to a link.
pub(crate) fn visit_there<P, L: Link<P>>(link: &mut L, packet: &mut P) {
    let visit = Visit { session: SessionId(0), hop: 0, towards: Towards::Destination };
    link.visit(Time::ZERO, visit, packet, &mut Outbox::default());
}

/// Passes packets of this many sessions to a link.
pub(crate) fn hear_of<P, L: Link<P>>(link: &mut L, sessions: u32, packet: impl Fn(u32) -> P) {
    for session in 0..sessions {
        let visit = Visit { session: SessionId(session), hop: 0, towards: Towards::Destination };
        link.visit(Time::ZERO, visit, &mut packet(session), &mut Outbox::default());
    }
}

/// An event at a link within an interval.
#[derive(Clone, Debug)]
pub(crate) struct ExtremeStep {
    pub(crate) round_trip: Span,
    pub(crate) measured: Measured,
}

/// Arbitrary values, more often the ends of their ranges.
#[derive(Clone, Debug)]
pub(crate) struct Extreme {
    pub(crate) capacity: Bandwidth,
    pub(crate) steps: Vec<ExtremeStep>,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..1_000_000_000_u64, any::<u64>()]
}

fn step() -> impl Strategy<Value = ExtremeStep> {
    (number(), number(), number(), number()).prop_map(|(round_trip, interval, arrived, backlog)| {
        let measured = Measured {
            interval: Span::from_nanos(interval),
            arrived: Bytes::new(arrived),
            backlog: Bytes::new(backlog),
        };
        ExtremeStep { round_trip: Span::from_nanos(round_trip), measured }
    })
}

impl Arbitrary for Extreme {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        let capacity = prop_oneof![Just(1), Just(1 << 56), 1..=(1_u64 << 56)];
        (capacity, prop::collection::vec(step(), 1..30))
            .prop_map(|(capacity, steps)| Self {
                capacity: Bandwidth::from_bits_per_sec(capacity),
                steps,
            })
            .boxed()
    }
}
