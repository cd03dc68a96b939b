//! Changes of captures, each with the permitted differences of the result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::message;
use super::script::{Peer, ROUTER, Refresh, Step};
use crate::damage::{Damaged, append, is_appended, is_mergeable};
use crate::encapsulate::{Carrier, Format};
use crate::mrt::Timed;
use crate::packet::{FIN, Original, Packet, RST, SYN};

/// The permitted difference of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The result must be equal.
    Equal,
    /// Some messages have another time.
    Moved,
    /// The end of a session is not captured, which the next session of the peer shows.
    Unended,
    /// Messages are missing, and the account states their bytes.
    Stated,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    Lost,
    /// Lost with all later packets of the connection, so that nothing shows its bytes.
    End,
    Cut,
}

/// Positions are numbers of packets, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// The capturing host merges segments (GRO).
    Merge {
        at: usize,
        count: usize,
    },
    /// The network card of the capturing host merges short segments (LRO): the result is not longer
    /// than the MSS, and has the header and the checksum of the first one.
    MergeShort {
        at: usize,
        count: usize,
    },
    /// Each direction has its own interface, VLAN or file.
    Split(Split),
    /// The file describes its interfaces again.
    Repeat {
        at: usize,
        is_section: bool,
    },
    /// The peer announces its routes again, with one or both markers of a route refresh.
    Refresh {
        peer: usize,
        session: usize,
        step: usize,
        refresh: Refresh,
    },
    /// The capture has only the first bytes of a packet.
    Cut {
        at: usize,
        kept: usize,
    },
    /// The capture has at most this many bytes of each payload.
    Snap {
        length: usize,
    },
    Lose {
        at: usize,
    },
    /// All packets of the end of a connection are lost.
    LoseEnd {
        at: usize,
    },
    Shift {
        at: usize,
        by: Shift,
    },
    /// The capture has the packets of one direction only.
    OneDirection {
        is_from_router: bool,
    },
    /// The checksum of a packet is the sum of the pseudo-header, whatever its length: it was merged
    /// from shorter ones, or left its host before the network card computed the sum.
    Pseudo {
        at: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    Interfaces,
    Vlans,
    Files,
}

/// Nanoseconds, or the time 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shift {
    By(i64),
    Zero,
}

/// A capture before it is written.
pub(crate) struct Clones {
    pub(crate) damaged: Damaged,
    pub(crate) effect: Effect,
    /// Times of lost and cut packets, by peer and whether it sent them.
    pub(crate) harmed: BTreeMap<(IpAddr, bool), Vec<(u64, Harm)>>,
    pub(crate) is_shifted: bool,
    /// The only captured direction: 0 towards the router, 1 from it.
    pub(crate) only: Option<usize>,
    /// Directions with a connection whose SYN was lost.
    pub(crate) middles: BTreeSet<(IpAddr, bool)>,
    /// Connections whose end was lost.
    unended: BTreeSet<usize>,
    split: Option<Split>,
    /// Numbers of the packets before which interfaces are described again.
    repeats: Vec<(usize, bool)>,
}

impl Mutation {
    /// Changes of sessions, before they are captured.
    pub(crate) fn rewrite(&self, peers: &mut [Peer]) {
        let Self::Refresh { peer, session, step, refresh } = self else { return };
        let peer = peer % peers.len();
        let sessions = &mut peers[peer].sessions;
        let session = session % sessions.len();
        let steps = &mut sessions[session].steps;
        steps.insert(step % (steps.len() + 1), (5, Step::Refresh(refresh.clone())));
    }

