//! The binary encoding of calls.

use base::leb128::{self, put};
use base::{IfaceId, NodeId, Span, Time};
use fabric::{Ecn, Packet, Part};

use super::Call;

const INJECT: u8 = 1;
const ORIGINATE: u8 = 2;
const CHANGE: u8 = 3;
const END: u8 = 4;
/// Marks the position from which calls are missing, because the disk was too slow.
pub(super) const GAP: u8 = 5;
const FORWARD: u8 = 6;

/// Flag in the byte of the ECN field: no router forwards the packet.
const LINK_SCOPE: u8 = 4;

/// The latest time of a call, 146 years: times plus delays stay in range.
const MAX_TIME_NANOS: u64 = 1 << 62;

/// Above the largest segment of an IPv6 super-packet.
const MAX_PACKET_BYTES: u64 = 1 << 17;

pub(super) fn inject<B>(out: &mut Vec<u8>, since: Span, iface: IfaceId, packet: &Packet<B>) {
    out.push(INJECT);
    put(out, since.as_nanos());
    put(out, u64::from(iface.0));
    put_packet(out, packet);
}

pub(super) fn originate<B>(
    out: &mut Vec<u8>,
    when: (Span, Time),
    node: NodeId,
    packet: &Packet<B>,
) {
    out.push(ORIGINATE);
    put_with_entry_time(out, when, node.0, packet);
}

pub(super) fn forward<B>(
    out: &mut Vec<u8>,
    when: (Span, Time),
    iface: IfaceId,
    packet: &Packet<B>,
) {
    out.push(FORWARD);
    put_with_entry_time(out, when, iface.0, packet);
}

/// Encodes a packet with the time at which it entered the fabric.
fn put_with_entry_time<B>(
    out: &mut Vec<u8>,
    (since, at): (Span, Time),
    place: u32,
    packet: &Packet<B>,
) {
    put(out, since.as_nanos());
    put(out, u64::from(place));
    put(out, at.since(packet.entered).as_nanos());
    put_packet(out, packet);
}

pub(super) fn change(out: &mut Vec<u8>, since: Span, event: usize) {
    out.push(CHANGE);
    put(out, since.as_nanos());
    put(out, event as u64);
}

pub(super) fn end(out: &mut Vec<u8>, since: Span, events: u64, trace_hash: u64) {
    out.push(END);
    put(out, since.as_nanos());
    put(out, events);
    out.extend(trace_hash.to_le_bytes());
}

/// Encodes the fields of a packet that the fabric reads on entry. The fabric sets `corrupt`.
fn put_packet<B>(out: &mut Vec<u8>, packet: &Packet<B>) {
    put(out, packet.to.map_or(0, |to| u64::from(to.0) + 1));
    out.extend(packet.flow.to_le_bytes());
    put(out, u64::from(packet.first));
    put(out, u64::from(packet.count));
    put(out, u64::from(packet.segment));
    put(out, u64::from(packet.last));
    let ecn = match packet.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 1,
        Ecn::Marked => 2,
        Ecn::L4s => 3,
    };
    let ecn_and_scope = ecn | if packet.link_scope { LINK_SCOPE } else { 0 };
    out.extend([packet.ttl, packet.dscp, ecn_and_scope, packet.part as u8]);
    put(out, packet.mirrors);
}

/// Decodes the calls of a frame. Its functions return `None` if the frame is invalid.
pub(super) struct CallDecoder<'a>(pub(super) &'a [u8]);

impl CallDecoder<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        leb128::get(|| self.byte().ok_or(())).ok().flatten()
    }

    fn id(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn packet(&mut self, entered: Time) -> Option<Packet<()>> {
        let to = match self.id()? {
            0 => None,
            to => Some(IfaceId(to - 1)),
        };
        let flow = u32::from_le_bytes(self.array()?);
        let first = u16::try_from(self.number()?).ok()?;
        let count = u16::try_from(self.number()?).ok()?;
        let segment = self.number().filter(|size| *size <= MAX_PACKET_BYTES)? as u32;
        let last = self.number().filter(|size| *size <= MAX_PACKET_BYTES)? as u32;
        let [ttl, dscp, ecn_and_scope, part] = self.array()?;
        let part = *Part::ALL.get(usize::from(part))?;
        let ecn = match ecn_and_scope & !LINK_SCOPE {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable,
            2 => Ecn::Marked,
            3 => Ecn::L4s,
            _ => return None,
        };
        let mirrors = self.number()?;
        let is_valid = count > 0 && first.checked_add(count).is_some() && dscp < 64;
        let (body, corrupt) = ((), None);
        is_valid.then_some(Packet {
            body,
            first,
            count,
            to,
            link_scope: ecn_and_scope & LINK_SCOPE != 0,
            flow,
            segment,
            last,
            ttl,
            dscp,
            ecn,
            corrupt,
            mirrors,
            part,
            tag: 0,
            entered,
        })
    }

    /// Decodes a packet with the time at which it entered, before `at`.
    fn packet_with_entry_time(&mut self, at: Time) -> Option<Packet<()>> {
        let entered = Time::from_nanos(at.as_nanos().checked_sub(self.number()?)?);
        self.packet(entered)
    }

    /// The next call; `last` is the time of the previous one.
    pub(super) fn call(&mut self, last: Time) -> Option<Call> {
        let tag = self.byte()?;
        let at = last.as_nanos().checked_add(self.number()?).filter(|at| *at <= MAX_TIME_NANOS)?;
        let at = Time::from_nanos(at);
        match tag {
            INJECT => {
                let iface = IfaceId(self.id()?);
                Some(Call::Inject { at, iface, packet: self.packet(at)? })
            }
            ORIGINATE => {
                let node = NodeId(self.id()?);
                Some(Call::Originate { at, node, packet: self.packet_with_entry_time(at)? })
            }
            FORWARD => {
                let iface = IfaceId(self.id()?);
                Some(Call::Forward { at, iface, packet: self.packet_with_entry_time(at)? })
            }
            CHANGE => Some(Call::Change { at, event: self.id()? as usize }),
            END => {
                let events = self.number()?;
                let trace_hash = u64::from_le_bytes(self.array()?);
                Some(Call::End { at, events, trace_hash })
            }
            _ => None,
        }
    }
}
