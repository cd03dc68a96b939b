//! Both gateways at the ends of one bottleneck.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, Span, Time};
use queue::{Ecn, QueueLimit};

use super::*;
use crate::constants::Constants;
use crate::digest::Key;
use crate::receivebox::{self, ReceiveBox};

const PACKET: u32 = 1500;

/// A bottleneck with a drop-tail queue, delay in both directions, and the gateways around it. The
/// site keeps `window` packets at the sendbox.
struct Path {
    now: Time,
    rate: Bandwidth,
    delay: Span,
    queue: VecDeque<(u64, u32)>,
    queue_limit: usize,
    /// Maximum number of packets in the network since the last query.
    peak: usize,
    free_at: Time,
    flight: VecDeque<(Time, u64, u32)>,
    to_receivebox: VecDeque<(Time, Vec<u8>)>,
    to_sendbox: VecDeque<(Time, Vec<u8>)>,
    sendbox: SendBox<u64>,
    receivebox: Option<ReceiveBox>,
    bundle: BundleIndex,
    next: u64,
    /// Number of unfinished packets of the site, which approaches it by one per delivery.
    window: u64,
    open: u64,
    delivered: u64,
    dropped: u64,
    transitions: Vec<Transition>,
    lose_ack: Box<dyn FnMut(u64) -> bool>,
    messages: u64,
    /// Messages of the receivebox, for attackers.
    recorded: Vec<Vec<u8>>,
}

/// The site has no congestion control, so the queue must not drop packets.
fn settings() -> Settings {
    let mut settings = Settings::new(7, key());
    settings.scheduler.limit = QueueLimit::Packets(20_000);
    // Without cross traffic, control need not wait until slow starts have ended.
    (settings.constants.start.settling, settings.constants.start.settling_rounds) = (0.0, 0.0);
    settings
}

fn key() -> Key {
    Key::from_secret("a secret")
}

impl Path {
    fn new(mbits: u64, rtt: Span) -> Self {
        Self::with(mbits, rtt, settings())
    }

    fn with(mbits: u64, rtt: Span, settings: Settings) -> Self {
        let now = Time::ZERO + Span::from_secs(1);
        let mut sendbox = SendBox::new(1);
        let bundle = sendbox.add(now, settings);
        let mut path = Self {
            now,
            rate: Bandwidth::from_mbits_per_sec(mbits),
            delay: Span::from_nanos(rtt.as_nanos() / 2),
            queue: VecDeque::new(),
            queue_limit: 20_000,
            peak: 0,
            free_at: now,
            flight: VecDeque::new(),
            to_receivebox: VecDeque::new(),
            to_sendbox: VecDeque::new(),
            sendbox,
            receivebox: None,
            bundle,
            next: 0,
            window: 0,
            open: 10,
            delivered: 0,
            dropped: 0,
            transitions: Vec::new(),
            lose_ack: Box::new(|_| false),
            messages: 0,
            recorded: Vec::new(),
        };
        path.start_receivebox(1);
        path
    }

