//! The state machines individually, and over an [`Exchange`].

use base::{Bandwidth, Bytes, RandomStream, Ratio, Span, Time};
use proptest::prelude::*;

use super::link::Link;
use super::{Controller, Corrected, Form, Kind, Packet, Paper, PaperForm, Slbn};
use crate::exchange::{Exchange, Wire};
use crate::trial::{Step, Trial};
use crate::{
    Error, Link as _, MAX_RATE, Outbox, RateController, SessionId, Settings, Source as _, Towards,
    Visit,
};

const ENDLESS: Bandwidth = Bandwidth::from_bits_per_sec(u64::MAX);

fn bits(rate: u64) -> Bandwidth {
    Bandwidth::from_bits_per_sec(rate)
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Settings without gaps between cycles at relevant rates.
fn settings() -> Settings {
    let share = Ratio::from_parts_per_billion(500_000_000);
    Settings { packet: Bytes::new(1), share, ..Settings::default() }
}

fn chain<R: RateController>(capacities: &[u64]) -> Exchange<R> {
    let wire = |capacity: &u64| Wire::new(bits(*capacity), Span::from_millis(1));
    let wires: Vec<Wire> = capacities.iter().map(wire).collect();
    Exchange::try_new(&settings(), &wires).unwrap()
}

fn rates<R: RateController>(exchange: &Exchange<R>, sessions: &[SessionId]) -> Vec<u64> {
    let rate = |session: &SessionId| exchange.rate(*session).unwrap_or_default().bits_per_sec();
    sessions.iter().map(rate).collect()
}

fn probe(before: u64, last: u64, rate: u64) -> Packet {
    Packet { kind: Kind::Probe, latest: None, before, last, rate, bottlenecks: 0 }
}

fn visit<F: Form>(link: &mut Link<F>, hop: u8, packet: &mut Packet) {
    let towards = match packet.kind {
        Kind::ProbeAck => Towards::Source,
        _ => Towards::Destination,
    };
    let visit = Visit { session: SessionId(0), hop, towards };
    let mut out = Outbox::default();
    link.visit(Time::ZERO, visit, packet, &mut out);
    assert!(out.is_empty());
}

/// Figure 2 step by step: a link of 100 with one session of 30 limited elsewhere.
fn figure_two<F: Form>() {
    let mut link = Link::<F>::try_new(bits(100)).unwrap();
    let mut first = Packet { kind: Kind::Join, ..probe(0, 0, 30) };
    visit(&mut link, 0, &mut first);
    assert_eq!((link.integers(), first.bottlenecks), ((0, 0, 1), 0));
    first = Packet { kind: Kind::Probe, ..probe(0, 30, 30) };
    visit(&mut link, 0, &mut first);
    assert_eq!(link.integers(), (30, 0, 1));
    // Another one joins with a higher demand and is limited at hop 3.
    let mut second = Packet { kind: Kind::Join, ..probe(0, 0, 1_000) };
    visit(&mut link, 3, &mut second);
    assert_eq!((link.integers(), second.rate), ((30, 1, 2), 1_000));
    assert_eq!((second.bottlenecks, second.latest), (0b1000, Some(3)));
    second.kind = Kind::ProbeAck;
    visit(&mut link, 3, &mut second);
    assert_eq!((link.integers(), second.rate), ((30, 1, 2), 70));
    // The first packet returns. Its rate is below the share of 50, so the link adds it with bw′.
    first.kind = Kind::ProbeAck;
    visit(&mut link, 0, &mut first);
    assert_eq!((link.integers(), first.rate, first.latest), ((30, 1, 2), 30, None));
    // Now it demands 90, and is limited to one half.
    first = Packet { kind: Kind::Probe, before: 30, last: 30, rate: 90, ..first };
    visit(&mut link, 0, &mut first);
    assert_eq!((link.integers(), first.rate, first.latest), ((0, 2, 2), 50, Some(0)));
    second.kind = Kind::Leave;
    visit(&mut link, 3, &mut second);
    assert_eq!(link.integers(), (0, 1, 1));
    // The link raises the rate only if it is the latest bottleneck.
    first.kind = Kind::ProbeAck;
    visit(&mut link, 0, &mut first);
    assert_eq!((link.integers(), first.rate), ((0, 1, 1), 100));
    first = Packet { kind: Kind::Probe, latest: Some(7), last: 40, rate: 40, ..first };
    visit(&mut link, 0, &mut first);
    assert_eq!((link.integers(), first.rate, first.bottlenecks), ((40, 0, 1), 40, 0));
    first.kind = Kind::Leave;
    visit(&mut link, 0, &mut first);
    assert_eq!(link.integers(), (0, 0, 0));
}

#[test]
fn links_follow_figure_two() {
    figure_two::<Paper>();
    figure_two::<Corrected>();
}

#[test]
fn joins_are_counted_among_those_who_share_in_the_corrected_form() {
    fn join<F: Form>(demand: u64) -> Option<u8> {
        let mut link = Link::<F>::try_new(bits(100)).unwrap();
        let mut last = None;
        for rate in [1_000, demand] {
            let mut packet = Packet { kind: Kind::Join, ..probe(0, 0, rate) };
            visit(&mut link, 0, &mut packet);
            last = packet.latest;
        }
        last
    }
    assert_eq!((join::<Paper>(60), join::<Corrected>(60)), (None, Some(0)));
    assert_eq!((join::<Paper>(50), join::<Corrected>(50)), (None, None));
}

#[test]
fn forms_begin_cycles_differently() {
    let ack = Packet { kind: Kind::ProbeAck, latest: Some(2), ..probe(1, 40, 50) };
    // Limited by a link, below the demand: the same result.
    let next = Packet { kind: Kind::Probe, before: 40, last: 50, ..ack };
    assert_eq!((Paper::next(&ack, 60), Corrected::next(&ack, 60)), (next, next));
    // Above the demand: the paper's form keeps the link as the limit, and bw′ unchanged.
    let clipped = Packet { rate: 30, ..next };
    assert_eq!(Paper::next(&ack, 30), clipped);
    assert_eq!(Corrected::next(&ack, 30), Packet { last: 30, latest: None, ..clipped });
    assert_eq!((Paper::assigned(&ack, 30), Corrected::assigned(&ack, 30)), (50, 30));
    // The demand limited the session, and has risen.
    let free = Packet { latest: None, ..ack };
    assert_eq!(Paper::next(&free, 60).rate, 50);
    assert_eq!((Corrected::next(&free, 60).rate, Corrected::next(&free, 60).last), (60, 50));
}

/// Two sessions on one link; the first lowers its demand, then raises it.
fn demand_falls_and_rises<R: RateController>() -> [Vec<u64>; 3] {
    let mut exchange = chain::<R>(&[1_000_000_000]);
    let sessions = [0, 1].map(|_| exchange.join(ms(0), &[0], ENDLESS).unwrap());
    exchange.run_until(ms(50)).unwrap();
    let equal = rates(&exchange, &sessions);
    exchange.change(ms(50), sessions[0], bits(200_000_000)).unwrap();
    exchange.run_until(ms(100)).unwrap();
    let fallen = rates(&exchange, &sessions);
    exchange.change(ms(100), sessions[0], bits(400_000_000)).unwrap();
    exchange.run_until(ms(150)).unwrap();
    [equal, fallen, rates(&exchange, &sessions)]
}

#[test]
fn the_letter_misses_changed_demands() {
    let half = vec![500_000_000; 2];
    let [equal, fallen, risen] = demand_falls_and_rises::<Slbn>();
    assert_eq!(equal, half);
    assert_eq!(fallen, [200_000_000, 800_000_000]);
    assert_eq!(risen, [400_000_000, 600_000_000]);
    // Its link stays the one that limits the session, and raises it above its demand each time.
    let [equal, fallen, _] = demand_falls_and_rises::<PaperForm>();
    assert_eq!((equal, fallen), (half.clone(), half));
}

#[test]
fn the_letter_never_raises_a_session_that_its_demand_limited() {
    fn raised<R: RateController>() -> u64 {
        let mut exchange = chain::<R>(&[1_000_000_000]);
        let session = exchange.join(ms(0), &[0], bits(10_000_000)).unwrap();
        exchange.change(ms(20), session, bits(900_000_000)).unwrap();
        exchange.run_until(ms(200)).unwrap();
        rates(&exchange, &[session])[0]
    }
    assert_eq!((raised::<PaperForm>(), raised::<Slbn>()), (10_000_000, 900_000_000));
}

#[test]
fn a_rate_is_not_raised_before_the_links_agree() {
    let mut exchange = chain::<Slbn>(&[1_000_000_000]);
    let first = exchange.join(ms(0), &[0], bits(10_000_000)).unwrap();
    let second = exchange.join(ms(0), &[0], ENDLESS).unwrap();
    exchange.run_until(ms(40)).unwrap();
    exchange.change(ms(40), first, ENDLESS).unwrap();
    while exchange.next_cycle(ms(100)).unwrap().is_some() {
        let [first, second] = [first, second].map(|of| rates(&exchange, &[of])[0]);
        assert!(first <= 500_000_000 && second >= 500_000_000, "{first} {second}");
    }
    assert_eq!(rates(&exchange, &[first, second]), [500_000_000; 2]);
}

#[test]
fn a_lower_demand_lowers_the_rate_at_once() {
    let mut exchange = chain::<Slbn>(&[1_000_000_000]);
    let session = exchange.join(ms(0), &[0], ENDLESS).unwrap();
    exchange.change(ms(21), session, bits(7)).unwrap();
    exchange.run_until(ms(21)).unwrap();
    assert_eq!(rates(&exchange, &[session]), [7]);
}

/// A single source: within a cycle, or in the pause after a cycle of 10 ms.
fn source(paused: bool) -> (super::Source<Corrected>, Outbox<Packet>) {
    let protocol = Slbn::try_new(&Settings::default()).unwrap();
    let mut source = protocol.source(SessionId(3), 2).unwrap();
    let mut out = Outbox::default();
    source.join(ms(0), bits(1_000_000), &mut out).unwrap();
    let join = out.sends.pop().unwrap().packet;
    assert_eq!(join, Packet { kind: Kind::Join, ..probe(0, 0, 1_000_000) });
    if paused {
        source.receive(ms(10), Packet { kind: Kind::ProbeAck, ..join }, &mut out);
        // 64 B are 1 % of 1 Mbit/s for 51.2 ms.
        let wake = out.wake.take().unwrap();
        assert_eq!(wake, Time::from_nanos(51_200_000));
        assert_eq!(out.rate.take(), Some(bits(1_000_000)));
        assert!(out.is_empty());
    }
    (source, out)
}

#[test]
fn leaving_waits_for_the_packet() {
    let (mut source, mut out) = source(false);
    source.leave(ms(5), &mut out);
    assert!(out.is_empty());
    let ack = Packet { kind: Kind::ProbeAck, latest: Some(1), bottlenecks: 2, ..probe(1, 2, 3) };
    source.receive(ms(10), ack, &mut out);
    assert!(out.gone && out.rate.is_none() && out.wake.is_none());
    assert_eq!(out.sends[0].packet, Packet { kind: Kind::Leave, ..ack });
    // The source has left.
    out = Outbox::default();
    source.receive(ms(11), ack, &mut out);
    source.on_wake(ms(12), &mut out);
    source.change(ms(13), bits(1), &mut out).unwrap();
    source.leave(ms(14), &mut out);
    assert!(out.is_empty());
    assert!(matches!(source.join(ms(15), bits(1), &mut out), Err(Error::Session { .. })));
}

#[test]
fn leaving_in_a_pause_is_at_once() {
    let (mut source, mut out) = source(true);
    source.leave(ms(11), &mut out);
    assert!(out.gone);
    assert_eq!(out.sends.len(), 1);
    assert_eq!(out.sends[0].packet.kind, Kind::Leave);
}

#[test]
fn a_change_ends_the_pause() {
    let (mut source, mut out) = source(true);
    source.change(ms(20), bits(1_000_000), &mut out).unwrap();
    assert!(out.is_empty(), "no change");
    source.change(ms(20), bits(2_000_000), &mut out).unwrap();
    let packet = out.sends.pop().unwrap().packet;
    assert_eq!(packet, Packet { kind: Kind::Probe, ..probe(0, 1_000_000, 2_000_000) });
    // The timer of the ended pause.
    source.on_wake(Time::from_nanos(51_200_000), &mut out);
    assert!(out.is_empty());
    source.change(ms(52), bits(500_000), &mut out).unwrap();
    assert_eq!(out.rate.take(), Some(bits(500_000)));
    assert!(out.is_empty(), "in mid-cycle it counts when the packet is back");
    source.receive(ms(60), Packet { kind: Kind::ProbeAck, ..packet }, &mut out);
    assert_eq!(out.rate, Some(bits(500_000)));
    source.on_wake(ms(61), &mut out);
    assert!(out.sends.is_empty(), "too early");
    let wake = out.wake.take().unwrap();
    source.on_wake(wake, &mut out);
    let next = out.sends.pop().unwrap().packet;
    assert_eq!((next.before, next.last, next.rate), (1_000_000, 500_000, 500_000));
}

#[test]
fn rejects_invalid_input() {
    let protocol = Slbn::try_new(&Settings::default()).unwrap();
    assert_eq!(protocol.link(bits(0)), Err(Error::Capacity { capacity: bits(0) }));
    assert!(protocol.link(bits(MAX_RATE)).is_ok());
    assert!(protocol.link(bits(MAX_RATE + 1)).is_err());
    assert!(matches!(protocol.source(SessionId(0), 0), Err(Error::Path { hops: 0, most: 64 })));
    assert!(protocol.source(SessionId(0), 64).is_ok());
    assert!(matches!(protocol.source(SessionId(0), 65), Err(Error::Path { hops: 65, .. })));
    let mut source = protocol.source(SessionId(0), 64).unwrap();
    let mut out = Outbox::default();
    assert!(matches!(source.join(ms(0), bits(0), &mut out), Err(Error::Demand { .. })));
    assert!(out.is_empty());
    source.join(ms(0), ENDLESS, &mut out).unwrap();
    assert_eq!(out.sends[0].packet.rate, MAX_RATE);
    assert!(matches!(source.change(ms(1), bits(0), &mut out), Err(Error::Demand { .. })));
    let none = Settings { share: Ratio::from_parts_per_billion(0), ..Settings::default() };
    assert!(matches!(PaperForm::try_new(&none), Err(Error::Share { .. })));
}

#[test]
fn machines_and_packets_are_small() {
    assert_eq!(size_of::<Packet>(), 40);
    assert_eq!(size_of::<Link<Corrected>>(), 32, "three integers and the capacity");
    assert!(size_of::<super::Source<Corrected>>() <= 160);
}

#[test]
fn the_longest_path_works() {
    let capacities: Vec<u64> = (0..64).map(|hop| 1_000_000_000 - hop).collect();
    let mut exchange = chain::<Slbn>(&capacities);
    let path: Vec<u32> = (0..64).collect();
    let sessions = [0, 1].map(|_| exchange.join(ms(0), &path, ENDLESS).unwrap());
    exchange.run_until(ms(2_000)).unwrap();
    assert_eq!(rates(&exchange, &sessions), [(1_000_000_000 - 63) / 2; 2]);
    let long: Vec<u32> = (0..65).map(|hop| hop % 64).collect();
    assert!(exchange.join(ms(2_000), &long, ENDLESS).is_err());
}

#[test]
fn capacities_change() {
    let mut exchange = chain::<Slbn>(&[1_000_000_000, 2_000_000_000]);
    let long = exchange.join(ms(0), &[0, 1], ENDLESS).unwrap();
    let short = exchange.join(ms(0), &[1], ENDLESS).unwrap();
    for (link, capacity, fair) in [
        (0, 400_000_000, [400_000_000, 1_600_000_000]),
        (1, 600_000_000, [300_000_000, 300_000_000]),
        (1, 3_000_000_000, [400_000_000, 2_600_000_000]),
    ] {
        exchange.set_capacity(link, bits(capacity)).unwrap();
        exchange.run_until(exchange.now() + Span::from_millis(100)).unwrap();
        assert_eq!(rates(&exchange, &[long, short]), fair);
    }
    assert!(exchange.set_capacity(0, bits(0)).is_err());
    assert_eq!(exchange.link(0).unwrap().state().numbers, 3);
}

/// Many sessions with the maximum rate join at once: sums of rates temporarily exceed 2⁶⁴.
#[test]
fn the_largest_rates_of_many_sessions_settle() {
    let mut exchange = chain::<Slbn>(&[MAX_RATE, MAX_RATE - 1]);
    let path = |session: u32| if session.is_multiple_of(2) { [1, 0] } else { [0, 1] };
    let join = |session| exchange.join(ms(0), &path(session), bits(MAX_RATE)).unwrap();
    let sessions: Vec<SessionId> = (0..600).map(join).collect();
    exchange.run_until(ms(100)).unwrap();
    let fair = (MAX_RATE - 1) / 600;
    assert!(rates(&exchange, &sessions).iter().all(|rate| rate.abs_diff(fair) <= 600));
}

#[test]
fn accepts_joins_at_the_same_time() {
    let mut exchange = chain::<Slbn>(&[1_000_000_000_000]);
    let join = |_| exchange.join(Time::from_nanos(1), &[0], ENDLESS).unwrap();
    let sessions: Vec<SessionId> = (0..40_000).map(join).collect();
    exchange.run_until(ms(5)).unwrap();
    assert!(rates(&exchange, &sessions).iter().all(|rate| *rate == 25_000_000));
    assert_eq!(exchange.link(0).unwrap().integers(), (0, 40_000, 40_000));
}

/// Contribution of a session to a link's sums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nothing,
    /// In R, the sessions that the link limits.
    Limited,
    /// In F with this rate.
    Saturated(u64),
}

