//! What happens to clones on their way, and to captures of them.

use std::collections::BTreeMap;

use base::RandomStream;

use crate::packet::{Original, Packet, SYN};

/// Packets that overtake another are at most this many nanoseconds younger: reassembly waits
/// twice as long.
const OVERTAKEN: u64 = 100_000_000;

/// What is done, in parts per million of the packets where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Packets at the beginning that were not captured.
    pub(crate) start: usize,
    /// Both ends' sequence numbers pass 2³² in the middle of their streams.
    pub(crate) wrap: bool,
    /// The same connections once more, this many nanoseconds after their end. Their SYNs are seen,
    /// in time.
    pub(crate) again: Option<u64>,
    pub(crate) loss: u64,
    /// Of packets without payload.
    pub(crate) acknowledgment_loss: u64,
    pub(crate) reorder: u64,
    /// The most packets by which one is overtaken.
    pub(crate) distance: usize,
    pub(crate) duplicate: u64,
    /// Payloads that begin before their packet did, or are sent once more in other pieces.
    pub(crate) overlap: u64,
    /// Payloads that are sent once more with other bytes, behind what they pretend to repeat.
    pub(crate) contradict: u64,
    /// Wrong checksums; half of the packets come once more.
    pub(crate) wrong: u64,
    /// Payloads that are cut.
    pub(crate) snap: u64,
    /// Only packets that this side sent.
    pub(crate) side: Option<usize>,
}

/// What was captured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damaged {
    pub(crate) packets: Vec<Packet>,
    /// Sequence numbers of the SYNs, by connection and side.
    pub(crate) initial: BTreeMap<(usize, usize), u32>,
    /// Connections of the original.
    pub(crate) connections: usize,
}

impl Damaged {
    /// Which connection of the original this one repeats.
    pub(crate) fn original(&self, connection: usize) -> usize {
        connection % self.connections
    }

    /// Sequence numbers of the sender's SYN and of the other.
    pub(crate) fn initial(&self, packet: &Packet) -> [u32; 2] {
        [packet.side, 1 - packet.side].map(|side| self.initial[&(packet.connection, side)])
    }
}

struct Dice(RandomStream);

impl Dice {
    fn hits(&mut self, parts_per_million: u64) -> bool {
        parts_per_million > 0 && self.0.below(1_000_000) < parts_per_million
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }
}

/// Does what `plan` says.
pub(crate) fn damage(original: &Original, plan: &Plan) -> Damaged {
    let mut dice = Dice(RandomStream::new(plan.seed, "damage"));
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
                0_u32.wrapping_sub(1 + dice.below(length + 1) as u32)
            } else {
                dice.0.bits() as u32
            }
        });
    }
    if plan.again.is_some() {
        keep_apart(&mut damaged);
    }
    packets.drain(..plan.start.min(packets.len()));
    packets.retain(|packet| plan.side.is_none_or(|side| packet.side == side));
    let packets = repeat(original, plan, connections, packets, &mut dice);
    let packets = lose(plan, packets, &mut dice);
    damaged.packets = reorder(plan, packets, &mut dice);
    damaged
}

/// Sequence numbers of the second connection are far from those of the first, whatever the dice
/// say: else late bytes of one could be bytes of the other.
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

/// Adds what is sent more than once.
fn repeat(
    original: &Original,
    plan: &Plan,
    connections: usize,
    packets: Vec<Packet>,
    dice: &mut Dice,
) -> Vec<Packet> {
    let mut out: Vec<Packet> = Vec::with_capacity(packets.len());
    for mut packet in packets {
        let stream = &original.streams[&(packet.connection % connections, packet.side)].bytes;
        let (at, length) = (packet.offset as usize, packet.payload.len());
        let reaches = length > 0 && at + length <= stream.len();
        if reaches && dice.hits(plan.overlap) {
            let back = dice.below(at.min(700) + 1);
            packet.payload = stream[at - back..at + length].to_vec();
            packet.offset -= back as u64;
        }
        let mut more = Vec::new();
        if reaches && dice.hits(plan.overlap) {
            let start = at - dice.below(at.min(900) + 1);
            let end = at + 1 + dice.below(length);
            let payload = stream[start..end].to_vec();
            more.push(Packet { offset: start as u64, payload, ..packet.clone() });
        }
        if reaches && dice.hits(plan.contradict) {
            let mut other = packet.clone();
            let from = dice.below(length);
            let last = other.payload.len() - length + from;
            other.payload[last] ^= 0x55;
            more.push(other);
        }
        if dice.hits(plan.duplicate) {
            more.push(packet.clone());
        }
        if dice.hits(plan.wrong) && packet.flags & SYN == 0 {
            let again = dice.hits(500_000).then(|| packet.clone());
            packet.flipped = Some(dice.below(usize::MAX >> 1));
            more.extend(again);
        } else if length > 0 && packet.flags & SYN == 0 && dice.hits(plan.snap) {
            packet.kept = Some(dice.below(packet.payload.len()));
        }
        out.push(packet);
        out.extend(more);
    }
    out
}

/// Takes away what was never captured.
fn lose(plan: &Plan, mut packets: Vec<Packet>, dice: &mut Dice) -> Vec<Packet> {
    packets.retain(|packet| {
        let protected = plan.again.is_some() && packet.flags & SYN != 0;
        let bare = packet.payload.is_empty() && dice.hits(plan.acknowledgment_loss);
        protected || !(dice.hits(plan.loss) || bare)
    });
    packets
}

/// Lets packets be overtaken. What was captured first has the earlier time.
fn reorder(plan: &Plan, packets: Vec<Packet>, dice: &mut Dice) -> Vec<Packet> {
    let times: Vec<u64> = packets.iter().map(|packet| packet.time).collect();
    let mut keyed: Vec<(usize, usize, Packet)> = Vec::with_capacity(packets.len());
    for (at, packet) in packets.into_iter().enumerate() {
        let mut place = at;
        // Where an earlier connection had the addresses, a round trip lies between a SYN and the
        // first data: clones are not in disorder for so long.
        let stays = plan.again.is_some() && packet.flags & SYN != 0;
        if plan.distance > 0 && dice.hits(plan.reorder) && !stays {
            place += 1 + dice.below(plan.distance);
            let most = times.partition_point(|time| *time < times[at] + OVERTAKEN) - 1;
            place = place.min(most);
        }
        // Whoever is overtaken comes behind the one whose place it takes.
        keyed.push((place, usize::from(place == at), packet));
    }
    keyed.sort_by_key(|(place, stays, _)| (*place, 1 - *stays));
    keyed.into_iter().zip(times).map(|((_, _, packet), time)| Packet { time, ..packet }).collect()
}
