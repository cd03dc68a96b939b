//! Packet deliveries: segments with the same due time are sent in one write.

use std::collections::VecDeque;

use base::{IfaceId, Span, Time};
use cluster::AgentId;
use cluster::trunk::Message;
use fabric::{Ecn, Packet};
use lab::plan::Tolerance;
use rustix::io::Errno;
use wire::{Change, HEADER_MAX, Offload};

use super::buffer::Body;
use super::messages::Report;
use super::ports::Ports;
use super::trunk::{AssembledPacket, Trunks};

/// Maximum number of staged runs that are searched for the predecessor of a segment.
const MAX_SEARCHED_RUNS: usize = 8;

/// Maximum number of writes waiting for ports; with more, the data path stops reading.
const MAX_STALLED_WRITES: usize = 1024;

/// The content of one write.
#[derive(Debug)]
enum Run {
    Segments(Packet<Body>),
    /// A packet that another agent has assembled.
    Assembled(AssembledPacket),
}

impl Run {
    fn segments(&self) -> u64 {
        match self {
            Self::Segments(packet) => u64::from(packet.count),
            Self::Assembled(packet) => packet.segments(),
        }
    }
}

/// A pending write to an interface.
#[derive(Debug)]
struct Staged {
    iface: IfaceId,
    run: Run,
    /// Due time of its first segment.
    due: Time,
}

/// The destinations of packets: ports, and trunks to other agents.
pub(super) struct Destinations<'a> {
    pub(super) ports: &'a Ports,
    pub(super) trunks: Option<&'a mut Trunks>,
    /// See [`Report::distorted`].
    pub(super) tolerance: Tolerance,
}

impl Destinations<'_> {
    /// The agent of an interface, if it is another agent.
    fn agent_of(&self, iface: IfaceId) -> Option<AgentId> {
        self.trunks.as_ref().and_then(|trunks| trunks.agent_of(iface))
    }

    /// Releases the memory of a completed write.
    fn recycle(&mut self, staged: Staged) {
        if let (Run::Assembled(packet), Some(trunks)) = (staged.run, &mut self.trunks) {
            trunks.recycle(packet.frame);
        }
    }

    /// Writes a packet that consists of two parts, `headers` and `payload`.
    fn write(
        &mut self,
        staged: &Staged,
        offload: Offload,
        version: u8,
        [headers, payload]: [&[u8]; 2],
    ) -> rustix::io::Result<()> {
        let &Staged { iface, due, .. } = staged;
        let Some((trunks, to)) = self.trunks.as_deref_mut().and_then(|trunks| {
            let to = trunks.agent_of(iface)?;
            Some((trunks, to))
        }) else {
            return self.ports.write(iface, offload, version, headers, payload);
        };
        let virtio = offload.write(0);
        // The trunk counts packets that do not fit.
        trunks.put(to, &Message { iface, due, version, virtio, headers, payload });
        Ok(())
    }
}

/// Writes that are due or stalled.
#[derive(Debug, Default)]
pub(super) struct Egress {
    staged: Vec<Staged>,
    /// Writes that a port could not accept yet; nothing is dropped.
    stalled: VecDeque<Staged>,
}

impl Egress {
    /// Adds a delivery, if possible to the run that it continues.
    pub(super) fn stage(&mut self, iface: IfaceId, packet: Packet<Body>, due: Time) {
        for staged in self.staged.iter_mut().rev().take(MAX_SEARCHED_RUNS) {
            let Run::Segments(run) = &mut staged.run else { continue };
            if staged.iface != iface || run.flow != packet.flow {
                continue;
            }
            if continues(run, &packet) {
                run.count += packet.count;
                run.last = packet.last;
                return;
            }
            break;
        }
        self.staged.push(Staged { iface, run: Run::Segments(packet), due });
    }

    /// Adds a packet that another agent has assembled.
    pub(super) fn stage_assembled(&mut self, iface: IfaceId, packet: AssembledPacket, due: Time) {
        self.staged.push(Staged { iface, run: Run::Assembled(packet), due });
    }

    /// Whether the number of stalled writes is so high that reading should stop.
    pub(super) fn is_congested(&self) -> bool {
        self.stalled.len() > MAX_STALLED_WRITES
    }

