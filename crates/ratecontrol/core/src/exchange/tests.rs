//! The exchange with a protocol that only returns packets and counts.

use base::{Bandwidth, Ratio, Span, Time};

use super::{Exchange, Wire};
use crate::{
    Error, Fate, Link, Measured, Outbox, RateController, Result, SessionId, Settings, Source,
    State, Towards, Visit,
};

/// A packet records the links that it visits; the source reports its round trip as a rate.
struct Bounce;

#[derive(Clone, Copy, Debug)]
struct Note {
    visits: [u8; 8],
    used: usize,
}

struct Bouncer {
    session: SessionId,
    sent: Time,
    rate: Option<Bandwidth>,
}

struct Watcher {
    measured: Vec<Measured>,
}

impl RateController for Bounce {
    type Packet = Note;
    type Source = Bouncer;
    type Link = Watcher;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check().map(|()| Self)
    }

    fn source(&self, session: SessionId, _hops: u8) -> Result<Bouncer> {
        Ok(Bouncer { session, sent: Time::ZERO, rate: None })
    }

    fn link(&self, _capacity: Bandwidth) -> Result<Watcher> {
        Ok(Watcher { measured: Vec::new() })
    }

    fn interval(&self) -> Option<Span> {
        Some(Span::from_millis(10))
    }
}

impl Source<Note> for Bouncer {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Note>) -> Result<()> {
        self.rate = Some(demand);
        out.rate = self.rate;
        out.wake = Some(now);
        Ok(())
    }

    fn change(&mut self, _now: Time, demand: Bandwidth, out: &mut Outbox<Note>) -> Result<()> {
        self.rate = Some(demand);
        out.rate = self.rate;
        Ok(())
    }

    fn leave(&mut self, _now: Time, out: &mut Outbox<Note>) {
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: Note, out: &mut Outbox<Note>) {
        assert_eq!(packet.visits[..packet.used], [0, 1, 11, 10]);
        assert_eq!(now.since(self.sent), Span::from_millis(1 + 2 + 4 + 3));
        out.wake = Some(now + Span::from_millis(5));
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<Note>) {
        self.sent = now;
        out.send(self.session, 0, Towards::Destination, Note { visits: [0; 8], used: 0 });
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}

impl Link<Note> for Watcher {
    fn visit(&mut self, _: Time, visit: Visit, packet: &mut Note, _: &mut Outbox<Note>) -> Fate {
        let up = if visit.towards == Towards::Source { 10 } else { 0 };
        packet.visits[packet.used] = visit.hop + up;
        packet.used += 1;
        Fate::Forward
    }

    fn measure(&mut self, _now: Time, measured: &Measured) {
        self.measured.push(*measured);
    }

    fn set_capacity(&mut self, _: Time, _: Bandwidth, _: &mut Outbox<Note>) -> Result<()> {
        Ok(())
    }

    fn state(&self) -> State {
        State::default()
    }
}

