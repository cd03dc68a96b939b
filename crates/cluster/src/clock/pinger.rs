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

/// What a pinger needs to know.
#[derive(Clone, Copy, Debug)]
pub struct PingerOptions<'a> {
    /// The own secret, which agents of the cluster know and no other host.
    pub secret: &'a Secret,
    /// Random, another one at each start: where the numbers of questions start.
    pub seed: u64,
}

/// Asks other machines for their time, and answers when asked.
#[derive(Debug)]
pub struct Pinger {
    key: hmac::Key,
    random: RandomStream,
    number: u64,
    peers: BTreeMap<SocketAddr, Peer>,
}

#[derive(Debug)]
struct Peer {
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
    /// Knows nobody yet.
    pub fn new(options: PingerOptions<'_>) -> Self {
        Self {
            key: key(options.secret),
            random: RandomStream::new(options.seed, "pinger"),
            number: options.seed,
            peers: BTreeMap::new(),
        }
    }

    /// Starts to ask an agent with this secret; nothing if it is being asked already.
    pub fn add(&mut self, now: Time, peer: SocketAddr, secret: &Secret) {
        self.peers.entry(peer).or_insert_with(|| Peer {
            key: key(secret),
            next: now,
            burst: BURST,
            asked: VecDeque::new(),
            silent: 0,
            filter: OffsetFilter::default(),
            path: PathStatistics::default(),
        });
    }

    /// Asks a machine no more, and forgets what it has said.
    pub fn remove(&mut self, peer: SocketAddr) {
        self.peers.remove(&peer);
    }

    /// When [`Self::poll`] has something to send.
    pub fn next_wake(&self) -> Option<Time> {
        self.peers.values().map(|peer| peer.next).min()
    }

    /// The next question that is due: to whom, and the datagram, to be sent at once.
    pub fn poll(&mut self, now: Time) -> Option<(SocketAddr, Vec<u8>)> {
        let (address, peer) = self.peers.iter_mut().find(|(_, peer)| peer.next <= now)?;
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
        Some((*address, ping.encode(&peer.key).to_vec()))
    }

    /// A datagram has come at `now`. What is to be sent back to where it came from, if anything.
    pub fn on_datagram(&mut self, now: Time, bytes: &[u8]) -> Option<Vec<u8>> {
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
        let ping = Ping::decode(bytes, &self.key).filter(|ping| ping.kind == Kind::Question)?;
        let answer = Ping { kind: Kind::Answer, number: ping.number, stamp: now };
        Some(answer.encode(&self.key).to_vec())
    }

    /// The offset of another machine's clock now; `None` before it has answered.
    pub fn offset(&self, now: Time, peer: SocketAddr) -> Option<Offset> {
        self.peers.get(&peer)?.filter.offset(now)
    }

    /// How often another machine's clock was found to have been set since it was added.
    pub fn steps(&self, peer: SocketAddr) -> u64 {
        self.peers.get(&peer).map_or(0, |peer| peer.filter.steps())
    }

    /// Loss and round trips of the way to another machine.
    pub fn path(&self, peer: SocketAddr) -> Option<&PathStatistics> {
        self.peers.get(&peer).map(|peer| &peer.path)
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