    fn start_receivebox(&mut self, incarnation: u64) {
        let mut receivebox = ReceiveBox::new(incarnation);
        let settings = receivebox::Settings { id: 7, key: key(), overhead: Bytes::new(38) };
        receivebox.add(self.now, settings);
        self.receivebox = Some(receivebox);
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.now += Span::from_micros(100);
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        while self.sendbox.next_wake().is_some_and(|at| at <= now) {
            self.sendbox.on_wake(now);
            self.take_outputs();
        }
        // The site limits its unfinished packets like the windows of connections.
        let open = self.open.min(self.window);
        let missing = open.saturating_sub(self.next - self.delivered - self.dropped);
        for _ in 0..missing {
            self.next += 1;
            let digest = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            let arrival = Arrival {
                body: digest,
                size: PACKET,
                flow: (self.next % 4) as u32,
                dscp: 0,
                ecn: Ecn::NotCapable,
                digest,
            };
            self.sendbox.on_packet(now, self.bundle, arrival);
            self.take_outputs();
        }
        self.peak = self.peak.max(self.queue.len());
        while self.free_at <= now {
            let Some((digest, size)) = self.queue.pop_front() else { break };
            let from = self.free_at.max(Time::from_nanos(now.as_nanos() - 100_000));
            self.free_at = from + self.rate.time_for(Bytes::new(u64::from(size) + 38));
            self.flight.push_back((self.free_at + self.delay, digest, size));
        }
        while self.flight.front().is_some_and(|(at, ..)| *at <= now) {
            let (at, digest, size) = self.flight.pop_front().unwrap();
            self.delivered += 1;
            self.open += 1;
            if let Some(receivebox) = &mut self.receivebox {
                receivebox.on_packet(at, BundleIndex(0), size, digest);
            }
        }
        while self.to_receivebox.front().is_some_and(|(at, _)| *at <= now) {
            let (at, message) = self.to_receivebox.pop_front().unwrap();
            if let Some(receivebox) = &mut self.receivebox {
                receivebox.on_message(at, &message);
            }
        }
        while let Some(output) = self.receivebox.as_mut().and_then(ReceiveBox::poll) {
            self.messages += 1;
            self.recorded.push(output.payload.clone());
            if !(self.lose_ack)(self.messages) {
                self.to_sendbox.push_back((now + self.delay, output.payload));
            }
        }
        while self.to_sendbox.front().is_some_and(|(at, _)| *at <= now) {
            let (_, message) = self.to_sendbox.pop_front().unwrap();
            self.sendbox.on_message(now, &message);
            self.take_outputs();
        }
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.sendbox.poll() {
            match output {
                Output::Forward { body, .. } => {
                    if self.queue.is_empty() {
                        self.free_at = self.free_at.max(self.now);
                    }
                    if self.queue.len() < self.queue_limit {
                        self.queue.push_back((body, PACKET));
                    } else {
                        self.dropped += 1;
                    }
                }
                Output::Drop { .. } => self.dropped += 1,
                Output::Message { payload, .. } => {
                    self.to_receivebox.push_back((self.now + self.delay, payload));
                }
                Output::Transition { transition, .. } => self.transitions.push(transition),
            }
        }
    }

    fn status(&self) -> Status {
        self.sendbox.status(self.bundle).unwrap()
    }

    /// Utilisation of the bottleneck over the next `span`.
    fn utilisation(&mut self, span: Span) -> f64 {
        let before = self.delivered;
        self.run(span);
        let bits = (self.delivered - before) as f64 * f64::from(PACKET + 38) * 8.0;
        bits / span.as_secs_f64() / self.rate.bits_per_sec() as f64
    }
}

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn does_not_pace_below_the_capacity() {
    let mut path = Path::new(100, Span::from_millis(50));
    path.window = 100;
    path.run(secs(10));
    assert_eq!(path.status().state, State::Learning);
    assert_eq!(path.status().rate, None);
    assert!(path.transitions.is_empty());
    assert_eq!(path.status().min_rtt.unwrap().as_nanos() / 1_000_000, 50);
}

#[test]
fn idle_bundle_sends_one_heartbeat_a_second() {
    let mut sendbox = SendBox::<u64>::new(1);
    let start = Time::ZERO + secs(1);
    for id in 1..=100 {
        sendbox.add(start, Settings::new(id, key()));
    }
    let mut messages = 0;
    while let Some(at) = sendbox.next_wake().filter(|at| *at <= start + secs(10)) {
        sendbox.on_wake(at);
        while let Some(output) = sendbox.poll() {
            messages += u32::from(matches!(output, Output::Message { .. }));
        }
    }
    assert_eq!(messages, 100 * 11);
}

#[test]
fn the_queue_moves_to_the_sendbox() {
    for (mbits, rtt) in [(12, 50), (96, 50), (96, 10), (500, 100), (24, 300)] {
        let mut path = Path::new(mbits, Span::from_millis(rtt));
        // Three times the bandwidth-delay product.
        path.window = (mbits * rtt * 1_000 / 8 / 1538 * 3).min(8_000);
        path.run(secs(10));
        assert_eq!(path.status().state, State::Delay, "{mbits} {rtt}");
        let utilisation = path.utilisation(secs(10));
        assert!(utilisation > 0.95, "{mbits} Mbit/s, {rtt} ms: {utilisation}");
        let waiting = path.status().backlog_packets;
        assert!(waiting > path.window / 4, "{mbits} Mbit/s, {rtt} ms: {waiting}");
        path.peak = 0;
        path.run(secs(2));
        let peak = path.rate.time_for(Bytes::new(path.peak as u64 * 1538));
        assert!(peak < Span::from_millis(40), "{mbits} Mbit/s, {rtt} ms: {peak:?}");
    }
}