    /// Changes of captured packets.
    pub(crate) fn apply(&self, clones: &mut Clones) {
        let packets = &mut clones.damaged.packets;
        let count = packets.len();
        match *self {
            Self::Refresh { .. } => {}
            Self::Split(split) => clones.split = Some(split),
            Self::Repeat { at, is_section } => clones.repeats.push((at % count, is_section)),
            Self::Merge { at, count } => merge(clones, at, count),
            Self::MergeShort { at, count } => merge_short(clones, at, count),
            Self::Cut { at, kept } => {
                let data = packets.iter().enumerate().filter(|(_, one)| !one.payload.is_empty());
                let data: Vec<_> = data.map(|(number, _)| number).collect();
                let number = data[at % data.len()];
                let length = packets[number].payload.len();
                clones.cut(number, kept % length);
            }
            Self::Snap { length } => {
                for number in 0..count {
                    clones.cut(number, length);
                }
            }
            Self::Lose { at } => {
                clones.lose(at % count, Harm::Lost);
                clones.effect = Effect::Stated;
            }
            Self::LoseEnd { at } => {
                let connection = packets[at % count].connection;
                clones.lose_end(connection);
            }
            Self::Shift { at, by } => {
                // Files are merged in the order of time: a step of less than an hour delays one
                // direction, and the order of packets beside a greater one depends on the file.
                let is_merged = clones.split == Some(Split::Files);
                let limit = if is_merged { 5_000_000 } else { i64::MAX };
                let time = &mut packets[at % count].time;
                *time = match by {
                    Shift::By(by) => time.saturating_add_signed(by.clamp(-limit, limit)),
                    Shift::Zero if limit == i64::MAX => 0,
                    Shift::Zero => *time,
                };
                clones.effect = clones.effect.max(Effect::Moved);
                clones.is_shifted = true;
            }
            Self::OneDirection { is_from_router } => {
                let only = usize::from(is_from_router);
                for number in (0..count).rev() {
                    if direction(&clones.damaged.packets[number]) != only {
                        clones.lose(number, Harm::Lost);
                    }
                }
                clones.only = Some(only);
                clones.effect = Effect::Stated;
            }
            Self::Pseudo { at } => packets[at % count].merged = true,
        }
    }

    /// The number of packets is that of the whole capture until the last mutation.
    pub(crate) const fn order(&self) -> u8 {
        match self {
            Self::Split(_) => 0,
            Self::OneDirection { .. } => 2,
            _ => 1,
        }
    }
}

/// Merges up to `count` segments of one direction.
fn merge(clones: &mut Clones, at: usize, count: usize) {
    let packets = &mut clones.damaged.packets;
    let at = at % packets.len();
    let mut merged = packets[at].clone();
    let first = merged.payload.len();
    let mut members = Vec::new();
    let of = |packet: &Packet| (packet.connection, packet.side);
    let followers = packets.iter().enumerate().skip(at + 1);
    for (number, packet) in followers.filter(|(_, packet)| of(packet) == of(&packets[at])) {
        let is_open = merged.payload.len().is_multiple_of(first.max(1));
        if members.len() + 1 >= count || !is_open || !is_appended(&merged, first, packet) {
            break;
        }
        append(&mut merged, packet);
        members.push(number);
    }
    if is_mergeable(&packets[at]) {
        replace(clones, at, &members, merged);
    }
}

/// Merges up to `count` segments of one direction to one of at most [`MAX_SHORT`] bytes.
fn merge_short(clones: &mut Clones, at: usize, count: usize) {
    /// The shortest MSS. All parts are shorter, so they end with a message.
    const MAX_SHORT: usize = 256;
    const MAX_PAUSE_NANOS: u64 = 10_000_000;
    let packets = &clones.damaged.packets;
    let at = at % packets.len();
    let mut merged = packets[at].clone();
    let first = merged.payload.len();
    let is_part = |packet: &Packet| is_mergeable(packet) && packet.first_part.is_none();
    if first == 0 || merged.merged || !is_part(&merged) {
        return;
    }
    let mut members = Vec::new();
    let of = |packet: &Packet| (packet.connection, packet.side);
    let followers = packets.iter().enumerate().skip(at + 1);
    for (number, packet) in followers.filter(|(_, packet)| of(packet) == of(&packets[at])) {
        let end = merged.offset + merged.payload.len() as u64;
        let is_next = is_part(packet) && !packet.merged && packet.offset == end;
        let is_short = merged.payload.len() + packet.payload.len() <= MAX_SHORT;
        let is_soon = packet.time.saturating_sub(merged.time) <= MAX_PAUSE_NANOS;
        if packet.payload.is_empty() && is_next {
            continue;
        }
        if members.len() + 1 >= count || !is_next || !is_short || !is_soon {
            break;
        }
        merged.payload.extend_from_slice(&packet.payload);
        (merged.time, merged.first_part) = (packet.time, Some(first));
        members.push(number);
    }
    replace(clones, at, &members, merged);
}

