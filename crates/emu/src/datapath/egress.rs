//! Deliveries: segments that are due together leave in one write.

use std::collections::VecDeque;

use base::{IfaceId, Time};
use cluster::AgentId;
use cluster::trunk::Message;
use fabric::{Ecn, Packet};
use rustix::io::Errno;
use wire::{Change, HEADER_MAX, Offload, VIRTIO_HEADER};

use super::Report;
use super::buffer::Body;
use super::ports::Ports;
use super::trunk::Trunks;

/// How far back a segment looks for the one before it.
const LOOK_BACK: usize = 8;

/// Writes that wait for a port before reading stops.
const MOST_STALLED: usize = 1024;

/// A packet as the kernel takes it, from another member of the lab.
#[derive(Debug)]
pub(super) struct Whole {
    /// 4 or 6.
    pub(super) version: u8,
    /// Virtio header and packet.
    pub(super) frame: Vec<u8>,
}

impl Whole {
    /// How many packets it is on the wire.
    fn segments(&self) -> u64 {
        let Some((virtio, packet)) = self.frame.split_first_chunk::<VIRTIO_HEADER>() else {
            return 0;
        };
        let offload = Offload::read(*virtio, 0);
        let payload = packet.len().saturating_sub(usize::from(offload.headers));
        let of = |size: u16| payload.div_ceil(usize::from(size)).max(1) as u64;
        offload.segment.map_or(1, of)
    }
}

/// What is written at once.
#[derive(Debug)]
enum Run {
    /// Segments that follow each other.
    Segments(Packet<Body>),
    /// What was put together elsewhere.
    Whole(Whole),
}

impl Run {
    fn segments(&self) -> u64 {
        match self {
            Self::Segments(packet) => u64::from(packet.count),
            Self::Whole(whole) => whole.segments(),
        }
    }
}

/// What one interface is to be given.
#[derive(Debug)]
struct Staged {
    iface: IfaceId,
    run: Run,
    /// When its first segment was due.
    due: Time,
}

/// Where packets leave: ports, and the trunks to other members where there are any.
pub(super) struct Exits<'a> {
    pub(super) ports: &'a Ports,
    pub(super) trunks: Option<&'a mut Trunks>,
}

impl Exits<'_> {
    /// The other member that has an interface.
    fn place(&self, iface: IfaceId) -> Option<AgentId> {
        self.trunks.as_ref().and_then(|trunks| trunks.place(iface))
    }

    /// What was to be written has been.
    fn done(&mut self, staged: Staged) {
        if let (Run::Whole(whole), Some(trunks)) = (staged.run, &mut self.trunks) {
            trunks.recycle(whole.frame);
        }
    }

    /// Hands over what is in two parts, `headers` and `payload`.
    fn write(
        &mut self,
        staged: &Staged,
        offload: Offload,
        version: u8,
        [headers, payload]: [&[u8]; 2],
    ) -> rustix::io::Result<()> {
        let &Staged { iface, due, .. } = staged;
        let Some((trunks, to)) = self.trunks.as_deref_mut().and_then(|trunks| {
            let to = trunks.place(iface)?;
            Some((trunks, to))
        }) else {
            return self.ports.write(iface, offload, version, headers, payload);
        };
        let virtio = offload.write(0);
        // The trunk counts what it has no room for.
        trunks.put(to, &Message { iface, due, version, virtio, headers, payload });
        Ok(())
    }
}

/// What is due and not yet written.
#[derive(Debug, Default)]
pub(super) struct Egress {
    staged: Vec<Staged>,
    /// Writes that a port had no room for: they wait, nothing is dropped.
    stalled: VecDeque<Staged>,
}

impl Egress {
    /// Adds a delivery, to the run that it continues where there is one.
    pub(super) fn stage(&mut self, iface: IfaceId, packet: Packet<Body>, due: Time) {
        for staged in self.staged.iter_mut().rev().take(LOOK_BACK) {
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

    /// Adds what another member has put together.
    pub(super) fn stage_whole(&mut self, iface: IfaceId, whole: Whole, due: Time) {
        self.staged.push(Staged { iface, run: Run::Whole(whole), due });
    }

    /// Whether so much is stalled that nothing more should be read.
    pub(super) fn is_congested(&self) -> bool {
        self.stalled.len() > MOST_STALLED
    }

    /// Whether a port must be tried again.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Writes what is due. `clock` gives the time for the record of lateness.
    pub(super) fn flush(
        &mut self,
        exits: &mut Exits<'_>,
        report: &mut Report,
        clock: impl Fn() -> Time,
    ) {
        if !self.stalled.is_empty() {
            self.stalled.extend(self.staged.drain(..));
            while let Some(staged) = self.stalled.pop_front() {
                if !attempt(&staged, exits, report, &clock) {
                    self.stalled.push_front(staged);
                    return;
                }
                exits.done(staged);
            }
            return;
        }
        let mut runs = self.staged.drain(..);
        for staged in runs.by_ref() {
            if !attempt(&staged, exits, report, &clock) {
                self.stalled.push_back(staged);
                break;
            }
            exits.done(staged);
        }
        self.stalled.extend(runs);
    }
}

/// Whether `next` is the segment after `run`, changed in the same way.
fn continues(run: &Packet<Body>, next: &Packet<Body>) -> bool {
    run.body.is_same(&next.body)
        && run.first + run.count == next.first
        && run.ttl == next.ttl
        && run.ecn == next.ecn
        && run.corrupt.is_none()
        && next.corrupt.is_none()
}

/// Writes one run; false if the port had no room.
fn attempt(
    staged: &Staged,
    exits: &mut Exits<'_>,
    report: &mut Report,
    clock: &impl Fn() -> Time,
) -> bool {
    let result = match &staged.run {
        Run::Segments(packet) if packet.corrupt.is_some() => write_corrupt(staged, packet, exits),
        Run::Segments(packet) => write_run(staged, packet, exits),
        Run::Whole(Whole { version, frame }) => {
            exits.ports.write_frame(staged.iface, *version, frame)
        }
    };
    let segments = staged.run.segments();
    match result {
        // Whoever delivers it tells when it did.
        Ok(()) if exits.place(staged.iface).is_some() => {}
        Ok(()) => {
            report.writes += 1;
            report.delivered += segments;
            report.lateness.record_many(clock().since(staged.due).as_nanos(), segments);
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
    exits: &mut Exits<'_>,
) -> rustix::io::Result<()> {
    let Packet { body, first, count, ttl, ecn, .. } = packet;
    let bytes = body.packet();
    let change = Change { ttl: *ttl, marked: *ecn == Ecn::Marked };
    let piece = body.layout.piece(bytes, *first, *count, change);
    let parts = [&piece.headers[..piece.header_length], &bytes[piece.payload]];
    exits.write(staged, piece.offload, body.version, parts)
}

fn write_corrupt(
    staged: &Staged,
    packet: &Packet<Body>,
    exits: &mut Exits<'_>,
) -> rustix::io::Result<()> {
    let mut bytes = assemble(packet, packet.first);
    wire::flip_bit(&mut bytes, packet.corrupt.unwrap_or(0));
    exits.write(staged, Offload::default(), packet.body.version, [&bytes, &[]])
}

/// One segment as complete bytes, checksums included.
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
