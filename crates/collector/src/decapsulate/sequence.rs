//! Sequence numbers of tunnels: what the mirror lost, apart from what TCP lost.
//!
//! # Method
//!
//! The last 64 numbers of a tunnel are remembered as bits. A number that leaves this window and
//! never came is lost; one that comes late within it is not.

use std::collections::HashMap;
use std::net::IpAddr;

use base::Time;

/// Tunnels that are followed.
const TUNNELS_MAX: usize = 4096;
/// Numbers that are remembered of each.
const WINDOW: u32 = 64;
/// A greater step ahead is another beginning, not a loss.
const LEAP: i32 = 1 << 20;
/// Packets in order at another place that make it a new beginning.
const RESTART: u8 = 4;

/// A tunnel with sequence numbers: number in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TunnelId(pub u32);

/// Who numbers packets for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelEnds {
    /// Outer source: the router that clones.
    pub source: IpAddr,
    /// Outer destination.
    pub destination: IpAddr,
    /// GRE key, if there is one.
    pub key: Option<u32>,
    /// ERSPAN session, if it is ERSPAN.
    pub session: Option<u16>,
}

/// A tunnel with sequence numbers.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its ends.
    pub ends: TunnelEnds,
    /// Packets that came.
    pub packets: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came behind later ones.
    pub late: u64,
    /// Packets that came again.
    pub doubled: u64,
    /// Times that its numbers began anew.
    pub restarts: u64,
    highest: u32,
    /// Bit `i`: `highest - i` came.
    seen: u64,
    /// How many of the bits mean anything.
    depth: u32,
    strange: (u32, u8),
    /// When earlier windows began.
    marks: [Time; 2],
    told: u64,
}

/// Packets that a tunnel lost, so that clones are missing that may or may not be of BGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelLoss {
    /// Which one.
    pub tunnel: TunnelId,
    /// How many packets.
    pub packets: u64,
    /// They were sent after this.
    pub since: Time,
    /// They were sent before this.
    pub until: Time,
}

/// All tunnels with sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    pub(super) list: Vec<Tunnel>,
    numbers: HashMap<TunnelEnds, u32>,
    /// Tunnels that lost something since it was asked for.
    news: Vec<u32>,
    now: Time,
}

impl Tunnels {
    /// A packet came by `ends` with `number`.
    pub(super) fn packet(&mut self, time: Time, ends: TunnelEnds, number: u32) -> Option<TunnelId> {
        self.now = time;
        let at = if let Some(at) = self.numbers.get(&ends) {
            *at
        } else {
            if self.list.len() >= TUNNELS_MAX {
                return None;
            }
            let at = self.list.len() as u32;
            self.list.push(Tunnel::new(ends, number, time));
            self.numbers.insert(ends, at);
            return Some(TunnelId(at));
        };
        let tunnel = &mut self.list[at as usize];
        let before = tunnel.lost;
        tunnel.packet(time, number);
        if before == tunnel.told && tunnel.lost > tunnel.told {
            self.news.push(at);
        }
        Some(TunnelId(at))
    }

    /// Tells what was lost since the last time.
    pub(super) fn losses(&mut self, tell: &mut impl FnMut(&TunnelLoss)) {
        for at in self.news.drain(..) {
            let tunnel = &mut self.list[at as usize];
            let packets = tunnel.lost - tunnel.told;
            tunnel.told = tunnel.lost;
            let (tunnel, since) = (TunnelId(at), tunnel.marks[0]);
            tell(&TunnelLoss { tunnel, packets, since, until: self.now });
        }
    }

    /// Nothing more comes: what is missing in the windows is lost.
    pub(super) fn end(&mut self) {
        for (at, tunnel) in self.list.iter_mut().enumerate() {
            let before = tunnel.lost;
            tunnel.lost += tunnel.missing(WINDOW);
            tunnel.depth = 0;
            if before == tunnel.told && tunnel.lost > tunnel.told {
                self.news.push(at as u32);
            }
        }
    }
}

impl Tunnel {
    const fn new(ends: TunnelEnds, number: u32, time: Time) -> Self {
        Self {
            ends,
            packets: 1,
            lost: 0,
            late: 0,
            doubled: 0,
            restarts: 0,
            highest: number,
            seen: 1,
            depth: 1,
            strange: (0, 0),
            marks: [time; 2],
            told: 0,
        }
    }

    fn packet(&mut self, time: Time, number: u32) {
        self.packets += 1;
        if self.packets.is_multiple_of(u64::from(WINDOW)) {
            self.marks = [self.marks[1], time];
        }
        let step = number.wrapping_sub(self.highest) as i32;
        let back = step.unsigned_abs();
        if step > 0 && step <= LEAP {
            self.advance(back);
            self.highest = number;
        } else if step <= 0 && back < WINDOW {
            let bit = 1_u64 << back;
            if self.seen & bit != 0 {
                self.doubled += 1;
            } else {
                self.late += 1;
                self.seen |= bit;
            }
        } else {
            self.elsewhere(number);
            return;
        }
        self.strange = (0, 0);
    }

    /// Moves the window; what leaves it without having come is lost.
    fn advance(&mut self, step: u32) {
        self.lost += self.missing(step) + u64::from(step.saturating_sub(WINDOW));
        self.seen = self.seen.checked_shl(step).unwrap_or(0) | 1;
        self.depth = (self.depth + step).min(WINDOW);
    }

    /// How many of the oldest `step` places of the window mean something and are empty.
    fn missing(&self, step: u32) -> u64 {
        let oldest = WINDOW.saturating_sub(step);
        if self.depth <= oldest {
            return 0;
        }
        let upto = |bits: u32| if bits >= WINDOW { u64::MAX } else { (1 << bits) - 1 };
        u64::from((!self.seen & upto(self.depth) & !upto(oldest)).count_ones())
    }

    /// A number far from all others: a very late packet, or a new beginning if more follow it.
    fn elsewhere(&mut self, number: u32) {
        let (last, count) = self.strange;
        let follows = count > 0 && number.wrapping_sub(last).wrapping_sub(1) < WINDOW;
        self.strange = (number, if follows { count + 1 } else { 1 });
        if self.strange.1 < RESTART {
            self.late += 1;
            return;
        }
        self.lost += self.missing(WINDOW);
        self.restarts += 1;
        self.late -= u64::from(RESTART - 1);
        (self.highest, self.seen, self.depth) = (number, 1, 1);
        self.strange = (0, 0);
    }
}
