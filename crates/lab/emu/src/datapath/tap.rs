//! Captures and mirrors: copies of packets to a file or to another node.

use base::{IfaceId, MirrorId, Span, Time};
use fabric::{DropReason, Packet};
use lab::plan::{MirrorTarget, Plan};
use run::{CaptureId, PacketRecord, RecorderHandle};

use super::buffer::Body;
use super::egress::{Egress, assemble};

/// The destinations of copies.
pub(super) struct Taps {
    recorder: RecorderHandle,
    captures: Vec<Option<CaptureId>>,
    mirrors: Vec<Sink>,
}

enum Sink {
    File(CaptureId),
    Port(IfaceId),
    Discard,
}

impl Taps {
    pub(super) fn new(
        plan: &Plan,
        recorder: RecorderHandle,
        captures: Vec<Option<CaptureId>>,
        mirror_captures: &[Option<CaptureId>],
    ) -> Self {
        let sink = |(at, mirror): (usize, &lab::plan::Mirror)| match mirror.to {
            MirrorTarget::Node(node) => {
                plan.nodes[node.index()].ifaces.first().map_or(Sink::Discard, |i| Sink::Port(*i))
            }
            MirrorTarget::File => {
                mirror_captures.get(at).copied().flatten().map_or(Sink::Discard, Sink::File)
            }
        };
        let mirrors = plan.mirrors.iter().enumerate().map(sink).collect();
        Self { recorder, captures, mirrors }
    }

    pub(super) fn captured_ifaces(&self) -> impl Iterator<Item = IfaceId> + '_ {
        let some = self.captures.iter().enumerate().filter(|(_, capture)| capture.is_some());
        some.map(|(at, _)| IfaceId::at(at))
    }

    /// Writes the packets on a captured interface, segment by segment.
    pub(super) fn capture(
        &self,
        iface: IfaceId,
        outbound: bool,
        packet: &Packet<Body>,
        dropped: Option<DropReason>,
        at: Time,
    ) {
        if let Some(capture) = self.captures.get(iface.index()).copied().flatten() {
            self.write(capture, outbound, packet, dropped, at);
        }
    }

    /// Sends a mirrored copy. It arrives after the egress lead time to its interface's
    /// agent, which `lead` returns.
    pub(super) fn mirror(
        &self,
        mirror: MirrorId,
        packet: Packet<Body>,
        at: Time,
        lead: impl Fn(IfaceId) -> Span,
        egress: &mut Egress,
    ) {
        match self.mirrors.get(mirror.index()) {
            Some(Sink::File(capture)) => self.write(*capture, true, &packet, None, at),
            Some(Sink::Port(iface)) => egress.stage(*iface, packet, at + lead(*iface)),
            Some(Sink::Discard) | None => {}
        }
    }

    fn write(
        &self,
        capture: CaptureId,
        outbound: bool,
        packet: &Packet<Body>,
        dropped: Option<DropReason>,
        at: Time,
    ) {
        for segment in packet.first..packet.first + packet.count {
            let bytes = assemble(packet, segment);
            let dropped = dropped.map(run::DropReason::from);
            let length = bytes.len() as u32;
            let record = PacketRecord { at, capture, outbound, dropped, bytes: &bytes, length };
            self.recorder.packet(&record);
        }
    }
}
