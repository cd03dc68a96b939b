//! Schedules pings and evaluates the replies.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use base::{RandomStream, Span, Time};
use ring::hmac;

use super::datagram::{Kind, Ping, key};
use super::{Exchange, Offset, OffsetFilter, PathStatistics, Secret};

/// Pings of the initial burst to a peer that is new or was away.
const BURST: u32 = 16;

const BURST_INTERVAL: Span = Span::from_millis(20);

/// Interval of pings after the burst.
const PING_INTERVAL: Span = Span::from_millis(250);

/// A later reply is ignored.
const PING_TIMEOUT: Span = Span::from_secs(1);

/// Unanswered pings after which the next reply starts a burst: the peer may have been away.
const AWAY_THRESHOLD: u32 = 8;

/// Sends pings to other machines and answers theirs. Each pair of agents has two secrets, one for
/// each direction, so that no third agent can answer for one of them.
#[derive(Debug)]
pub struct Pinger {
    rng: RandomStream,
    number: u64,
    /// By agent name: two agents may claim one address, of which only one can answer.
    peers: BTreeMap<String, Peer>,
    /// Keys of other agents' requests, by agent name.
    request_keys: BTreeMap<String, hmac::Key>,
}

#[derive(Debug)]
struct Peer {
    at: SocketAddr,
    key: hmac::Key,
    next: Time,
    burst: u32,
    /// Number and time of the requests without a reply.
    pending: VecDeque<(u64, Time)>,
    /// Unanswered requests since the last reply.
    unanswered: u32,
    filter: OffsetFilter,
    path: PathStatistics,
}

impl Pinger {
    /// A pinger without peers. `seed` must be random: the numbers of requests start there.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: RandomStream::new(seed, "pinger"),
            number: seed,
            peers: BTreeMap::new(),
            request_keys: BTreeMap::new(),
        }
    }

    /// Starts to ping the agent `name` at `at`. Its statistics restart if the address has changed.
    pub fn add(&mut self, now: Time, name: &str, at: SocketAddr, secret: &Secret) {
        if self.peers.get(name).is_some_and(|peer| peer.at == at) {
            return;
        }
        let peer = Peer {
            at,
            key: key(secret),
            next: now,
            burst: BURST,
            pending: VecDeque::new(),
            unanswered: 0,
            filter: OffsetFilter::default(),
            path: PathStatistics::default(),
        };
        self.peers.insert(name.to_owned(), peer);
    }

    /// Answers the requests of the agent `name` that are authenticated with this secret.
    pub fn answer_to(&mut self, name: &str, secret: &Secret) {
        self.request_keys.insert(name.to_owned(), key(secret));
    }

    /// The time of the next ping.
    pub fn next_wake(&self) -> Option<Time> {
        self.peers.values().map(|peer| peer.next).min()
    }

    /// The next ping that is due, and its destination. Send it at once.
    pub fn poll(&mut self, now: Time) -> Option<(SocketAddr, Vec<u8>)> {
        let peer = self.peers.values_mut().find(|peer| peer.next <= now)?;
        while peer.pending.front().is_some_and(|(_, sent)| now.since(*sent) > PING_TIMEOUT) {
            peer.pending.pop_front();
            peer.path.record_loss();
            peer.unanswered += 1;
        }
        let pause = if peer.burst > 0 { BURST_INTERVAL } else { PING_INTERVAL };
        peer.burst = peer.burst.saturating_sub(1);
        // Up to 10 % more, so that the pings of many machines do not synchronize.
        let more = (self.rng.unit() * pause.as_nanos() as f64 / 10.0) as u64;
        peer.next = now + pause + Span::from_nanos(more);
        self.number = self.number.wrapping_add(1);
        peer.pending.push_back((self.number, now));
        let ping = Ping { kind: Kind::Request, number: self.number, stamp: now };
        Some((peer.at, ping.encode(&peer.key).to_vec()))
    }

    /// Handles a datagram received from `from` at `now`. Returns the reply, if it was a request.
    pub fn on_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let number = Ping::number(bytes)?;
        for peer in self.peers.values_mut() {
            let Some(at) = peer.pending.iter().position(|(pending, _)| *pending == number) else {
                continue;
            };
            if let Some(Ping { kind: Kind::Reply, stamp, .. }) = Ping::decode(bytes, &peer.key) {
                peer.on_reply(at, stamp, now);
                return None;
            }
        }
        let requesters = self.peers.iter().filter(|(_, peer)| peer.at == from);
        let mut keys = requesters.filter_map(|(name, _)| self.request_keys.get(name));
        let (ping, key) = keys.find_map(|key| Some((Ping::decode(bytes, key)?, key)))?;
        if ping.kind != Kind::Request {
            return None;
        }
        let reply = Ping { kind: Kind::Reply, number: ping.number, stamp: now };
        Some(reply.encode(key).to_vec())
    }

    /// The current offset of another agent's clock; `None` before its first reply.
    pub fn offset(&self, now: Time, name: &str) -> Option<Offset> {
        self.peers.get(name)?.filter.offset(now)
    }

    /// How often another agent's clock was set since the agent was added.
    pub fn steps(&self, name: &str) -> u64 {
        self.peers.get(name).map_or(0, |peer| peer.filter.steps())
    }

    /// Loss and RTTs of the path to another agent.
    pub fn path(&self, name: &str) -> Option<&PathStatistics> {
        self.peers.get(name).map(|peer| &peer.path)
    }
}

impl Peer {
    fn on_reply(&mut self, at: usize, stamp: Time, now: Time) {
        let Some((_, sent)) = self.pending.remove(at) else { return };
        if self.unanswered >= AWAY_THRESHOLD {
            (self.burst, self.next) = (BURST, now);
        }
        self.unanswered = 0;
        self.path.record_answer(now, now.since(sent));
        self.filter.add(Exchange { sent, received: stamp, answered: stamp, returned: now });
    }
}
