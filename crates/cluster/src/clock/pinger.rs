//! Who is asked when, and what came of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use base::{RandomStream, Span, Time};
use ring::hmac;

use super::datagram::{Kind, Ping, key};
use super::{Exchange, Offset, OffsetFilter, PathStatistics, Secret};

/// Questions in quick succession to a peer that is new, or answers again.
const BURST: u32 = 16;

/// Between questions of a burst.
const QUICK: Span = Span::from_millis(20);

/// Between questions afterwards.
const STEADY: Span = Span::from_millis(250);

/// An answer that takes longer is none.
const PATIENCE: Span = Span::from_secs(1);

/// Asks other machines for their time, and answers when asked. Each pair of agents has two secrets,
/// one for each direction, so that no third agent can answer for one of them.
#[derive(Debug)]
pub struct Pinger {
    random: RandomStream,
    number: u64,
    /// By the name of the agent: two may state one address, and only one of them answers there.
    peers: BTreeMap<String, Peer>,
    /// Keys of the questions that agents ask, by their names.
    asked_with: BTreeMap<String, hmac::Key>,
}

#[derive(Debug)]
struct Peer {
    at: SocketAddr,
    key: hmac::Key,
    next: Time,
    burst: u32,
    asked: VecDeque<(u64, Time)>,
    /// Unanswered since the last answer.
    silent: u32,
    filter: OffsetFilter,
    path: PathStatistics,
}

impl Pinger {
    /// A pinger without peers. `seed` is random, another one at each start: the numbers of
    /// questions start there.
    pub fn new(seed: u64) -> Self {
        Self {
            random: RandomStream::new(seed, "pinger"),
            number: seed,
            peers: BTreeMap::new(),
            asked_with: BTreeMap::new(),
        }
    }

    /// Starts to ask the agent `name` at `at`, with this secret; what it has answered elsewhere is
    /// forgotten.
    pub fn add(&mut self, now: Time, name: &str, at: SocketAddr, secret: &Secret) {
        if self.peers.get(name).is_some_and(|peer| peer.at == at) {
            return;
        }
        let peer = Peer {
            at,
            key: key(secret),
            next: now,
            burst: BURST,
            asked: VecDeque::new(),
            silent: 0,
            filter: OffsetFilter::default(),
            path: PathStatistics::default(),
        };
        self.peers.insert(name.to_owned(), peer);
    }

    /// Answers the questions of the agent `name` that are made with this secret.
    pub fn answer_to(&mut self, name: &str, secret: &Secret) {
        self.asked_with.insert(name.to_owned(), key(secret));
    }

    /// When [`Self::poll`] has something to send.
    pub fn next_wake(&self) -> Option<Time> {
        self.peers.values().map(|peer| peer.next).min()
    }

    /// The next question that is due: to whom, and the datagram, to be sent at once.
    pub fn poll(&mut self, now: Time) -> Option<(SocketAddr, Vec<u8>)> {
        let peer = self.peers.values_mut().find(|peer| peer.next <= now)?;
        while peer.asked.front().is_some_and(|(_, sent)| now.since(*sent) > PATIENCE) {
            peer.asked.pop_front();
            peer.path.lose();
            peer.silent += 1;
        }
        let pause = if peer.burst > 0 { QUICK } else { STEADY };
        peer.burst = peer.burst.saturating_sub(1);
        // Up to a tenth more, so that many machines do not ask in step.
        let more = (self.random.unit() * pause.as_nanos() as f64 / 10.0) as u64;
        peer.next = now + pause + Span::from_nanos(more);
        self.number = self.number.wrapping_add(1);
        peer.asked.push_back((self.number, now));
        let ping = Ping { kind: Kind::Question, number: self.number, stamp: now };
        Some((peer.at, ping.encode(&peer.key).to_vec()))
    }

    /// A datagram was received from `from` at `now`. What to send back, if anything.
    pub fn on_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let number = Ping::number(bytes)?;
        for peer in self.peers.values_mut() {
            let Some(at) = peer.asked.iter().position(|(asked, _)| *asked == number) else {
                continue;
            };
            if let Some(Ping { kind: Kind::Answer, stamp, .. }) = Ping::decode(bytes, &peer.key) {
                peer.answer(at, stamp, now);
                return None;
            }
        }
        let askers = self.peers.iter().filter(|(_, peer)| peer.at == from);
        let mut keys = askers.filter_map(|(name, _)| self.asked_with.get(name));
        let (ping, key) = keys.find_map(|key| Some((Ping::decode(bytes, key)?, key)))?;
        if ping.kind != Kind::Question {
            return None;
        }
        let answer = Ping { kind: Kind::Answer, number: ping.number, stamp: now };
        Some(answer.encode(key).to_vec())
    }

    /// The offset of another agent's clock now; `None` before it has answered.
    pub fn offset(&self, now: Time, name: &str) -> Option<Offset> {
        self.peers.get(name)?.filter.offset(now)
    }

    /// How often another agent's clock was found to have been set since it was added.
    pub fn steps(&self, name: &str) -> u64 {
        self.peers.get(name).map_or(0, |peer| peer.filter.steps())
    }

    /// Loss and round trips of the path to another agent.
    pub fn path(&self, name: &str) -> Option<&PathStatistics> {
        self.peers.get(name).map(|peer| &peer.path)
    }
}

impl Peer {
    fn answer(&mut self, at: usize, stamp: Time, now: Time) {
        /// So many questions without an answer: whoever answers again may have been away.
        const AWAY: u32 = 8;
        let Some((_, sent)) = self.asked.remove(at) else { return };
        if self.silent >= AWAY {
            (self.burst, self.next) = (BURST, now);
        }
        self.silent = 0;
        self.path.answer(now, now.since(sent));
        self.filter.add(Exchange { sent, received: stamp, answered: stamp, returned: now });
    }
}
