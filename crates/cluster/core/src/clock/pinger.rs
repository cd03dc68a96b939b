//! Schedules pings and evaluates the replies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// Min interval between two pings to any peers: with more than 250 peers, each gets fewer pings.
const MIN_SPACING: Span = Span::from_millis(1);

/// Max keys of agents that are not added yet.
const MAX_UNKNOWN_KEYS: usize = 64;

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
    /// Time of the next ping to each peer that does not rest.
    due: BTreeSet<(Time, String)>,
    /// No ping is sent before.
    next_ping: Time,
    /// The peers of the requests without a reply, by the number of the request.
    pending: BTreeMap<u64, String>,
    /// The peers that claim an address.
    names: BTreeMap<SocketAddr, BTreeSet<String>>,
    /// Keys of other agents' requests, by agent name.
    request_keys: BTreeMap<String, hmac::Key>,
}

#[derive(Debug)]
struct Peer {
    at: SocketAddr,
    key: hmac::Key,
    /// `None` while it rests.
    next: Option<Time>,
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
            due: BTreeSet::new(),
            next_ping: Time::ZERO,
            pending: BTreeMap::new(),
            names: BTreeMap::new(),
            request_keys: BTreeMap::new(),
        }
    }

    /// Starts to ping the agent `name` at `at`, or continues after [`Self::rest`]. Its statistics
    /// restart if the address has changed.
    pub fn add(&mut self, now: Time, name: &str, at: SocketAddr, secret: &Secret) {
        match self.peers.get_mut(name).filter(|peer| peer.at == at) {
            Some(Peer { next: Some(_), .. }) => return,
            Some(peer) => {
                (peer.burst, peer.next) = (BURST, Some(now));
                self.due.insert((now, name.to_owned()));
                return;
            }
            None => self.remove_peer(name),
        }
        let peer = Peer {
            at,
            key: key(secret),
            next: Some(now),
            burst: BURST,
            pending: VecDeque::new(),
            unanswered: 0,
            filter: OffsetFilter::default(),
            path: PathStatistics::default(),
        };
        self.peers.insert(name.to_owned(), peer);
        self.due.insert((now, name.to_owned()));
        self.names.entry(at).or_default().insert(name.to_owned());
    }

    /// Sends no pings to an agent that is lost, until it is added again. Its statistics remain.
    pub fn rest(&mut self, name: &str) {
        if let Some(next) = self.peers.get_mut(name).and_then(|peer| peer.next.take()) {
            self.due.remove(&(next, name.to_owned()));
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.remove_peer(name);
        self.request_keys.remove(name);
    }

    fn remove_peer(&mut self, name: &str) {
        self.rest(name);
        let Some(peer) = self.peers.remove(name) else { return };
        for (number, _) in peer.pending {
            self.pending.remove(&number);
        }
        if let Some(names) = self.names.get_mut(&peer.at) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&peer.at);
            }
        }
    }

    /// Answers the requests of the agent `name` that are authenticated with this secret. Too many
    /// agents that are not added are ignored.
    pub fn answer_to(&mut self, name: &str, secret: &Secret) {
        let max = self.peers.len() + MAX_UNKNOWN_KEYS;
        if !self.peers.contains_key(name) && self.request_keys.len() >= max {
            return;
        }
        self.request_keys.insert(name.to_owned(), key(secret));
    }

    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(next, _)| (*next).max(self.next_ping))
    }

    /// The next ping that is due, and its destination. Send it at once.
    pub fn poll(&mut self, now: Time) -> Option<(SocketAddr, Vec<u8>)> {
        self.next_wake().filter(|wake| *wake <= now)?;
        let (_, name) = self.due.pop_first()?;
        let peer = self.peers.get_mut(&name)?;
        while let Some((number, sent)) = peer.pending.front().copied()
            && now.since(sent) > PING_TIMEOUT
        {
            peer.pending.pop_front();
            self.pending.remove(&number);
            peer.path.record_loss();
            peer.unanswered += 1;
        }
        let pause = if peer.burst > 0 { BURST_INTERVAL } else { PING_INTERVAL };
        peer.burst = peer.burst.saturating_sub(1);
        // Up to 10 % more, so that the pings of many machines do not synchronize.
        let more = (self.rng.unit() * pause.as_nanos() as f64 / 10.0) as u64;
        let next = now + pause + Span::from_nanos(more);
        peer.next = Some(next);
        self.next_ping = now + MIN_SPACING;
        self.number = self.number.wrapping_add(1);
        peer.pending.push_back((self.number, now));
        self.pending.insert(self.number, name.clone());
        self.due.insert((next, name));
        let ping = Ping { kind: Kind::Request, number: self.number, stamp: now };
        Some((peer.at, ping.encode(&peer.key).to_vec()))
    }

    /// Handles a datagram received from `from` at `now`. Returns the reply, if it was a request.
    pub fn on_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let number = Ping::number(bytes)?;
        if let Some(peer) = self.pending.get(&number).and_then(|name| self.peers.get(name))
            && let Some(Ping { kind: Kind::Reply, stamp, .. }) = Ping::decode(bytes, &peer.key)
        {
            self.on_reply(number, stamp, now);
            return None;
        }
        let requesters = self.names.get(&from)?;
        let mut keys = requesters.iter().filter_map(|name| self.request_keys.get(name));
        let (ping, key) = keys.find_map(|key| Some((Ping::decode(bytes, key)?, key)))?;
        if ping.kind != Kind::Request {
            return None;
        }
        let reply = Ping { kind: Kind::Reply, number: ping.number, stamp: now };
        Some(reply.encode(key).to_vec())
    }

    fn on_reply(&mut self, number: u64, stamp: Time, now: Time) {
        let Some(name) = self.pending.remove(&number) else { return };
        let Some(peer) = self.peers.get_mut(&name) else { return };
        let Some(at) = peer.pending.iter().position(|(pending, _)| *pending == number) else {
            return;
        };
        let Some((_, sent)) = peer.pending.remove(at) else { return };
        if peer.unanswered >= AWAY_THRESHOLD
            && let Some(next) = peer.next
        {
            (peer.burst, peer.next) = (BURST, Some(now));
            self.due.remove(&(next, name.clone()));
            self.due.insert((now, name));
        }
        peer.unanswered = 0;
        peer.path.record_answer(now, now.since(sent));
        peer.filter.add(Exchange { sent, received: stamp, answered: stamp, returned: now });
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