    /// Whether a port must be retried.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Writes all due packets. `clock` returns the time for the lateness statistics.
    pub(super) fn flush(
        &mut self,
        destinations: &mut Destinations<'_>,
        report: &mut Report,
        clock: impl Fn() -> Time,
    ) {
        if !self.stalled.is_empty() {
            self.stalled.extend(self.staged.drain(..));
            while let Some(staged) = self.stalled.pop_front() {
                if !try_write(&staged, destinations, report, &clock) {
                    self.stalled.push_front(staged);
                    return;
                }
                destinations.recycle(staged);
            }
            return;
        }
        let mut runs = self.staged.drain(..);
        for staged in runs.by_ref() {
            if !try_write(&staged, destinations, report, &clock) {
                self.stalled.push_back(staged);
                break;
            }
            destinations.recycle(staged);
        }
        self.stalled.extend(runs);
    }
}

/// Whether `next` is the segment after `run`, with the same modifications.
fn continues(run: &Packet<Body>, next: &Packet<Body>) -> bool {
    run.body.is_same(&next.body)
        && run.first + run.count == next.first
        && run.ttl == next.ttl
        && run.ecn == next.ecn
        && run.corrupt.is_none()
        && next.corrupt.is_none()
}

/// Writes one run; false if the port could not accept it.
fn try_write(
    staged: &Staged,
    destinations: &mut Destinations<'_>,
    report: &mut Report,
    clock: &impl Fn() -> Time,
) -> bool {
    let result = match &staged.run {
        Run::Segments(packet) if packet.corrupt.is_some() => {
            write_corrupt(staged, packet, destinations)
        }
        Run::Segments(packet) => write_run(staged, packet, destinations),
        Run::Assembled(AssembledPacket { version, frame }) => {
            destinations.ports.write_frame(staged.iface, *version, frame)
        }
    };
    let segments = staged.run.segments();
    match result {
        // The agent that delivers the packet records its lateness.
        Ok(()) if destinations.agent_of(staged.iface).is_some() => {}
        Ok(()) => {
            report.writes += 1;
            report.delivered += segments;
            let now = clock();
            let late = now.since(staged.due);
            report.lateness.record_many(late.as_nanos(), segments);
            report.waits.enter(staged.due, now);
            // Unknown: other agents send neither the entry time of a packet nor its wait.
            let (waited, delay) = match &staged.run {
                Run::Segments(packet) => (packet.body.waited, staged.due.since(packet.entered)),
                Run::Assembled(_) => (Span::ZERO, Span::ZERO),
            };
            if waited + late > destinations.tolerance.of_delay(delay) {
                report.distorted += segments;
            }
        }
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => return false,
        Err(Errno::IO | Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => report.refused += segments,
        Err(_) => report.rejected += segments,
    }
    true
}

fn write_run(
    staged: &Staged,
    packet: &Packet<Body>,
    destinations: &mut Destinations<'_>,
) -> rustix::io::Result<()> {
    let Packet { body, first, count, ttl, ecn, .. } = packet;
    let bytes = body.packet();
    let change = Change { ttl: *ttl, marked: *ecn == Ecn::Marked };
    let piece = body.layout.piece(bytes, *first, *count, change);
    let parts = [&piece.headers[..piece.header_length], &bytes[piece.payload]];
    destinations.write(staged, piece.offload, body.version, parts)
}

fn write_corrupt(
    staged: &Staged,
    packet: &Packet<Body>,
    destinations: &mut Destinations<'_>,
) -> rustix::io::Result<()> {
    let mut bytes = assemble(packet, packet.first);
    wire::flip_bit(&mut bytes, packet.corrupt.unwrap_or(0));
    destinations.write(staged, Offload::default(), packet.body.version, [&bytes, &[]])
}

/// One segment as a complete packet, with checksums.
pub(super) fn assemble(packet: &Packet<Body>, segment: u16) -> Vec<u8> {
    let bytes = packet.body.packet();
    let change = Change { ttl: packet.ttl, marked: packet.ecn == Ecn::Marked };
    let piece = packet.body.layout.piece(bytes, segment, 1, change);
    let mut assembled = Vec::with_capacity(HEADER_MAX + piece.payload.len());
    assembled.extend_from_slice(&piece.headers[..piece.header_length]);
    assembled.extend_from_slice(&bytes[piece.payload.clone()]);
    wire::finish_checksum(&mut assembled, piece.offload.single());
    assembled
}
