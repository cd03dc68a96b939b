//! Sequence numbers of tunnels, which distinguish losses in the mirror from losses in TCP.
//!
//! # Method
//!
//! The last 64 numbers of a tunnel are stored as bits. A number that leaves this window without
//! being received is lost; a late one within the window is not.

use std::collections::HashMap;
use std::net::IpAddr;

use base::Time;

const TUNNELS_MAX: usize = 4096;
/// Window of sequence numbers per tunnel.
const WINDOW: u32 = 64;
/// A larger step forward is a restart, not a loss.
const LEAP: i32 = 1 << 20;
/// Number of consecutive packets at another position that are taken as a restart.
const RESTART: u8 = 4;

/// Number of a tunnel with sequence numbers, in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TunnelId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelEnds {
    /// Outer source address: the cloning router.
    pub source: IpAddr,
    pub destination: IpAddr,
    pub key: Option<u32>,
    pub session: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct Tunnel {
    pub ends: TunnelEnds,
    pub packets: u64,
    pub lost: u64,
    pub late: u64,
    pub doubled: u64,
    pub restarts: u64,
    highest: u32,
    /// Bit `i`: `highest - i` was received.
    seen: u64,
    depth: u32,
    strange: (u32, u8),
    marks: [Time; 2],
    reported: u64,
}

/// Packets lost in a tunnel, which may have held BGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelLoss {
    pub tunnel: TunnelId,
    pub packets: u64,
    pub since: Time,
    pub until: Time,
}

#[derive(Debug, Default)]
pub(super) struct Tunnels {
    pub(super) list: Vec<Tunnel>,
    numbers: HashMap<TunnelEnds, u32>,
    unreported: Vec<u32>,
    now: Time,
}

impl Tunnels {
    /// Processes a packet of the tunnel `ends` with sequence number `number`.
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
        if before == tunnel.reported && tunnel.lost > tunnel.reported {
            self.unreported.push(at);
        }
        Some(TunnelId(at))
    }

    pub(super) fn losses(&mut self, tell: &mut impl FnMut(&TunnelLoss)) {
        for at in self.unreported.drain(..) {
            let tunnel = &mut self.list[at as usize];
            let packets = tunnel.lost - tunnel.reported;
            tunnel.reported = tunnel.lost;
            let (tunnel, since) = (TunnelId(at), tunnel.marks[0]);
            tell(&TunnelLoss { tunnel, packets, since, until: self.now });
        }
    }

    /// Ends the input: numbers missing in the windows are lost.
    pub(super) fn end(&mut self) {
        for (at, tunnel) in self.list.iter_mut().enumerate() {
            let before = tunnel.lost;
            tunnel.lost += tunnel.missing(WINDOW);
            tunnel.depth = 0;
            if before == tunnel.reported && tunnel.lost > tunnel.reported {
                self.unreported.push(at as u32);
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
            reported: 0,
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

    /// Moves the window by `step`. Missing numbers that leave it are lost.
    fn advance(&mut self, step: u32) {
        self.lost += self.missing(step) + u64::from(step.saturating_sub(WINDOW));
        self.seen = self.seen.checked_shl(step).unwrap_or(0) | 1;
        self.depth = (self.depth + step).min(WINDOW);
    }

    /// Number of valid and missing entries among the oldest `step` of the window.
    fn missing(&self, step: u32) -> u64 {
        let oldest = WINDOW.saturating_sub(step);
        if self.depth <= oldest {
            return 0;
        }
        let upto = |bits: u32| if bits >= WINDOW { u64::MAX } else { (1 << bits) - 1 };
        u64::from((!self.seen & upto(self.depth) & !upto(oldest)).count_ones())
    }

    /// Handles a number far from all others: a very late packet, or a restart if more follow.
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
