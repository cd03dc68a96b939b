//! Faults of clones in transit, and of their captures.

use std::collections::BTreeMap;

use base::RandomStream;

use crate::packet::{ACK, Original, Packet, SYN};

/// Maximum time in ns by which a packet overtakes another: half of what reassembly tolerates.
const MAX_OVERTAKE_NANOS: u64 = 100_000_000;

/// Payload in bytes of a segment with the timestamps option in an IPv6 packet of 1,500 bytes.
const MAX_JUDGED: usize = 1_440 - 12;

/// The faults; in parts per million of the packets unless specified otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) start: usize,
    /// Both ends' sequence numbers pass 2³² in the middle of their streams.
    pub(crate) wrap: bool,
    /// Repeats the same connections this many nanoseconds after their end, with captured SYNs.
    pub(crate) again: Option<u64>,
    pub(crate) loss: u64,
    pub(crate) acknowledgment_loss: u64,
    pub(crate) reorder: u64,
    pub(crate) distance: usize,
    pub(crate) duplicate: u64,
    /// Payloads that start before those of their packet, or are retransmitted in other segments.
    pub(crate) overlap: u64,
    /// Payloads that are retransmitted with other bytes, after the original.
    pub(crate) contradict: u64,
    /// Wrong checksums; half of the packets are retransmitted.
    pub(crate) wrong: u64,
    pub(crate) snap: u64,
    /// Segments that the capturing host merged with the following ones.
    pub(crate) merge: u64,
    pub(crate) side: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Damaged {
    pub(crate) packets: Vec<Packet>,
    pub(crate) initial: BTreeMap<(usize, usize), u32>,
    pub(crate) connections: usize,
}

impl Damaged {
    pub(crate) fn original(&self, connection: usize) -> usize {
        connection % self.connections
    }

    /// Sequence numbers of the sender's SYN and of the other one.
    pub(crate) fn initial(&self, packet: &Packet) -> [u32; 2] {
        [packet.side, 1 - packet.side].map(|side| self.initial[&(packet.connection, side)])
    }
}

struct Rng(RandomStream);

impl Rng {
    fn hits(&mut self, parts_per_million: u64) -> bool {
        parts_per_million > 0 && self.0.below(1_000_000) < parts_per_million
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }
}

/// Applies the faults of `plan`.
pub(crate) fn damage(original: &Original, plan: &Plan) -> Damaged {
    let mut rng = Rng(RandomStream::new(plan.seed, "damage"));
    let connections = original.packets.iter().map(|packet| packet.connection).max().unwrap() + 1;
    let mut packets = original.packets.clone();
    if let Some(pause) = plan.again {
        let (first, last) = (packets[0].time, packets[packets.len() - 1].time);
        packets.extend(original.packets.iter().map(|packet| Packet {
            time: packet.time - first + last + pause,
            connection: packet.connection + connections,
            ..packet.clone()
        }));
    }
    let mut damaged = Damaged { packets: Vec::new(), initial: BTreeMap::new(), connections };
    for packet in &packets {
        let length = original.streams[&(packet.connection % connections, packet.side)].bytes.len();
        let key = (packet.connection, packet.side);
        damaged.initial.entry(key).or_insert_with(|| {
            if plan.wrap {
                0_u32.wrapping_sub(1 + rng.below(length + 1) as u32)
            } else {
                rng.0.bits() as u32
            }
        });
    }
    if plan.again.is_some() {
        keep_apart(&mut damaged);
    }
    packets.drain(..plan.start.min(packets.len()));
    packets.retain(|packet| plan.side.is_none_or(|side| packet.side == side));
    let packets = merge(plan, packets, &mut rng);
    let packets = repeat(original, plan, connections, packets, &mut rng);
    let packets = lose(plan, packets, &mut rng);
    damaged.packets = reorder(plan, packets, &mut rng);
    damaged
}

/// Sequence numbers of the second connection are far from those of the first, independent of the
/// RNG: otherwise late bytes of one could be bytes of the other.
fn keep_apart(damaged: &mut Damaged) {
    let half = damaged.connections;
    let first = damaged.initial.clone();
    for ((connection, side), initial) in &mut damaged.initial {
        if let Some(before) = connection.checked_sub(half).map(|before| first[&(before, *side)]) {
            let distance = initial.wrapping_sub(before) as i32;
            if distance.unsigned_abs() < 64 << 20 {
                *initial = initial.wrapping_add(1 << 30);
            }
        }
    }
}

/// Merges consecutive segments of a sender.
fn merge(plan: &Plan, packets: Vec<Packet>, rng: &mut Rng) -> Vec<Packet> {
    let mut merged: Vec<Packet> = Vec::new();
    let mut sizes: BTreeMap<(usize, usize), (usize, bool)> = BTreeMap::new();
    for packet in packets {
        let key = (packet.connection, packet.side);
        let length = packet.payload.len();
        let last = merged.iter_mut().rev().find(|last| (last.connection, last.side) == key);
        let (first, is_open) = sizes.get(&key).copied().unwrap_or_default();
        if let Some(last) = last
            && is_open
            && is_appended(last, first, &packet)
        {
            sizes.insert(key, (first, length == first));
            append(last, &packet);
            continue;
        }
        sizes.insert(key, (length, is_mergeable(&packet) && rng.hits(plan.merge)));
        merged.push(packet);
    }
    merged.sort_by_key(|packet| packet.time);
    merged
}

