//! Acknowledged messages to and from the other agents.
//!
//! **States, not changes.** Each agent has a set of keys to be sent; the values are looked up when
//! its next message is sent. Every received message acknowledges earlier ones. The keys of a lost
//! message are sent again, with the values of that time.
//!
//! **Reset.** An agent that detects the loss of another discards the state received from it, and
//! counts the reset. Each message has the sender's number of resets (`known`) and the recipient's
//! number as received by the sender (`knows`). An agent that receives a higher number resends all
//! states; a message for the state before a reset is discarded.

use std::collections::{BTreeMap, BTreeSet};

use base::{AgentId, Span, Time};

use super::message::{Entry, Head, Message};
use crate::{Error, Result};
use crate::{Output, Recipient};

/// Minimum interval of messages to one agent.
const MIN_MESSAGE_INTERVAL: Span = Span::from_millis(1);

/// Delay of an acknowledgement that no message carries.
const ACK_DELAY: Span = Span::from_millis(250);

/// Time without an acknowledgement after which a message is lost; doubled with each loss.
const ACK_TIMEOUT: Span = Span::from_millis(600);

const MAX_BACKOFF_DOUBLINGS: u32 = 3;

/// A message also counts as lost if it is missing after this many later ones.
const REORDER_THRESHOLD: u64 = 16;

const MAX_ENTRIES: usize = 1000;

/// A state that may have to be sent to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The use of a link by the sender's flows.
    Claim(u32),
    /// The rate that a link gives each flow that it limits.
    Offer(u32),
}

#[derive(Debug)]
struct Sent {
    lost_at: Time,
    keys: Vec<Key>,
}

#[derive(Debug, Default)]
struct Peer {
    due: BTreeSet<Key>,
    /// Send a message even if no key is due.
    must_send: bool,
    /// Time at which an acknowledgement is due.
    ack_at: Option<Time>,
    /// Earliest time of the next message.
    open: Time,
    /// Number of the last message.
    number: u64,
    sent: BTreeMap<u64, Sent>,
    /// Number of consecutive losses.
    lost: u32,
    seen: Seen,
    known: u64,
    knows: u64,
}

/// The received messages of another agent.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    highest: u64,
    /// Bit *i*: number `highest` − *i* has been received.
    latest: u64,
}

impl Seen {
    /// Whether a message is new. One older than the last 64 counts as a duplicate.
    fn take(&mut self, number: u64) -> bool {
        let shifted = |by: u64| 1_u64.checked_shl(by.min(64) as u32).unwrap_or(0);
        if self.latest == 0 || number > self.highest {
            let ahead = number.saturating_sub(self.highest);
            self.latest = self.latest.wrapping_mul(shifted(ahead)) | 1;
            self.highest = number;
            return true;
        }
        let bit = shifted(self.highest - number);
        let is_new = bit != 0 && self.latest & bit == 0;
        self.latest |= bit;
        is_new
    }

    /// Bit *i*: number `highest` − 1 − *i* is missing.
    fn missing(&self) -> u64 {
        let older = self.highest.saturating_sub(1).min(63) as u32;
        !(self.latest >> 1) & 1_u64.checked_shl(older).map_or(u64::MAX, |bit| bit - 1)
    }
}

#[derive(Debug, Default)]
pub(super) struct Received {
    /// Message number: later values replace earlier ones.
    pub(super) number: u64,
    pub(super) entries: Vec<Entry>,
    /// The sender has reset the state received from this agent.
    pub(super) reset: bool,
}

#[derive(Debug)]
pub(super) struct Channels {
    peers: Vec<Peer>,
}

impl Channels {
    pub(super) fn new(agents: usize) -> Self {
        Self { peers: (0..agents).map(|_| Peer::default()).collect() }
    }

    /// Adds a key to the next message to an agent.
    pub(super) fn put(&mut self, to: AgentId, key: Key) {
        if let Some(peer) = self.peers.get_mut(to.index()) {
            peer.due.insert(key);
        }
    }