/// Replaces the packet `at` and `members` by `merged`, in the place of the last of them.
fn replace(clones: &mut Clones, at: usize, members: &[usize], merged: Packet) {
    let Some(last) = members.last().copied() else { return };
    let packets = &mut clones.damaged.packets;
    packets[last] = merged;
    let mut number = 0;
    packets.retain(|_| {
        let is_left = number != at && (number == last || !members.contains(&number));
        number += 1;
        is_left
    });
    clones.effect = clones.effect.max(Effect::Moved);
}

impl Clones {
    pub(crate) fn new(original: &Original) -> Self {
        let packets = original.packets.clone();
        let connections = packets.iter().map(|packet| packet.connection).max().unwrap() + 1;
        let initial = original.streams.keys().map(|way| {
            let (connection, side) = *way;
            (*way, (connection as u32 * 2 + side as u32 + 1).wrapping_mul(0x9e37_79b9))
        });
        let initial = initial.collect();
        Self {
            damaged: Damaged { packets, initial, connections },
            effect: Effect::Equal,
            harmed: BTreeMap::new(),
            is_shifted: false,
            only: None,
            middles: BTreeSet::new(),
            unended: BTreeSet::new(),
            split: None,
            repeats: Vec::new(),
        }
    }

    fn note_harm(&mut self, number: usize, harm: Harm) {
        let packet = &self.damaged.packets[number];
        if packet.payload.is_empty() && packet.flags & (SYN | FIN) == 0 {
            return;
        }
        let (from, to) = (packet.from.ip(), packet.to.ip());
        let way = if direction(packet) == 1 { (to, false) } else { (from, true) };
        self.harmed.entry(way).or_default().push((packet.time, harm));
        if packet.flags & SYN != 0 {
            self.middles.insert(way);
        }
    }

    fn lose(&mut self, number: usize, harm: Harm) {
        self.note_harm(number, harm);
        self.damaged.packets.remove(number);
    }

    /// Keeps the first bytes of a payload.
    fn cut(&mut self, number: usize, kept: usize) {
        let packet = &mut self.damaged.packets[number];
        if packet.kept.unwrap_or(packet.payload.len()) > kept {
            packet.kept = Some(kept);
            self.note_harm(number, Harm::Cut);
            self.effect = Effect::Stated;
        }
    }

    fn lose_end(&mut self, connection: usize) {
        let notification = message::notification();
        let is_end = |packet: &Packet| {
            let ends = packet.flags & (FIN | RST) != 0 || packet.payload == notification;
            packet.connection == connection && ends
        };
        let Some(first) = self.damaged.packets.iter().position(is_end) else { return };
        for number in (first..self.damaged.packets.len()).rev() {
            if self.damaged.packets[number].connection == connection {
                self.lose(number, Harm::End);
            }
        }
        self.unended.insert(connection);
        self.effect = self.effect.max(Effect::Unended);
    }

    /// Peers whose last session has no captured end.
    pub(crate) fn without_end(&self) -> BTreeSet<IpAddr> {
        let mut last = BTreeMap::new();
        for packet in self.damaged.packets.iter().filter(|packet| direction(packet) == 0) {
            let number = last.entry(packet.from.ip()).or_insert(packet.connection);
            *number = packet.connection.max(*number);
        }
        last.retain(|_, connection| self.unended.contains(connection));
        last.into_keys().collect()
    }

