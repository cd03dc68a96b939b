//! Messages on their way out and in.
//!
//! **What travels** are states, not changes: what is due to a member is a set of keys, whose values
//! are looked up when its next message leaves. A message is confirmed by whatever comes back;
//! the keys of one that is lost are due once more, with the values that they have by then. So
//! nothing is ever said twice without need, and all is heard in the end.
//!
//! **Forgetting.** Who takes a member for lost forgets all that it has said, and counts that it
//! did. Each message tells how often (`known`), and how often the other did as far as is known
//! (`knows`): who learns that it was forgotten says all again, and what was meant for somebody who
//! has forgotten since is not taken in.

use std::collections::{BTreeMap, BTreeSet};

use base::{Span, Time};

use super::message::{Entry, Head, Message};
use crate::agreement::{Output, To};
use crate::{AgentId, Error, Result};

/// From one message to the next to the same member.
const HOLD: Span = Span::from_millis(1);

/// What has come is confirmed after so long, if there is nothing else to be said.
const CONFIRM: Span = Span::from_millis(250);

/// What is not confirmed for so long is lost; doubled each time.
const PATIENCE: Span = Span::from_millis(600);

/// At most doubled so often.
const DOUBLED: u32 = 3;

/// A message is lost, too, if it is missing when so many later ones have come.
const OVERTAKEN: u64 = 16;

/// The most entries of a message.
const MOST: usize = 1000;

/// Something that a member may have to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// What flows take of a link.
    Claim(u32),
    /// What a link has for flows.
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
    /// It is to be spoken to even if nothing is due.
    greets: bool,
    /// When what has come is to be confirmed.
    confirms: Option<Time>,
    /// When the next message may go.
    open: Time,
    /// The last message's number.
    number: u64,
    sent: BTreeMap<u64, Sent>,
    /// How often in a row something was lost.
    lost: u32,
    seen: Seen,
    known: u64,
    knows: u64,
}

/// The messages of another member.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    highest: u64,
    /// Bit *i*: number `highest` − *i* has come.
    latest: u64,
}

impl Seen {
    /// Whether a message is new. One older than the last 64 is taken for a repeated one.
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

    /// Bit *i*: number `highest` − 1 − *i* has not come.
    fn missing(&self) -> u64 {
        let older = self.highest.saturating_sub(1).min(63) as u32;
        !(self.latest >> 1) & 1_u64.checked_shl(older).map_or(u64::MAX, |bit| bit - 1)
    }
}

/// What came of a message.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Its number: what a later one has said about the same counts.
    pub(super) number: u64,
    pub(super) entries: Vec<Entry>,
    /// Whether the other has forgotten what it was told.
    pub(super) forgot: bool,
}

/// What goes to and comes from the other members.
#[derive(Debug)]
pub(super) struct Post {
    peers: Vec<Peer>,
}

impl Post {
    pub(super) fn new(members: usize) -> Self {
        Self { peers: (0..members).map(|_| Peer::default()).collect() }
    }

    /// A member is to be told the value of a key.
    pub(super) fn put(&mut self, to: AgentId, key: Key) {
        if let Some(peer) = self.peers.get_mut(to.index()) {
            peer.due.insert(key);
        }
    }

    /// The next message that may go: to whom, and the keys whose values it is to carry.
    pub(super) fn next(&mut self, now: Time) -> Option<(AgentId, Vec<Key>)> {
        let ready = |peer: &Peer| peer.speaks_at().is_some_and(|at| at <= now);
        let at = self.peers.iter().position(ready)?;
        let due = &mut self.peers[at].due;
        let rest = due.iter().nth(MOST).copied();
        let rest = rest.map(|key| due.split_off(&key)).unwrap_or_default();
        Some((AgentId::at(at), std::mem::replace(due, rest).into_iter().collect()))
    }

    /// Makes that message.
    pub(super) fn send(
        &mut self,
        now: Time,
        to: AgentId,
        keys: Vec<Key>,
        entries: &[Entry],
    ) -> Output {
        let peer = &mut self.peers[to.index()];
        let says = peer.greets || !entries.is_empty();
        let mut number = 0;
        if says {
            peer.number += 1;
            number = peer.number;
            let lost_at = now + PATIENCE * (1 << peer.lost.min(DOUBLED));
            peer.sent.insert(number, Sent { lost_at, keys });
        }
        (peer.greets, peer.confirms, peer.open) = (false, None, now + HOLD);
        let Peer { known, knows, seen, .. } = *peer;
        let head = Head { number, known, knows, highest: seen.highest, missing: seen.missing() };
        Output::Send { to: To::One(to), bytes: Message::encode(head, entries) }
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let wakes = self.peers.iter().flat_map(|peer| [peer.speaks_at(), peer.misses_at()]);
        wakes.flatten().min()
    }

    /// What is not confirmed by now is lost.
    pub(super) fn on_wake(&mut self, now: Time) {
        for peer in &mut self.peers {
            if peer.misses_at().is_some_and(|at| at <= now) {
                peer.lost += 1;
                peer.repeat(|_, sent| sent.lost_at <= now);
            }
        }
    }

