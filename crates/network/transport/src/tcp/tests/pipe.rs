//! The path between both ends: a link of the test network and a fate for every segment.

use fabric::{LinkConfig, QueueConfig, QueueLimit, Rate};
use testnet::{Event, Fate, Testnet};

use super::{Bandwidth, Bytes, Config, Ect, Endpoint, Segment, Span, Time};
use crate::tcp::Transmit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) segment: Segment,
    pub(super) ect: Ect,
    pub(super) fate: Fate,
    /// Number of segments with payload that this side has already sent.
    pub(super) index: u64,
}

type Script = Box<dyn FnMut(&Entry) -> Fate>;

pub(super) struct Pipe {
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) now: Time,
    net: Testnet<Segment>,
    script: Script,
    data_sent: [u64; 2],
    pub(super) log: Vec<Entry>,
    pub(super) logging: bool,
    /// Whether applications read received data.
    pub(super) reading: bool,
    pub(super) inspect: fn(&Self),
}

impl Pipe {
    pub(super) fn new(config: &Config, delay: Span) -> Self {
        let mut client = Endpoint::connect(config, u32::MAX - 7_000);
        client.open(Time::ZERO);
        let queue = QueueConfig { limit: QueueLimit::UNLIMITED, ..QueueConfig::default() };
        Self {
            client,
            server: Endpoint::listen(config, 77),
            now: Time::ZERO,
            net: Testnet::new(1, &[LinkConfig { delay, queue, ..LinkConfig::default() }]),
            script: Box::new(|_| Fate::Deliver),
            data_sent: [0; 2],
            log: Vec::new(),
            logging: true,
            reading: true,
            inspect: |_| {},
        }
    }

    /// Transmission time of a byte at the bottleneck of either direction; 0: none.
    pub(super) fn set_nanos_per_byte(&mut self, nanos: u64) {
        let rate = 8_000_000_000_u64.checked_div(nanos).map(Bandwidth::from_bits_per_sec);
        self.net.configure(0, |link| link.rate = rate.map_or(Rate::Unlimited, Rate::Constant));
    }

    /// Limits the queue at the bottleneck of either direction.
    pub(super) fn set_queue(&mut self, limit: Bytes) {
        self.net.configure(0, |link| link.queue.limit = QueueLimit::Bytes(limit));
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
        let bytes = u32::from(segment.length) + segment.header_bytes();
        self.net.send_with(0, from as usize, bytes, segment, entry.fate);
    }

    /// Advances to the next event, if it is not after `until`.
    pub(super) fn step(&mut self, until: Time) -> bool {
        self.flush();
        let timers = [self.client.next_wake(), self.server.next_wake()];
        let event = self.net.step(timers.into_iter().flatten().min(), until);
        self.now = self.net.now();
        match event {
            Some(Event::Arrival { to, message, marked, .. }) => {
                let (now, reading) = (self.now, self.reading);
                let end = self.end(if to == 0 { Side::Client } else { Side::Server });
                end.on_segment(now, &message, marked);
                if reading {
                    let bytes = end.readable();
                    end.read(bytes);
                }
            }
            Some(Event::Deadline | Event::Timer(_)) => {
                self.client.on_wake(self.now);
                self.server.on_wake(self.now);
            }
            None => return false,
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

    /// Sends `bytes` from the client and runs until they are acknowledged. Returns the time taken.
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

    /// Runs past the handshake.
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