    /// The messages of each peer, with the time of the packet that has the last byte.
    pub(crate) fn messages(&self, original: &Original) -> BTreeMap<IpAddr, Vec<Timed>> {
        let mut messages: BTreeMap<IpAddr, Vec<Timed>> = BTreeMap::new();
        let mut known = BTreeMap::new();
        for (packet, time) in self.damaged.packets.iter().zip(self.times().0) {
            if direction(packet) == 1 || packet.payload.is_empty() {
                continue;
            }
            let way = (packet.connection, packet.side);
            let stream = &original.streams[&way];
            let end = packet.offset as usize + packet.payload.len();
            let number = known.entry(way).or_insert(0);
            while let Some(range) = stream.messages.get(*number).filter(|range| range.end <= end) {
                *number += 1;
                let message = stream.bytes[range.clone()].to_vec();
                messages.entry(packet.from.ip()).or_default().push((time / 1_000, message));
            }
        }
        messages
    }

    /// The time of each packet, in nanoseconds, and the number of implausible times. One that
    /// differs by more than an hour from both neighbours is that of the packet before.
    pub(crate) fn times(&self) -> (Vec<u64>, u64) {
        const HOUR: u64 = 3_600_000_000_000;
        let far = |one: u64, other: u64| one.abs_diff(other) > HOUR;
        let mut read: Vec<u64> = self.damaged.packets.iter().map(|packet| packet.time).collect();
        // A packet without a time has that of the packet before it, or the first one.
        let mut before = read.iter().copied().find(|time| *time > 0).unwrap_or(0);
        for time in &mut read {
            before = if *time > 0 { *time } else { before };
            *time = before;
        }
        let mut times = read.clone();
        let (mut last, mut wrong, mut at) = (times.first().copied().unwrap_or(0), 0, 1);
        if let [first, second, third, ..] = read[..]
            && far(first, second)
        {
            if !far(second, third) {
                (times[0], last, wrong) = (second, second, 1);
            } else if third.abs_diff(second) >= third.abs_diff(first) {
                (times[1], wrong, at) = (first, 1, 2);
            }
        }
        while at < read.len() && (read.len() > 2 || !far(read[0], read[1])) {
            let (time, next) = (read[at], read.get(at + 1));
            let is_step = next.is_some_and(|next| next.abs_diff(time) < next.abs_diff(last));
            if !far(last, time) {
                last = last.max(time);
            } else if is_step {
                last = time;
            } else {
                times[at] = last;
                wrong += 1;
            }
            at += 1;
        }
        (times, wrong)
    }

    pub(crate) fn write(&self, folder: &Path) -> Vec<PathBuf> {
        if self.split != Some(Split::Files) {
            let path = folder.join("both.cap");
            std::fs::write(&path, self.file(|_| true)).unwrap();
            return vec![path];
        }
        let files = ["to.cap", "from.cap"].into_iter().enumerate().map(|(side, name)| {
            let path = folder.join(name);
            std::fs::write(&path, self.file(|packet| direction(packet) == side)).unwrap();
            path
        });
        files.collect()
    }

    fn file(&self, is_in: impl Fn(&Packet) -> bool) -> Vec<u8> {
        let is_split = self.split == Some(Split::Interfaces);
        let names = if is_split { &[*b"eth0", *b"eth1"][..] } else { &[*b"eth0"] };
        let is_ng = is_split || !self.repeats.is_empty();
        let format = if is_ng { Format::Pcapng } else { Format::Pcap };
        let carrier =
            if self.split == Some(Split::Vlans) { Carrier::Vlan } else { Carrier::Ethernet };
        let mut out = format.section(1, names);
        let mut first = 0;
        for (number, packet) in self.damaged.packets.iter().enumerate() {
            for (_, is_section) in self.repeats.iter().filter(|(at, _)| *at == number) {
                if *is_section {
                    out.extend(format.section(1, names));
                    first = 0;
                } else {
                    out.extend(names.iter().flat_map(|name| format.interface(1, *name)));
                    first += names.len() as u32;
                }
            }
            if !is_in(packet) {
                continue;
            }
            let side = direction(packet);
            let interface = first + if is_split { side as u32 } else { 0 };
            let wire = packet.wire(self.damaged.initial(packet));
            for frame in carrier.frames(&wire, 0, 2 + side as u16) {
                format.frame_of(&mut out, interface, packet.time, &frame, packet.cut());
            }
        }
        out
    }
}

/// 0 towards the router, 1 from it.
fn direction(packet: &Packet) -> usize {
    usize::from(packet.from.ip().to_string() == ROUTER)
}
