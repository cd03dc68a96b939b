//! Timeouts: expiry of hold times, end of held messages, removal of the least used peerings.
//!
//! A session without messages has ended if the hold time and a grace period have passed while the
//! mirror showed messages of other sessions. If the mirror shows no other session, three hold times
//! must pass. If several sessions of a mirror stop at the same time, the mirror has probably
//! failed, and nothing is inferred. A message of either end restarts the timer, because a router
//! that still sends has not closed the session. The reported time of the state change is that at
//! which the hold time expired, not that of its detection.

use base::{Span, Time};

use super::Sessions;
use super::connection::{Conn, NOWHERE};
use super::peering::Slot;
use crate::{ConnectionId, Reason, Sink, State};

/// Grace period after the hold time, for segments that are still in reassembly.
const GRACE: Span = Span::from_secs(40);

impl<S: Sink> Sessions<S> {
    /// Hold time of a connection; `None` if it has none, and a long one if unknown.
    pub(super) fn hold_of(&self, conn: &Conn) -> Option<Span> {
        let earlier = || self.slots.get(conn.slot as usize).and_then(|slot| slot.hold);
        let hold = conn.hold().or_else(earlier).unwrap_or(self.settings.hold);
        (hold > Span::ZERO).then_some(hold)
    }

    pub(super) fn note_hold(&mut self, hold: Option<Span>) {
        let hold = hold.unwrap_or(self.settings.hold);
        if hold > Span::ZERO {
            self.clock.add_hold(hold);
            let due = self.clock.elapsed() + (hold + GRACE).as_nanos();
            self.check_at = self.check_at.min(due);
        }
    }

    #[cold]
    pub(super) fn check(&mut self) {
        let elapsed = self.clock.elapsed();
        let mut next = u64::MAX;
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if !slot.is_waiting() {
                continue;
            }
            let due = self.due_at(slot);
            if due > elapsed {
                next = next.min(due);
            } else {
                self.settle(at);
            }
        }
        let mut shortest = self.settings.hold;
        for (id, hold) in self.silent(&mut next, &mut shortest) {
            let Some(conn) = &self.connections[id.index()] else { continue };
            let over = (conn.received.time + hold).max(self.slots[conn.slot as usize].last);
            self.finish_session(over, id, Reason::HoldTimeExpired);
        }
        self.clock.set_hold(shortest);
        self.check_at = next;
    }

    /// Deadline for the decision on a waiting slot.
    pub(super) fn due_at(&self, slot: &Slot) -> u64 {
        if !slot.placed {
            return Self::place_at(slot);
        }
        let held = if slot.is_holding() { slot.waiting } else { u64::MAX };
        self.place_by(slot.collision.as_ref().map_or(held, |one| held.min(one.since)))
    }

    pub(super) fn settle(&mut self, at: usize) {
        if !self.slots[at].placed && self.place(at, true) && self.slots[at].guessed {
            self.review(at);
        }
        self.settle_collision(at);
        let time = self.last_time(at);
        self.slots[at].release(&mut self.sink, time);
        for id in self.slots[at].live.clone() {
            self.update_fast_path(id);
        }
    }

    /// Connections with an expired hold time, the next possible expiry, and the shortest hold
    /// time in use.
    fn silent(&self, next: &mut u64, shortest: &mut Span) -> Vec<(ConnectionId, Span)> {
        let elapsed = self.clock.elapsed();
        let mut alive = vec![0_u32; self.mirrors.len()];
        for conn in self.connections.iter().flatten().filter(|conn| is_up(conn)) {
            alive[conn.mirror as usize] += 1;
        }
        let mut over = Vec::new();
        for (at, conn) in self.connections.iter().enumerate() {
            let Some(conn) = conn.as_ref().filter(|conn| is_up(conn)) else { continue };
            let Some(hold) = self.hold_of(conn) else { continue };
            *shortest = hold.min(*shortest);
            let nanos = hold.as_nanos();
            let due = conn.received.elapsed + (hold + GRACE).as_nanos();
            if elapsed < due {
                *next = due.min(*next);
                continue;
            }
            let others = self.mirrors[conn.mirror as usize] > conn.received.elapsed + nanos;
            let alone = alive[conn.mirror as usize] == 1;
            if others || alone && elapsed > conn.received.elapsed + 3 * nanos {
                over.push((ConnectionId(at as u32), hold));
            } else {
                *next = (*next).min(elapsed + GRACE.as_nanos());
            }
        }
        over
    }

    /// Removes a sixteenth of the peerings, idle ones first, then by silence.
    #[cold]
    pub(super) fn evict(&mut self) {
        let received = |at: u32| {
            let slot = &self.slots[at as usize];
            let of = |id: &ConnectionId| {
                self.connections[id.index()].as_ref().map_or(0, |conn| conn.received.elapsed)
            };
            let last = slot.live.iter().map(of).max().unwrap_or(0).max(slot.received.elapsed);
            (slot.state != State::Idle, last, slot.peering.id)
        };
        let mut order: Vec<u32> = self.pairs.values().copied().collect();
        order.sort_unstable_by_key(|at| received(*at));
        order.truncate(self.settings.peerings.div_ceil(16));
        for at in &order {
            self.settle(*at as usize);
        }
        self.report_unconfirmed(order.iter().map(|at| *at as usize));
        for at in order {
            self.forget(at);
        }
        for conn in self.connections.iter_mut().flatten().filter(|conn| conn.slot != NOWHERE) {
            if self.slots[conn.slot as usize].gone {
                (conn.slot, conn.fast, conn.admitted) = (NOWHERE, false, false);
                conn.state = State::Idle;
            }
        }
    }

    fn forget(&mut self, at: u32) {
        self.end_guess(at as usize);
        let time = self.last_time(at as usize);
        let slot = &mut self.slots[at as usize];
        slot.change(&mut self.sink, time, State::Idle, Reason::Forgotten);
        self.sink.forget_peering(&slot.peering);
        slot.live.clear();
        slot.leader = None;
        slot.gone = true;
        let pair = slot.pair;
        self.pairs.remove(&pair);
        for address in [pair.low, pair.high] {
            if let Some(count) = self.addresses.get_mut(&(pair.mirror, address)) {
                *count -= 1;
                if *count == 0 {
                    self.addresses.remove(&(pair.mirror, address));
                }
            }
        }
        self.free.push(at);
    }

    /// The capture time at which [`Sessions::advance`] is due without further input.
    pub fn next_wake(&self) -> Option<Time> {
        (self.check_at < u64::MAX).then(|| self.clock.time_of(self.check_at))
    }
}

fn is_up(conn: &Conn) -> bool {
    conn.slot != NOWHERE && conn.admitted && !conn.dead
}