    /// The recipient and the keys of the next message that may leave.
    pub(super) fn next(&mut self, now: Time) -> Option<(AgentId, Vec<Key>)> {
        let ready = |peer: &Peer| peer.next_send().is_some_and(|at| at <= now);
        let at = self.peers.iter().position(ready)?;
        let due = &mut self.peers[at].due;
        let rest = due.iter().nth(MAX_ENTRIES).copied();
        let rest = rest.map(|key| due.split_off(&key)).unwrap_or_default();
        Some((AgentId::at(at), std::mem::replace(due, rest).into_iter().collect()))
    }

    /// Encodes that message.
    pub(super) fn send(
        &mut self,
        now: Time,
        to: AgentId,
        keys: Vec<Key>,
        entries: &[Entry],
    ) -> Output {
        let peer = &mut self.peers[to.index()];
        let says = peer.must_send || !entries.is_empty();
        let mut number = 0;
        if says {
            peer.number += 1;
            number = peer.number;
            let lost_at = now + ACK_TIMEOUT * (1 << peer.lost.min(MAX_BACKOFF_DOUBLINGS));
            peer.sent.insert(number, Sent { lost_at, keys });
        }
        (peer.must_send, peer.ack_at, peer.open) = (false, None, now + MIN_MESSAGE_INTERVAL);
        let Peer { known, knows, seen, .. } = *peer;
        let head = Head { number, known, knows, highest: seen.highest, missing: seen.missing() };
        Output::Send { to: Recipient::One(to), bytes: Message::encode(head, entries) }
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let wakes = self.peers.iter().flat_map(|peer| [peer.next_send(), peer.next_timeout()]);
        wakes.flatten().min()
    }

    /// Treats unacknowledged messages as lost after the timeout.
    pub(super) fn on_wake(&mut self, now: Time) {
        for peer in &mut self.peers {
            if peer.next_timeout().is_some_and(|at| at <= now) {
                peer.lost += 1;
                peer.resend_all(|_, sent| sent.lost_at <= now);
            }
        }
    }

    /// Decodes a message; duplicates and messages for an earlier state have no entries.
    ///
    /// # Errors
    /// If it is malformed, from an unknown agent, or names an unknown link.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: AgentId,
        bytes: &[u8],
        has: impl Fn(u32) -> bool,
    ) -> Result<Received> {
        let Message { head, entries } = Message::decode(from, bytes)?;
        let malformed = |what| Error { from, at: 0, what };
        let peer = self.peers.get_mut(from.index()).ok_or(malformed("unknown sender"))?;
        if !entries.iter().all(|entry| has(entry.link())) {
            return Err(malformed("unknown link"));
        }
        let mut received = Received::default();
        if head.known < peer.knows {
            return Ok(received);
        }
        if head.known > peer.knows {
            (peer.knows, received.reset) = (head.known, true);
            peer.sent.clear();
        } else {
            peer.on_ack(&head);
        }
        if head.knows != peer.known {
            // The sender has not received the reset yet.
            peer.must_send |= head.knows < peer.known && head.number > 0;
            return Ok(received);
        }
        if head.number > 0 {
            peer.ack_at.get_or_insert(now + ACK_DELAY);
            if peer.seen.take(head.number) {
                (received.number, received.entries) = (head.number, entries);
            }
        }
        Ok(received)
    }

    /// Resets the state of a lost agent.
    pub(super) fn remove_agent(&mut self, agent: AgentId) {
        if let Some(peer) = self.peers.get_mut(agent.index()) {
            let (number, known) = (peer.number, peer.known + 1);
            *peer = Peer { number, known, ..Peer::default() };
        }
    }

    /// Sends a message that reports the reset.
    pub(super) fn send_state(&mut self, agent: AgentId) {
        if let Some(peer) = self.peers.get_mut(agent.index()) {
            peer.must_send = true;
        }
    }
}

impl Peer {
    fn next_send(&self) -> Option<Time> {
        let speaks = self.must_send || !self.due.is_empty();
        if speaks { Some(self.open) } else { self.ack_at.map(|at| at.max(self.open)) }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.sent.first_key_value().map(|(_, sent)| sent.lost_at)
    }