pub(crate) const fn is_mergeable(packet: &Packet) -> bool {
    const PSH: u8 = 8;
    packet.flags & !(ACK | PSH) == 0 && packet.kept.is_none() && packet.flipped.is_none()
}

/// Whether the Linux kernel (GRO) merges `packet` with the segments before it, the first of which
/// has `first` bytes of payload. No further segment follows a shorter one.
pub(crate) fn is_appended(before: &Packet, first: usize, packet: &Packet) -> bool {
    const MAX_LENGTH: usize = 60_000;
    const MAX_PAUSE_NANOS: u64 = 1_000_000;
    let length = packet.payload.len();
    (1..=first).contains(&length)
        && is_mergeable(packet)
        && packet.offset == before.offset + before.payload.len() as u64
        && packet.time.abs_diff(before.time) < MAX_PAUSE_NANOS
        && before.payload.len() + length < MAX_LENGTH
}

pub(crate) fn append(before: &mut Packet, packet: &Packet) {
    before.payload.extend_from_slice(&packet.payload);
    (before.time, before.acked, before.merged) = (packet.time, packet.acked, true);
}

fn repeat(
    original: &Original,
    plan: &Plan,
    connections: usize,
    packets: Vec<Packet>,
    rng: &mut Rng,
) -> Vec<Packet> {
    let mut out: Vec<Packet> = Vec::with_capacity(packets.len());
    for mut packet in packets {
        let stream = &original.streams[&(packet.connection % connections, packet.side)].bytes;
        let (at, length) = (packet.offset as usize, packet.payload.len());
        let reaches = length > 0 && at + length <= stream.len();
        if reaches && rng.hits(plan.overlap) {
            let back = rng.below(at.min(700) + 1);
            packet.payload = stream[at - back..at + length].to_vec();
            packet.offset -= back as u64;
        }
        let mut more = Vec::new();
        if reaches && rng.hits(plan.overlap) {
            let start = at - rng.below(at.min(900) + 1);
            let end = at + 1 + rng.below(length);
            let payload = stream[start..end].to_vec();
            more.push(Packet { offset: start as u64, payload, ..packet.clone() });
        }
        if reaches && rng.hits(plan.contradict) {
            let mut other = packet.clone();
            let from = rng.below(length);
            let last = other.payload.len() - length + from;
            other.payload[last] ^= 0x55;
            more.push(other);
        }
        if rng.hits(plan.duplicate) {
            more.push(packet.clone());
        }
        // The sums of longer segments cannot be judged.
        if rng.hits(plan.wrong) && packet.flags & SYN == 0 && length <= MAX_JUDGED {
            let again = rng.hits(500_000).then(|| packet.clone());
            packet.flipped = Some(rng.below(usize::MAX >> 1));
            more.extend(again);
        } else if length > 0 && packet.flags & SYN == 0 && rng.hits(plan.snap) {
            packet.kept = Some(rng.below(packet.payload.len()));
        }
        out.push(packet);
        out.extend(more);
    }
    out
}

fn lose(plan: &Plan, mut packets: Vec<Packet>, rng: &mut Rng) -> Vec<Packet> {
    packets.retain(|packet| {
        let protected = plan.again.is_some() && packet.flags & SYN != 0;
        let bare = packet.payload.is_empty() && rng.hits(plan.acknowledgment_loss);
        protected || !(rng.hits(plan.loss) || bare)
    });
    packets
}

/// Reorders packets. Capture times stay ascending.
fn reorder(plan: &Plan, packets: Vec<Packet>, rng: &mut Rng) -> Vec<Packet> {
    let times: Vec<u64> = packets.iter().map(|packet| packet.time).collect();
    let mut keyed: Vec<(usize, usize, Packet)> = Vec::with_capacity(packets.len());
    for (at, packet) in packets.into_iter().enumerate() {
        let mut place = at;
        // With an earlier connection between the same addresses, a round trip separates a SYN from
        // the first data: reordering is shorter.
        let stays = plan.again.is_some() && packet.flags & SYN != 0;
        if plan.distance > 0 && rng.hits(plan.reorder) && !stays {
            place += 1 + rng.below(plan.distance);
            let most = times.partition_point(|time| *time < times[at] + MAX_OVERTAKE_NANOS) - 1;
            place = place.min(most);
        }
        // An overtaken packet follows the one whose position it gets.
        keyed.push((place, usize::from(place == at), packet));
    }
    keyed.sort_by_key(|(place, stays, _)| (*place, 1 - *stays));
    keyed.into_iter().zip(times).map(|((_, _, packet), time)| Packet { time, ..packet }).collect()
}