fn rate(mbits: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(mbits)
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn network() -> Exchange<Bounce> {
    let wire = |there, back| Wire {
        capacity: rate(8),
        delay: Span::from_millis(there),
        back: Span::from_millis(back),
    };
    Exchange::try_new(&Settings::default(), &[wire(1, 3), wire(2, 4), wire(1, 1)]).unwrap()
}

#[test]
fn packets_visit_each_link_both_ways_in_time() {
    let mut exchange = network();
    let session = exchange.join(ms(7), &[0, 1], rate(1)).unwrap();
    exchange.run_until(ms(100)).unwrap();
    // A round trip every 15 ms from 7 ms on, each of 10 ms; the seventh packet has just turned.
    assert_eq!(exchange.cycles(session), 6);
    assert_eq!(exchange.counters().crossings, 6 * 4 + 3);
    exchange.leave(ms(101), session).unwrap();
    exchange.run_until(ms(300)).unwrap();
    assert!(exchange.is_quiet() && exchange.is_gone(session) && exchange.rate(session).is_none());
    assert_eq!(exchange.now(), ms(300));
}

#[test]
fn links_are_told_what_a_fluid_would_bring() {
    let mut exchange = network();
    let session = exchange.join(ms(0), &[0, 1], rate(16)).unwrap();
    exchange.change(ms(15), session, rate(4)).unwrap();
    exchange.run_until(ms(30)).unwrap();
    let reports = &exchange.link(0).unwrap().measured;
    let arrived: Vec<u64> = reports.iter().map(|measured| measured.arrived.count()).collect();
    let backlog: Vec<u64> = reports.iter().map(|measured| measured.backlog.count()).collect();
    assert_eq!(arrived, [20_000, 12_500, 5_000]);
    assert_eq!(backlog, [10_000, 12_500, 7_500]);
    assert_eq!(exchange.link(2).unwrap().measured[0].arrived.count(), 0);
}

#[test]
fn rejects_invalid_input() {
    let mut exchange = network();
    let now = ms(0);
    assert!(matches!(exchange.join(now, &[], rate(1)), Err(Error::Path { hops: 0, .. })));
    assert!(matches!(exchange.join(now, &[0; 300], rate(1)), Err(Error::Path { .. })));
    assert_eq!(exchange.join(now, &[0, 9], rate(1)), Err(Error::NoSuchLink { link: 9 }));
    assert_eq!(exchange.join(now, &[0, 1, 0], rate(1)), Err(Error::Loop { link: 0 }));
    assert!(matches!(exchange.join(now, &[0], rate(0)), Err(Error::Demand { .. })));
    assert!(matches!(exchange.leave(now, SessionId(0)), Err(Error::Session { .. })));
    let session = exchange.join(ms(5), &[0, 1], rate(1)).unwrap();
    assert!(matches!(exchange.change(ms(4), session, rate(1)), Err(Error::Session { .. })));
    assert!(matches!(exchange.change(ms(6), session, rate(0)), Err(Error::Demand { .. })));
    exchange.leave(ms(6), session).unwrap();
    assert!(matches!(exchange.leave(ms(7), session), Err(Error::Session { .. })));
    assert_eq!(exchange.set_up(7, false), Err(Error::NoSuchLink { link: 7 }));
    exchange.run_until(ms(50)).unwrap();
}

#[test]
fn links_lose_what_is_on_them_when_they_go_down() {
    let mut exchange = network();
    let session = exchange.join(ms(0), &[0, 1], rate(1)).unwrap();
    exchange.run_until(ms(2)).unwrap();
    exchange.set_up(1, false).unwrap();
    exchange.set_up(1, true).unwrap();
    exchange.run_until(ms(50)).unwrap();
    assert_eq!((exchange.cycles(session), exchange.counters().lost), (0, 1));
}

#[test]
fn loss_takes_its_share() {
    let mut exchange = network();
    exchange.lose("10 %".parse::<Ratio>().unwrap(), 3);
    for start in 0..2_000 {
        exchange.join(ms(start), &[0, 1], rate(1)).unwrap();
    }
    exchange.run_until(ms(20_000)).unwrap();
    let counters = exchange.counters();
    assert_eq!(counters.lost, 2_000, "every session's packet is lost once, then it is silent");
    let share = counters.lost as f64 / counters.crossings as f64;
    assert!((0.08..0.12).contains(&share), "{share}");
}

#[test]
fn the_oracle_sees_who_is_there() {
    let mut exchange = network();
    let first = exchange.join(ms(0), &[0, 1], rate(100)).unwrap();
    let second = exchange.join(ms(0), &[1], rate(3)).unwrap();
    let third = exchange.join(ms(0), &[1, 0], rate(3)).unwrap();
    exchange.leave(ms(1), third).unwrap();
    exchange.run_until(ms(2)).unwrap();
    let fair = exchange.fair_rates();
    assert_eq!(fair, [(first, 5e6), (second, 3e6)]);
}

/// One session over a link with delay 0 and maximum capacity.
struct Timeless;

impl crate::Visitor for Timeless {
    type Output = u64;

    fn visit<R: RateController>(self) -> u64 {
        let wire = Wire::new(Bandwidth::from_bits_per_sec(crate::MAX_RATE), Span::ZERO);
        let mut exchange = Exchange::<R>::try_new(&Settings::default(), &[wire]).unwrap();
        exchange.join(Time::ZERO, &[0], Bandwidth::MAX).unwrap();
        exchange.run_until(Time::from_nanos(1_000)).unwrap();
        exchange.counters().cycles
    }
}

#[test]
fn time_passes_where_nothing_takes_any() {
    for protocol in crate::Protocol::ALL {
        let cycles = protocol.run(Timeless);
        assert!((1..=1_002).contains(&cycles), "{protocol}: {cycles}");
    }
}
