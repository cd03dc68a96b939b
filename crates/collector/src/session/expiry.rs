//! What time does: hold times run out, waiting ends, the least used peerings make room.
//!
//! The end of a session whose speaker fell silent is inferred when the hold time and some grace
//! have passed and the mirror still showed others: it sees, and this one is gone. Where the mirror
//! shows nobody else, three hold times have to pass; and where it showed several who all fell
//! silent, it is the mirror that is blind, and nothing is inferred. Whichever end speaks keeps a
//! session alive: a router that still sends has not given it up. The state changes at the moment
//! when the hold time ran out, not when that was found.

use base::{Span, Time};

use super::Sessions;
use super::connection::{Conn, NOWHERE};
use super::peering::Slot;
use crate::{ConnectionId, Reason, Sink, State};

/// Behind the hold time: what may still be on its way through reassembly.
const GRACE: Span = Span::from_secs(40);

impl<S: Sink> Sessions<S> {
    /// The hold time of a connection; `None` if it has none, or a long one if it is not known.
    pub(super) fn hold_of(&self, conn: &Conn) -> Option<Span> {
        let earlier = || self.slots.get(conn.slot as usize).and_then(|slot| slot.hold);
        let hold = conn.hold().or_else(earlier).unwrap_or(self.settings.hold);
        (hold > Span::ZERO).then_some(hold)
    }

    /// A hold time is in use from now on.
    pub(super) fn note_hold(&mut self, hold: Option<Span>) {
        let hold = hold.unwrap_or(self.settings.hold);
        if hold > Span::ZERO {
            self.clock.add_hold(hold);
            let due = self.clock.elapsed() + (hold + GRACE).as_nanos();
            self.check_at = self.check_at.min(due);
        }
    }

    /// Something may be due.
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
            let over = (conn.heard.time + hold).max(self.slots[conn.slot as usize].last);
            self.finish_session(over, id, Reason::HoldTimeExpired);
        }
        self.clock.set_hold(shortest);
        self.check_at = next;
    }

    /// When a slot that waits goes on whatever is known.
    pub(super) fn due_at(&self, slot: &Slot) -> u64 {
        if slot.placed { self.place_by(slot.waiting) } else { Self::place_at(slot) }
    }

    /// Ends whatever waiting a slot does.
    pub(super) fn settle(&mut self, at: usize) {
        if !self.slots[at].placed {
            self.place(at, true);
        }
        let time = self.last_time(at);
        self.slots[at].release(&mut self.sink, time);
        for id in self.slots[at].live.clone() {
            self.quicken(id);
        }
    }

    /// Connections whose hold time ran out; and when the next one may, and the shortest in use.
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
            let due = conn.heard.elapsed + (hold + GRACE).as_nanos();
            if elapsed < due {
                *next = due.min(*next);
                continue;
            }
            let others = self.mirrors[conn.mirror as usize] > conn.heard.elapsed + nanos;
            let alone = alive[conn.mirror as usize] == 1;
            if others || alone && elapsed > conn.heard.elapsed + 3 * nanos {
                over.push((ConnectionId(at as u32), hold));
            } else {
                *next = (*next).min(elapsed + GRACE.as_nanos());
            }
        }
        over
    }

    /// Makes room: forgets a sixteenth of the peerings, idle ones first, then by silence.
    #[cold]
    pub(super) fn evict(&mut self) {
        let heard = |at: u32| {
            let slot = &self.slots[at as usize];
            let of = |id: &ConnectionId| {
                self.connections[id.index()].as_ref().map_or(0, |conn| conn.heard.elapsed)
            };
            let last = slot.live.iter().map(of).max().unwrap_or(0).max(slot.heard.elapsed);
            (slot.state != State::Idle, last, slot.peering.id)
        };
        let mut order: Vec<u32> = self.pairs.values().copied().collect();
        order.sort_unstable_by_key(|at| heard(*at));
        order.truncate(self.settings.peerings.div_ceil(16));
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

    /// Forgets a peering.
    fn forget(&mut self, at: u32) {
        self.settle(at as usize);
        self.stop_keeping(at as usize);
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

    /// The capture's time at which [`Sessions::advance`] has something to do, if nothing comes.
    pub fn next_wake(&self) -> Option<Time> {
        (self.check_at < u64::MAX).then(|| self.clock.time_of(self.check_at))
    }
}

fn is_up(conn: &Conn) -> bool {
    conn.slot != NOWHERE && conn.admitted && !conn.dead
}