#[derive(Clone, Copy)]
struct Known {
    packet: Packet,
    counted: Counted,
}

/// Random cycles of a few sessions at one link, compared with a table of their contributions.
fn sums_match<F: Form>(seed: u64, capacity: u64) {
    let mut rng = RandomStream::new(seed, "slbn/sums");
    let mut link = Link::<F>::try_new(bits(capacity)).unwrap();
    let join = |rng: &mut RandomStream| Known {
        packet: Packet { kind: Kind::Join, ..probe(0, 0, 1 + rng.below(MAX_RATE)) },
        counted: Counted::Nothing,
    };
    let mut sessions: Vec<Known> = (0..20).map(|_| join(&mut rng)).collect();
    for step in 0..1_000 {
        let place = rng.below(20) as usize;
        let hop = place as u8;
        let known = &mut sessions[place];
        visit(&mut link, hop, &mut known.packet);
        let packet = &mut known.packet;
        let marked = packet.is_marked(hop);
        let saturated = Counted::Saturated(packet.last);
        known.counted = if marked { Counted::Limited } else { saturated };
        // Changes until the packet visits this link again.
        match packet.kind {
            Kind::Leave => *known = join(&mut rng),
            Kind::Join | Kind::Probe => {
                packet.kind = Kind::ProbeAck;
                if rng.below(3) == 0 {
                    packet.rate = 1 + rng.below(packet.rate);
                    packet.latest = Some(63);
                }
            }
            Kind::ProbeAck if rng.below(10) == 0 => packet.kind = Kind::Leave,
            Kind::ProbeAck => {
                packet.rate = packet.rate.max(1);
                *packet = F::next(packet, 1 + rng.below(MAX_RATE));
            }
        }
        let (mut sum, mut limited, mut all) = (0_u64, 0, 0);
        for known in &sessions {
            all += u64::from(known.counted != Counted::Nothing);
            match known.counted {
                Counted::Nothing => {}
                Counted::Limited => limited += 1,
                Counted::Saturated(rate) => sum = sum.wrapping_add(rate),
            }
        }
        assert_eq!(link.integers(), (sum, limited, all), "step {step}");
    }
}

/// Runs a trial, lets all sessions leave, and checks the links.
fn links_forget<F: Form>(seed: u64) {
    let trial = Trial::draw(seed);
    let mut exchange = trial.exchange::<Controller<F>>().unwrap();
    exchange.run_until(trial.settled()).unwrap();
    let present: Vec<SessionId> = exchange.present().collect();
    let joins = trial.steps.iter().filter(|(_, step)| matches!(step, Step::Join { .. })).count();
    assert!(!present.is_empty() && present.len() <= joins);
    for session in present {
        exchange.leave(exchange.now(), session).unwrap();
    }
    exchange.run_until(exchange.now() + Span::from_secs(10)).unwrap();
    assert!(exchange.is_quiet());
    for link in 0..exchange.links() as u32 {
        assert_eq!(exchange.link(link).unwrap().integers(), (0, 0, 0), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_are_those_of_the_sessions(seed: u64, capacity in 1..=MAX_RATE) {
        sums_match::<Paper>(seed, capacity);
        sums_match::<Corrected>(seed, capacity);
    }

    #[test]
    fn links_forget_who_has_left(seed: u64) {
        links_forget::<Paper>(seed);
        links_forget::<Corrected>(seed);
    }
}
