//! The receiving side: from datagrams to messages.

use base::{IfaceId, Time};

use super::format::{CLEAR, MAX_MESSAGE_BYTES, RECORD, SEALED, TRAILER, Trailer, VIRTIO};
use super::reassembly::Part;
use super::window::{Arrival, Window};
use super::{Incoming, MAX_SPARE_TRAINS, Peer, Received, Trunk};
use crate::AgentId;

/// The unsealed header of a datagram.
#[derive(Clone, Copy, Debug)]
struct Clear {
    number: u64,
    epoch: u64,
    from: AgentId,
}

/// The receiver of messages from one peer.
struct Sink<'a, F> {
    now: Time,
    from: AgentId,
    spare: &'a mut Vec<Vec<u8>>,
    each: F,
}

impl Trunk {
    /// Processes the datagrams of one receive call: `segment` bytes each, of which the last one may
    /// be shorter. Opens them in place and passes each complete message to `each`. `now` is the
    /// time of the receive call.
    pub fn receive(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        segment: usize,
        mut each: impl FnMut(Received),
    ) {
        for datagram in buffer.chunks_mut(segment.max(1)) {
            let own = self.options.own;
            let known = Clear::decode(datagram).and_then(|clear| {
                let peer = self.peers.get_mut(clear.from.index()).filter(|_| clear.from != own)?;
                Some((clear, peer))
            });
            let Some((clear, peer)) = known else {
                self.unknown_sender += 1;
                continue;
            };
            let length = datagram.len();
            let Some(opened) = peer.opening.open(datagram) else {
                peer.statistics.forged += 1;
                continue;
            };
            let Some((content, trailer)) = opened.split_last_chunk::<TRAILER>() else { continue };
            let trailer = Trailer::decode(*trailer);
            if peer.count(now, clear, trailer, length) {
                let spare = &mut self.frames;
                let mut sink = Sink { now, from: clear.from, spare, each: &mut each };
                peer.messages(clear.number, trailer, content, &mut sink);
            }
        }
    }

    /// Takes back the buffer of a message.
    pub fn recycle(&mut self, mut frame: Vec<u8>) {
        // Only buffers for large messages are worth keeping.
        if frame.capacity() > MAX_MESSAGE_BYTES / 2 && self.frames.len() < 4 * MAX_SPARE_TRAINS {
            frame.clear();
            self.frames.push(frame);
        }
    }
}

impl Clear {
    fn decode(datagram: &[u8]) -> Option<Self> {
        let (clear, rest) = datagram.split_first_chunk::<CLEAR>()?;
        let clear = u128::from_be_bytes(*clear);
        (rest.len() >= SEALED).then_some(Self {
            number: (clear >> 64) as u64,
            epoch: clear as u64 >> 16,
            from: AgentId(clear as u16),
        })
    }
}

impl Peer {
    /// Counts an authentic datagram. Returns whether it is new and from the peer's latest epoch.
    fn count(&mut self, now: Time, clear: Clear, trailer: Trailer, length: usize) -> bool {
        let statistics = &mut self.statistics;
        if self.incoming.as_ref().is_none_or(|incoming| incoming.epoch < clear.epoch) {
            self.reassembler.clear();
            self.incoming = Some(Incoming { epoch: clear.epoch, window: Window::new() });
        }
        let Some(incoming) = self.incoming.as_mut().filter(|one| one.epoch == clear.epoch) else {
            statistics.stale += 1;
            return false;
        };
        let before = incoming.window.lost();
        match incoming.window.arrive(clear.number) {
            Arrival::InOrder => {}
            Arrival::Reordered => statistics.reordered += 1,
            Arrival::Duplicate => {
                statistics.duplicate += 1;
                return false;
            }
            Arrival::Stale => {
                statistics.stale += 1;
                return false;
            }
        }
        let after = incoming.window.lost();
        statistics.lost = statistics.lost.wrapping_add(after.wrapping_sub(before));
        statistics.received_datagrams += 1;
        statistics.received_bytes += length as u64;
        if now > Time::ZERO && trailer.sent > Time::ZERO {
            statistics.early += u64::from(now < trailer.sent);
            statistics.delay.record(now.since(trailer.sent).as_nanos());
        }
        true
    }

    /// Extracts messages and parts of messages from a datagram.
    fn messages(
        &mut self,
        number: u64,
        trailer: Trailer,
        content: &[u8],
        sink: &mut Sink<'_, impl FnMut(Received)>,
    ) {
        let Trailer { position, left, back, .. } = trailer;
        let (part, mut rest) = content.split_at(left.min(content.len()));
        if left > 0 {
            let key = number.wrapping_sub(back as u64);
            self.reassemble(Part { key, position, total: position + left, bytes: part }, sink);
        }
        while let Some(&[a, b, c]) = rest.first_chunk() {
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if rest.len() < RECORD + VIRTIO || length == 0 {
                return;
            }
            let total = RECORD + length;
            if total > MAX_MESSAGE_BYTES || length < VIRTIO {
                self.statistics.malformed += 1;
                return;
            }
            let Some((message, more)) = rest.split_at_checked(total) else {
                self.reassemble(Part { key: number, position: 0, total, bytes: rest }, sink);
                return;
            };
            if let Some((head, bytes)) = message.split_first_chunk() {
                let spare = if length > MAX_MESSAGE_BYTES / 2 { sink.spare.pop() } else { None };
                let mut frame = spare.unwrap_or_default();
                frame.extend_from_slice(bytes);
                self.deliver(*head, frame, sink);
            }
            rest = more;
        }
    }

    fn reassemble(&mut self, part: Part<'_>, sink: &mut Sink<'_, impl FnMut(Received)>) {
        let spare = || {
            let spare = if part.total > MAX_MESSAGE_BYTES / 2 { sink.spare.pop() } else { None };
            spare.unwrap_or_default()
        };
        match self.reassembler.add(part, spare) {
            Ok(Some((head, frame))) => self.deliver(head, frame, sink),
            Ok(None) => {}
            Err(()) => self.statistics.malformed += 1,
        }
    }

    /// Passes on a complete message.
    fn deliver(
        &mut self,
        head: [u8; RECORD],
        frame: Vec<u8>,
        sink: &mut Sink<'_, impl FnMut(Received)>,
    ) {
        if frame.len() < VIRTIO {
            self.statistics.malformed += 1;
            return;
        }
        let head = u128::from_be_bytes(head);
        let (due, now) = (Time::from_nanos(head as u64), sink.now);
        self.statistics.received_messages += 1;
        if now > due {
            self.statistics.late += 1;
            self.statistics.late_by.record(now.since(due).as_nanos());
        }
        let (iface, version) = (IfaceId((head >> 64) as u32), (head >> 96) as u8);
        (sink.each)(Received { from: sink.from, iface, due, version, frame });
    }
}