    fn on_ack(&mut self, head: &Head) {
        let before = self.sent.len();
        self.sent.retain(|number, _| {
            let behind = head.highest.checked_sub(*number);
            let missing = |by: u64| by > 64 || head.missing >> (by - 1) & 1 > 0;
            behind.is_none_or(|by| by > 0 && missing(by))
        });
        if self.sent.len() < before {
            self.lost = 0;
        }
        self.resend_all(|number, _| head.highest.saturating_sub(number) >= REORDER_THRESHOLD);
    }

    /// Adds the keys of lost messages to the next messages.
    fn resend_all(&mut self, is_lost: impl Fn(u64, &Sent) -> bool) {
        let lost: Vec<u64> =
            self.sent.iter().filter(|(at, sent)| is_lost(**at, sent)).map(|(at, _)| *at).collect();
        for number in lost {
            let keys = self.sent.remove(&number).map(|sent| sent.keys).unwrap_or_default();
            self.must_send |= keys.is_empty();
            self.due.extend(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_each_number_once() {
        let mut seen = Seen::default();
        for (number, is_new) in [
            (5, true),
            (5, false),
            (4, true),
            (4, false),
            (9, true),
            (6, true),
            (6, false),
            (9, false),
            (200, true),
            (137, true),
            (137, false),
            (136, false),
            (201, true),
            (200, false),
            (u64::MAX, true),
            (u64::MAX, false),
        ] {
            assert_eq!(seen.take(number), is_new, "{number}");
        }
    }

    #[test]
    fn reports_missing_numbers() {
        let mut seen = Seen::default();
        assert_eq!(seen.missing(), 0);
        for (number, missing) in [(1, 0), (2, 0), (5, 0b11), (3, 0b1), (4, 0), (6, 0)] {
            assert!(seen.take(number));
            assert_eq!(seen.missing(), missing, "{number}");
        }
        assert!(seen.take(70));
        // The numbers between 6 and 70.
        assert_eq!(seen.missing(), u64::MAX >> 1);
    }

    #[test]
    fn sends_lost_keys_again() {
        let (mut own, mut other) = (Channels::new(2), Channels::new(2));
        let (own_id, peer_id) = (AgentId(0), AgentId(1));
        let entry = |key: Key| match key {
            Key::Claim(link) => Entry::Claim(link, super::super::message::Claim::default()),
            Key::Offer(link) => Entry::Offer(link, super::super::message::Offer::default()),
        };
        let send = |channels: &mut Channels, now| {
            let (to, keys) = channels.next(now)?;
            let entries: Vec<Entry> = keys.iter().map(|key| entry(*key)).collect();
            let Output::Send { bytes, .. } = channels.send(now, to, keys, &entries) else {
                return None;
            };
            Some(bytes)
        };
        let mut now = Time::ZERO;
        own.put(peer_id, Key::Claim(7));
        assert!(send(&mut own, now).is_some());
        assert_eq!(send(&mut own, now), None);
        now += ACK_TIMEOUT;
        own.on_wake(now);
        let again = send(&mut own, now).expect("it is said again");
        let received = other.receive(now, own_id, &again, |_| true).expect("valid message");
        assert_eq!(received.entries, [entry(Key::Claim(7))]);
        assert_eq!(other.receive(now, own_id, &again, |_| true).expect("the same").entries, []);
        now += ACK_DELAY;
        let ack_at = send(&mut other, now).expect("it ack_at");
        own.receive(now, peer_id, &ack_at, |_| true).expect("valid message");
        assert_eq!((own.next_wake(), other.next_wake()), (None, None));
        // The sender receives the reset.
        other.remove_agent(own_id);
        other.send_state(own_id);
        let reset = send(&mut other, now + MIN_MESSAGE_INTERVAL).expect("it must_send");
        assert!(own.receive(now, peer_id, &reset, |_| true).expect("valid message").reset);
    }
}