#[test]
fn control_begins_when_slow_starts_are_over() {
    for (rtt, settling) in [(50, 5), (200, 10)] {
        let settings = Settings { constants: Constants::default(), ..settings() };
        let mut path = Path::with(24, Span::from_millis(rtt), settings);
        path.window = 24 * rtt * 1_000 / 8 / 1538 * 3;
        path.run(secs(settling));
        assert_eq!((path.status().state, path.status().rate), (State::Learning, None));
        path.run(secs(10));
        assert_eq!(path.status().state, State::Delay);
        // After an idle time the flows restart, but the bundle stays controlled.
        path.window = 0;
        path.run(secs(3));
        path.window = 24 * rtt * 1_000 / 8 / 1538 * 3;
        path.run(secs(3));
        assert_eq!(path.status().state, State::Delay);
    }
}

#[test]
fn detects_queue_older_than_the_bundle() {
    let mut path = Path::new(96, Span::from_millis(50));
    // From the first round trip on only the full queue is visible.
    (path.open, path.window) = (1200, 1200);
    path.run(secs(15));
    assert_eq!(path.status().state, State::Delay);
    let utilisation = path.utilisation(secs(5));
    assert!(utilisation > 0.95, "{utilisation}");
    assert!(path.status().rtt.unwrap() < Span::from_millis(75), "{:?}", path.status());
}

#[test]
fn fails_open_without_feedback_and_resumes_with_it() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 1200;
    path.run(secs(5));
    assert_eq!(path.status().state, State::Delay);
    path.receivebox = None;
    path.run(Span::from_millis(1200));
    assert_eq!(path.status().state, State::FailOpen);
    path.run(secs(1));
    assert_eq!((path.status().rate, path.status().backlog_packets), (None, 0));
    path.start_receivebox(2);
    path.run(secs(4));
    assert_eq!(path.status().state, State::Delay, "{:?}", path.transitions);
}

#[test]
fn receivebox_restart_does_not_change_the_state() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 1200;
    path.run(secs(5));
    path.start_receivebox(2);
    let utilisation = path.utilisation(secs(5));
    assert!(utilisation > 0.93, "{utilisation}");
    assert_eq!(path.status().counters.peer_restarts, 1);
    assert!(path.transitions.iter().all(|change| change.to != State::FailOpen));
}

#[test]
fn works_with_half_of_the_acknowledgements() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 1200;
    path.lose_ack = Box::new(|n| n % 2 == 0);
    path.run(secs(5));
    let utilisation = path.utilisation(secs(10));
    assert!(utilisation > 0.95, "{utilisation}");
    assert_eq!(path.status().state, State::Delay);
}

#[test]
fn forged_messages_do_not_change_the_state() {
    let mut genuine = Path::new(96, Span::from_millis(50));
    let mut attacked = Path::new(96, Span::from_millis(50));
    for path in [&mut genuine, &mut attacked] {
        path.window = 1200;
        path.run(secs(3));
    }
    for round in 0..300_usize {
        let old = attacked.recorded[round * 7 % (attacked.recorded.len() - 50)].clone();
        let mut flipped = old.clone();
        flipped[round % old.len()] ^= 1 << (round % 8);
        for message in [&old, &flipped, &old[..round % old.len()].to_vec(), &vec![0xff; 70]] {
            attacked.sendbox.on_message(attacked.now, message);
            attacked.take_outputs();
        }
        genuine.run(Span::from_millis(10));
        attacked.run(Span::from_millis(10));
    }
    assert_eq!(genuine.delivered, attacked.delivered);
    assert_eq!(genuine.status().rate, attacked.status().rate);
    assert!(attacked.status().counters.rejected_messages >= 600);
}

#[test]
fn follows_slower_path_immediately_and_faster_path_soon() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 1500;
    path.queue_limit = 10_000;
    path.run(secs(5));
    path.rate = Bandwidth::from_mbits_per_sec(24);
    path.run(secs(2));
    path.peak = 0;
    let utilisation = path.utilisation(secs(5));
    let peak = path.rate.time_for(Bytes::new(path.peak as u64 * 1538));
    assert!(peak < Span::from_millis(60), "{peak:?}");
    assert!(utilisation > 0.93, "{utilisation}");
    path.rate = Bandwidth::from_mbits_per_sec(96);
    path.run(secs(4));
    let utilisation = path.utilisation(secs(3));
    assert!(utilisation > 0.93, "{utilisation}");
}

#[test]
fn longer_path_is_not_a_queue() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 2500;
    path.run(secs(5));
    path.delay = Span::from_millis(45);
    path.run(secs(4));
    let utilisation = path.utilisation(secs(3));
    assert!(utilisation > 0.93, "{utilisation} {:?}", path.status());
    path.delay = Span::from_millis(25);
    path.run(secs(2));
    let utilisation = path.utilisation(secs(3));
    assert!(utilisation > 0.93, "{utilisation}");
}