    /// Reads a message; what has come before, or was meant for somebody else, says nothing.
    ///
    /// # Errors
    /// If it is none, or not of a member, or tells of links that there are not.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: AgentId,
        bytes: &[u8],
        has: impl Fn(u32) -> bool,
    ) -> Result<Received> {
        let Message { head, entries } = Message::decode(from, bytes)?;
        let malformed = |what| Error::Malformed { from, at: 0, what };
        let peer = self.peers.get_mut(from.index()).ok_or(malformed("from no other member"))?;
        if !entries.iter().all(|entry| has(entry.link())) {
            return Err(malformed("a link that there is not"));
        }
        let mut received = Received::default();
        if head.known < peer.knows {
            return Ok(received);
        }
        if head.known > peer.knows {
            (peer.knows, received.forgot) = (head.known, true);
            peer.sent.clear();
        } else {
            peer.confirm(&head);
        }
        if head.knows != peer.known {
            // It has to hear of that.
            peer.greets |= head.knows < peer.known && head.number > 0;
            return Ok(received);
        }
        if head.number > 0 {
            peer.confirms.get_or_insert(now + CONFIRM);
            if peer.seen.take(head.number) {
                (received.number, received.entries) = (head.number, entries);
            }
        }
        Ok(received)
    }

    /// A member is gone.
    pub(super) fn forget(&mut self, agent: AgentId) {
        if let Some(peer) = self.peers.get_mut(agent.index()) {
            let (number, known) = (peer.number, peer.known + 1);
            *peer = Peer { number, known, ..Peer::default() };
        }
    }

    /// It is there again, and has to know that it was forgotten.
    pub(super) fn greet(&mut self, agent: AgentId) {
        if let Some(peer) = self.peers.get_mut(agent.index()) {
            peer.greets = true;
        }
    }
}

impl Peer {
    fn speaks_at(&self) -> Option<Time> {
        let speaks = self.greets || !self.due.is_empty();
        if speaks { Some(self.open) } else { self.confirms.map(|at| at.max(self.open)) }
    }

    fn misses_at(&self) -> Option<Time> {
        self.sent.first_key_value().map(|(_, sent)| sent.lost_at)
    }

    fn confirm(&mut self, head: &Head) {
        let before = self.sent.len();
        self.sent.retain(|number, _| {
            let behind = head.highest.checked_sub(*number);
            let missing = |by: u64| by > 64 || head.missing >> (by - 1) & 1 > 0;
            behind.is_none_or(|by| by > 0 && missing(by))
        });
        if self.sent.len() < before {
            self.lost = 0;
        }
        self.repeat(|number, _| head.highest.saturating_sub(number) >= OVERTAKEN);
    }

    /// Says again what was said in messages that are lost.
    fn repeat(&mut self, is_lost: impl Fn(u64, &Sent) -> bool) {
        let lost: Vec<u64> =
            self.sent.iter().filter(|(at, sent)| is_lost(**at, sent)).map(|(at, _)| *at).collect();
        for number in lost {
            let keys = self.sent.remove(&number).map(|sent| sent.keys).unwrap_or_default();
            self.greets |= keys.is_empty();
            self.due.extend(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_taken_once() {
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
    fn gaps_are_told() {
        let mut seen = Seen::default();
        assert_eq!(seen.missing(), 0);
        for (number, missing) in [(1, 0), (2, 0), (5, 0b11), (3, 0b1), (4, 0), (6, 0)] {
            assert!(seen.take(number));
            assert_eq!(seen.missing(), missing, "{number}");
        }
        assert!(seen.take(70));
        // What lies between 6 and 70, neither of which is missing.
        assert_eq!(seen.missing(), u64::MAX >> 1);
    }

    #[test]
    fn what_is_lost_is_said_again() {
        let (mut own, mut other) = (Post::new(2), Post::new(2));
        let (here, there) = (AgentId(0), AgentId(1));
        let entry = |key: Key| match key {
            Key::Claim(link) => Entry::Claim(link, super::super::message::Claim::default()),
            Key::Offer(link) => Entry::Offer(link, super::super::message::Offer::default()),
        };
        let send = |post: &mut Post, now| {
            let (to, keys) = post.next(now)?;
            let entries: Vec<Entry> = keys.iter().map(|key| entry(*key)).collect();
            let Output::Send { bytes, .. } = post.send(now, to, keys, &entries) else {
                return None;
            };
            Some(bytes)
        };
        let mut now = Time::ZERO;
        own.put(there, Key::Claim(7));
        assert!(send(&mut own, now).is_some());
        assert_eq!(send(&mut own, now), None);
        now += PATIENCE;
        own.on_wake(now);
        let again = send(&mut own, now).expect("it is said again");
        let received = other.receive(now, here, &again, |_| true).expect("it is a message");
        assert_eq!(received.entries, [entry(Key::Claim(7))]);
        assert_eq!(other.receive(now, here, &again, |_| true).expect("the same").entries, []);
        now += CONFIRM;
        let confirms = send(&mut other, now).expect("it confirms");
        own.receive(now, there, &confirms, |_| true).expect("it is a message");
        assert_eq!((own.next_wake(), other.next_wake()), (None, None));
        // Whoever was forgotten learns of it.
        other.forget(here);
        other.greet(here);
        let greeting = send(&mut other, now + HOLD).expect("it greets");
        assert!(own.receive(now, there, &greeting, |_| true).expect("it is a message").forgot);
    }
}
