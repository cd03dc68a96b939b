//! Deliveries: segments that are due together leave in one write.

use std::collections::VecDeque;

use base::{IfaceId, Time};
use fabric::{Ecn, Packet};
use rustix::io::Errno;
use wire::{Change, HEADER_MAX, Offload};

use super::Report;
use super::buffer::Body;
use super::ports::Ports;

/// How far back a segment looks for the one before it.
const LOOK_BACK: usize = 8;

/// Writes that wait for a port before reading stops.
const MOST_STALLED: usize = 1024;

/// A run of segments for one port.
#[derive(Debug)]
struct Staged {
    iface: IfaceId,
    packet: Packet<Body>,
    /// When its first segment was due.
    due: Time,
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
        for run in self.staged.iter_mut().rev().take(LOOK_BACK) {
            if run.iface != iface || run.packet.flow != packet.flow {
                continue;
            }
            if continues(&run.packet, &packet) {
                run.packet.count += packet.count;
                run.packet.last = packet.last;
                return;
            }
            break;
        }
        self.staged.push(Staged { iface, packet, due });
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
    pub(super) fn flush(&mut self, ports: &Ports, report: &mut Report, clock: impl Fn() -> Time) {
        if !self.stalled.is_empty() {
            self.stalled.extend(self.staged.drain(..));
            while let Some(run) = self.stalled.pop_front() {
                if !attempt(&run, ports, report, &clock) {
                    self.stalled.push_front(run);
                    return;
                }
            }
            return;
        }
        let mut runs = self.staged.drain(..);
        for run in runs.by_ref() {
            if !attempt(&run, ports, report, &clock) {
                self.stalled.push_back(run);
                break;
            }
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
fn attempt(run: &Staged, ports: &Ports, report: &mut Report, clock: &impl Fn() -> Time) -> bool {
    let result = if run.packet.corrupt.is_some() {
        write_corrupt(run, ports)
    } else {
        write_run(run, ports)
    };
    let segments = u64::from(run.packet.count);
    match result {
        Ok(()) => {
            report.writes += 1;
            report.delivered += segments;
            report.lateness.record_many(clock().since(run.due).as_nanos(), segments);
        }
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => return false,
        Err(Errno::IO | Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => report.refused += segments,
        Err(_) => report.rejected += segments,
    }
    true
}

fn write_run(run: &Staged, ports: &Ports) -> rustix::io::Result<()> {
    let Packet { body, first, count, ttl, ecn, .. } = &run.packet;
    let bytes = body.packet();
    let change = Change { ttl: *ttl, marked: *ecn == Ecn::Marked };
    let piece = body.layout.piece(bytes, *first, *count, change);
    let (headers, payload) = (&piece.headers[..piece.header_length], &bytes[piece.payload]);
    ports.write(run.iface, piece.offload, body.version, headers, payload)
}

fn write_corrupt(run: &Staged, ports: &Ports) -> rustix::io::Result<()> {
    let mut bytes = assemble(&run.packet, run.packet.first);
    wire::flip_bit(&mut bytes, run.packet.corrupt.unwrap_or(0));
    let version = run.packet.body.version;
    ports.write(run.iface, Offload::default(), version, &bytes, &[])
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
