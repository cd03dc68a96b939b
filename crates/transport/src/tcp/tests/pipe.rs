//! The path: a delay and a fate for every segment.

use std::collections::BTreeMap;

use super::{Config, Endpoint, Segment, Span, Time};
use crate::tcp::Transmit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Deliver,
    Drop,
    /// Delivered this much later.
    Late(Span),
    /// Delivered, and once more this much later.
    Twice(Span),
    Mark,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) segment: Segment,
    pub(super) ect: bool,
    pub(super) fate: Fate,
    /// Number of segments with payload that this side has sent before.
    pub(super) index: u64,
}

type Script = Box<dyn FnMut(&Entry) -> Fate>;

pub(super) struct Pipe {
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) now: Time,
    pub(super) delay: Span,
    /// Time that a byte takes at the bottleneck, per direction.
    pub(super) nanos_per_byte: u64,
    free_at: [Time; 2],
    script: Script,
    wire: BTreeMap<(Time, u64), (Side, Segment, bool)>,
    sequence: u64,
    data_sent: [u64; 2],
    pub(super) log: Vec<Entry>,
    pub(super) logging: bool,
    /// Whether applications read what arrives.
    pub(super) reading: bool,
    pub(super) inspect: fn(&Self),
}

impl Pipe {
    pub(super) fn new(config: &Config, delay: Span) -> Self {
        let mut client = Endpoint::connect(config, u32::MAX - 7_000);
        client.open(Time::ZERO);
        Self {
            client,
            server: Endpoint::listen(config, 77),
            now: Time::ZERO,
            delay,
            nanos_per_byte: 0,
            free_at: [Time::ZERO; 2],
            script: Box::new(|_| Fate::Deliver),
            wire: BTreeMap::new(),
            sequence: 0,
            data_sent: [0; 2],
            log: Vec::new(),
            logging: true,
            reading: true,
            inspect: |_| {},
        }
    }

    pub(super) fn script(mut self, script: impl FnMut(&Entry) -> Fate + 'static) -> Self {
        self.script = Box::new(script);
        self
    }

    /// Loses the client's data segments of these indices.
    pub(super) fn dropping(self, indices: &'static [u64]) -> Self {
        self.script(move |entry| {
            let data = entry.from == Side::Client && entry.segment.length > 0;
            if data && indices.contains(&entry.index) { Fate::Drop } else { Fate::Deliver }
        })
    }

    pub(super) fn end(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    pub(super) fn flush(&mut self) {
        for side in [Side::Client, Side::Server] {
            let now = self.now;
            while let Some(transmit) = self.end(side).poll_transmit(now) {
                self.carry(side, transmit);
            }
        }
        (self.inspect)(self);
    }

    fn carry(&mut self, from: Side, transmit: Transmit) {
        let segment = transmit.segment;
        let mut entry = Entry {
            at: self.now,
            from,
            segment,
            ect: transmit.ect,
            fate: Fate::Deliver,
            index: self.data_sent[from as usize],
        };
        self.data_sent[from as usize] += u64::from(segment.length > 0);
        entry.fate = (self.script)(&entry);
        if self.logging {
            self.log.push(entry);
        }
        let bytes = u64::from(segment.length) + u64::from(segment.header_bytes());
        let free = self.free_at[from as usize].max(self.now);
        self.free_at[from as usize] = free + Span::from_nanos(bytes * self.nanos_per_byte);
        let at = self.free_at[from as usize] + self.delay;
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        let mut arrive = |at: Time| {
            self.sequence += 1;
            self.wire.insert((at, self.sequence), (to, segment, entry.fate == Fate::Mark));
        };
        match entry.fate {
            Fate::Deliver | Fate::Mark => arrive(at),
            Fate::Drop => {}
            Fate::Late(span) => arrive(at + span),
            Fate::Twice(span) => {
                arrive(at);
                arrive(at + span);
            }
        }
    }

    /// Moves to the next event, if it is not after `until`.
    pub(super) fn step(&mut self, until: Time) -> bool {
        self.flush();
        let arrival = self.wire.keys().next().map(|key| key.0);
        let timers = [self.client.next_timeout(), self.server.next_timeout()];
        let next = timers.into_iter().chain([arrival]).flatten().min();
        let Some(at) = next.filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            if let Some((_, (to, segment, marked))) = self.wire.pop_first() {
                let (now, reading) = (self.now, self.reading);
                let end = self.end(to);
                end.on_segment(now, &segment, marked);
                if reading {
                    let bytes = end.readable();
                    end.read(bytes);
                }
            }
        } else {
            self.client.on_timeout(at);
            self.server.on_timeout(at);
        }
        true
    }

    pub(super) fn run_until(&mut self, until: Time) {
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 10_000_000, "no progress at {}", self.now);
        }
    }

    /// Runs for this long.
    pub(super) fn run(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    /// Sends `bytes` from the client and runs until they are acknowledged. Gives the time taken.
    pub(super) fn transfer(&mut self, bytes: u64) -> Span {
        let (start, goal) = (self.now, self.client.acked() + self.client.unacked() + bytes);
        let received = self.server.received() + self.client.unacked() + bytes;
        self.client.write(bytes);
        while self.client.acked() < goal {
            assert!(self.step(start + Span::from_secs(4000)), "not done at {}", self.now);
        }
        assert_eq!(self.server.received(), received);
        self.now.since(start)
    }

    /// Past the handshake.
    pub(super) fn established(mut self) -> Self {
        while !(self.client.is_established() && self.server.is_established()) {
            assert!(self.step(Time::from_nanos(u64::MAX / 2)));
        }
        self
    }

    pub(super) fn sent_by(&self, side: Side) -> impl Iterator<Item = &Entry> {
        self.log.iter().filter(move |entry| entry.from == side)
    }

    /// Segments without payload, SYN, FIN or RST.
    pub(super) fn pure_acks(&self, side: Side) -> usize {
        let plain = |entry: &&Entry| {
            let special = crate::tcp::Flags::SYN | crate::tcp::Flags::FIN | crate::tcp::Flags::RST;
            entry.segment.length == 0 && !entry.segment.flags.intersects(special)
        };
        self.sent_by(side).filter(plain).count()
    }
}