#[test]
fn removal_sends_queued_packets() {
    let mut path = Path::new(10, Span::from_millis(50));
    path.window = 400;
    path.run(secs(5));
    let waiting = path.status().backlog_packets;
    assert!(waiting > 100, "{waiting}");
    let before = path.queue.len();
    path.sendbox.remove(path.now, path.bundle);
    path.take_outputs();
    assert_eq!(path.queue.len() - before, waiting as usize);
}

#[test]
fn rate_stays_below_the_ceiling() {
    let now = Time::ZERO + secs(1);
    let mut path = Path::new(96, Span::from_millis(50));
    let ceiling = Some(Bandwidth::from_mbits_per_sec(20));
    path.bundle = path.sendbox.add(now, Settings { ceiling, ..settings() });
    path.window = 1000;
    path.run(secs(5));
    let utilisation = path.utilisation(secs(10));
    assert!((0.19..0.21).contains(&utilisation), "{utilisation}");
}

#[test]
fn a_replaced_bundle_gets_feedback() {
    let mut path = Path::new(96, Span::from_millis(50));
    path.window = 1200;
    path.run(secs(3));
    path.bundle = path.sendbox.add(path.now, settings());
    path.take_outputs();
    path.run(secs(5));
    assert_eq!(path.status().state, State::Delay, "{:?}", path.transitions);
}

/// Sends a packet of an encapsulated bundle; returns its datagram, if it is encapsulated, and
/// appends messages for the receivebox to `messages`.
fn send_one(
    sendbox: &mut SendBox<u64>,
    now: Time,
    bundle: BundleIndex,
    messages: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    let (flow, dscp, ecn) = (1, 0, Ecn::NotCapable);
    let arrival = Arrival { body: 1, size: 100, flow, dscp, ecn, digest: 0 };
    sendbox.on_packet(now, bundle, arrival);
    let mut datagram = None;
    while let Some(output) = sendbox.poll() {
        match output {
            Output::Forward { encapsulation, .. } => {
                datagram = encapsulation.map(|envelope| {
                    let mut datagram = vec![0x45; crate::encapsulation::HEADER + 100];
                    envelope.seal(&mut datagram);
                    datagram
                });
            }
            Output::Message { payload, .. } => messages.push(payload),
            Output::Drop { .. } | Output::Transition { .. } => {}
        }
    }
    datagram
}

#[test]
fn encapsulates_only_what_the_receivebox_has_confirmed_to_accept() {
    let now = Time::from_nanos(1_000_000_000);
    let mut sendbox = SendBox::new(5);
    let marking = crate::settings::Marking::Encapsulation;
    let bundle = sendbox.add(now, Settings { marking, ..settings() });
    let mut messages = Vec::new();
    sendbox.on_wake(now);
    assert_eq!(send_one(&mut sendbox, now, bundle, &mut messages), None, "no report yet");
    for incarnation in [8, 9] {
        // The receivebox starts, or restarts.
        let mut receivebox = ReceiveBox::new(incarnation);
        let settings = receivebox::Settings { id: 7, key: key(), overhead: Bytes::new(38) };
        receivebox.add(now, settings);
        let heartbeat = now + Span::from_secs(incarnation);
        sendbox.on_wake(heartbeat);
        let mut confirmed = false;
        for _ in 0..4 {
            let datagram = send_one(&mut sendbox, heartbeat, bundle, &mut messages);
            let accepted = datagram
                .as_ref()
                .is_some_and(|it| receivebox.on_encapsulated(heartbeat, &mut it.clone()).is_ok());
            // The first packets after a restart still use the key of the earlier receivebox.
            assert!(accepted || !confirmed, "incarnation {incarnation}");
            for message in std::mem::take(&mut messages) {
                receivebox.on_message(heartbeat, &message);
            }
            while let Some(output) = receivebox.poll() {
                let is_report = output.payload[3] == 2;
                sendbox.on_message(heartbeat, &output.payload);
                confirmed |= is_report && receivebox.status(BundleIndex(0)).unwrap().peer.is_some();
            }
        }
        assert!(confirmed, "incarnation {incarnation}");
        let datagram = send_one(&mut sendbox, heartbeat, bundle, &mut messages);
        let mut datagram = datagram.expect("encapsulated");
        assert!(receivebox.on_encapsulated(heartbeat, &mut datagram).is_ok());
        messages.clear();
    }
}
