//! The receiving half: reassembly, acknowledgements, and the offered window.

mod reordering;

use base::{Span, Time};

use super::Config;
use super::packed::{Packed, Packer, Unpacker};
use super::segment::{FIRST_MARKS, Feedback, Flags, Segment, unwrap};
use reordering::Reordering;

/// No FIN has been received.
const NO_FIN: u64 = u64::MAX;
/// Largest window without scaling (RFC 7323): that of a SYN.
const UNSCALED: u64 = 65_535;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Next sequence number expected (RCV.NXT).
    next: u64,
    /// Sequence number of the first byte.
    start: u64,
    /// Bytes read by the application.
    read: u64,
    /// End of the offered window, which never decreases.
    edge: u64,
    /// Last acknowledgement sent.
    acked: u64,
    /// Sequence number of the FIN.
    fin: u64,
    /// Time at which a delayed acknowledgement is due.
    ack_at: Time,
    last_arrival: Time,
    /// Data received out of order.
    reordering: Option<Box<Reordering>>,
    delay: Span,
    capacity: u32,
    /// Maximum unacknowledged bytes without an immediate acknowledgement
    /// after a full-sized segment.
    tolerance: u32,
    mss: u32,
    scale: u8,
    /// Remaining immediate acknowledgements, for a sender in its first slow start.
    quick: u8,
    quick_limit: u8,
    /// Whether responses follow requests, so that acknowledgements can travel with them.
    interactive: bool,
    ack_now: bool,
    /// Whether to echo marks, until the sender reports that it has reduced its window.
    echo: bool,
    /// Whether the last data segment was marked.
    marked: bool,
    pub(super) marks: u64,
    pub(super) duplicates: u64,
}

/// For in-order segments without a pending acknowledgement.
impl Packed for Receiver {
    fn pack(&self, to: &mut Packer) {
        for number in [self.next, self.start, self.read, self.edge, self.acked, self.fin] {
            to.number(number);
        }
        self.last_arrival.pack(to);
        self.delay.pack(to);
        for number in [self.capacity, self.tolerance, self.mss] {
            number.pack(to);
        }
        for number in [self.scale, self.quick, self.quick_limit] {
            number.pack(to);
        }
        for flag in [self.interactive, self.echo, self.marked] {
            flag.pack(to);
        }
        to.number(self.marks);
        to.number(self.duplicates);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let [next, start, read, edge, acked, fin] = std::array::from_fn(|_| from.number());
        let last_arrival = Packed::unpack(from);
        let delay = Packed::unpack(from);
        let [capacity, tolerance, mss] = std::array::from_fn(|_| u32::unpack(from));
        let [scale, quick, quick_limit] = std::array::from_fn(|_| u8::unpack(from));
        let [interactive, echo, marked] = std::array::from_fn(|_| bool::unpack(from));
        let [marks, duplicates] = std::array::from_fn(|_| from.number());
        Self {
            next,
            start,
            read,
            edge,
            acked,
            fin,
            ack_at: Time::MAX,
            last_arrival,
            reordering: None,
            delay,
            capacity,
            tolerance,
            mss,
            scale,
            quick,
            quick_limit,
            interactive,
            ack_now: false,
            echo,
            marked,
            marks,
            duplicates,
        }
    }
}

impl Receiver {
    /// Maximum segment size in bytes, and window scale.
    pub(super) const fn syn_options(&self) -> (u16, u8) {
        (self.mss as u16, self.scale)
    }

    pub(super) fn new(config: &Config) -> Self {
        let capacity = config.receive_window.count().clamp(1, 1 << 30);
        let mut scale = 0;
        while (capacity >> scale) > UNSCALED {
            scale += 1;
        }
        Self {
            next: 0,
            start: 0,
            read: 0,
            edge: 0,
            acked: 0,
            fin: NO_FIN,
            ack_at: Time::MAX,
            last_arrival: Time::ZERO,
            reordering: None,
            delay: config.delayed_ack,
            capacity: capacity as u32,
            tolerance: config.mss.saturating_mul(config.ack_every.max(1) - 1),
            mss: config.mss,
            scale,
            quick: config.quick_acks,
            quick_limit: config.quick_acks,
            interactive: false,
            ack_now: false,
            echo: false,
            marked: false,
            marks: 0,
            duplicates: 0,
        }
    }

    /// The peer's SYN had this sequence number.
    pub(super) fn synchronise(&mut self, syn: u32) {
        let start = (1 << 32) + u64::from(syn) + 1;
        (self.start, self.next, self.read) = (start, start, start);
        (self.acked, self.edge) = (start, start + u64::from(self.capacity).min(UNSCALED));
    }

    /// Handles a segment of an established connection with payload, FIN, or an old sequence number.
    pub(super) fn on_segment(&mut self, now: Time, segment: &Segment, rto: Span) {
        let seq = unwrap(self.next, segment.seq);
        let is_fin = segment.flags.contains(Flags::FIN);
        let payload_end = seq + u64::from(segment.length);
        let end = payload_end + u64::from(is_fin);
        if seq == end {
            self.ack_now |= seq != self.next;
            return;
        }
        if now.since(self.last_arrival) > rto {
            self.quick = self.quick_limit;
        }
        self.last_arrival = now;
        if end <= self.next || payload_end > self.edge {
            if end <= self.next {
                self.report_duplicate(seq, end);
            }
            self.ack_now = true;
            return;
        }
        if is_fin {
            self.fin = payload_end;
        }
        if seq > self.next {
            self.ack_now = true;
            self.duplicates += u64::from(self.ahead().insert(seq, end));
            return;
        }
        if seq < self.next {
            self.report_duplicate(seq, self.next);
        }
        self.advance(now, end, is_fin);
    }

    fn advance(&mut self, now: Time, end: u64, is_fin: bool) {
        self.next = end;
        if let Some(ahead) = &mut self.reordering
            && !ahead.is_empty()
        {
            self.next = ahead.advance(end);
            self.ack_now = true;
        }
        if is_fin || self.next - self.acked > u64::from(self.tolerance) {
            self.ack_now = true;
        } else if self.quick > 0 && !self.interactive {
            self.quick -= 1;
            self.ack_now = true;
        } else if self.ack_at == Time::MAX {
            self.ack_at = now + self.delay;
        }
    }

    fn ahead(&mut self) -> &mut Reordering {
        self.reordering.get_or_insert_default()
    }

    fn report_duplicate(&mut self, seq: u64, end: u64) {
        self.duplicates += 1;
        self.ahead().duplicate = Some((seq, end));
    }

    /// Handles the mark of a segment's packet, and the sender's report that it has reduced its
    /// window (RFC 3168 §6.1.3). A change is reported at once (RFC 9768 §3.2.2.5.1 for accurate
    /// feedback).
    pub(super) fn on_codepoint(&mut self, marked: bool, reduced: bool) {
        if reduced {
            self.echo = false;
        }
        if marked != self.marked {
            self.marked = marked;
            self.ack_now = true;
        }
        if marked {
            self.marks += 1;
            self.echo = true;
        }
    }

    /// Whether a segment starts at the next expected sequence number.
    pub(super) fn is_next(&self, segment: &Segment) -> bool {
        segment.seq == self.next as u32
    }

    /// Next sequence number expected.
    pub(super) fn next_seq(&self) -> u32 {
        self.next as u32
    }

    /// Handles expired deadlines.
    pub(super) fn on_wake(&mut self, now: Time) {
        if self.ack_at <= now {
            self.ack_now = true;
            self.ack_at = Time::MAX;
        }
    }

    /// Stops all timers.
    pub(super) fn stop(&mut self) {
        self.ack_at = Time::MAX;
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        (self.ack_at < Time::MAX).then_some(self.ack_at)
    }

    pub(super) const fn wants_ack(&self) -> bool {
        self.ack_now
    }

    /// Whether an acknowledgement must be sent at once.
    pub(super) fn ack_at_once(&mut self) {
        self.ack_now = true;
    }

    /// Fills in the receiver's fields of a segment.
    pub(super) fn acknowledge(&mut self, now: Time, segment: &mut Segment, ecn: Feedback) {
        let with_data = segment.length > 0;
        segment.flags = segment.flags | Flags::ACK;
        if ecn.is_accurate() {
            segment.flags = segment.flags.with_marks(FIRST_MARKS + self.marks);
        } else if self.echo {
            segment.flags = segment.flags | Flags::ECE;
        }
        segment.ack = self.next as u32;
        segment.window = self.offer();
        let mut reported = true;
        if let Some(ahead) = &mut self.reordering {
            // Payload and SACK blocks share a segment: a full-sized one has no space for blocks.
            let free = match segment.length {
                0 => u32::MAX,
                length => self.mss.saturating_sub(u32::from(length)),
            };
            reported = ahead.report(segment, free);
            if ahead.is_empty() {
                self.reordering = None;
            }
        }
        if with_data && now.since(self.last_arrival) < self.delay {
            self.interactive = true;
        }
        self.acked = self.next;
        // Blocks that did not fit follow in a segment without payload.
        self.ack_now &= !reported;
        self.ack_at = Time::MAX;
    }

    /// The window offered in a SYN.
    pub(super) fn initial_offer(&self) -> u32 {
        u64::from(self.capacity).min(UNSCALED) as u32
    }

    /// The window to offer. To avoid silly windows, its end advances by at least a segment (RFC
    /// 9293 §3.8.6.2.2).
    fn offer(&mut self) -> u32 {
        let edge = self.read + u64::from(self.capacity);
        if edge >= self.edge + u64::from(self.mss.min(self.capacity / 2).max(1)) {
            self.edge = edge;
        }
        let window = self.edge.saturating_sub(self.next);
        ((window >> self.scale) << self.scale) as u32
    }

    /// Payload that can be read.
    pub(super) fn readable(&self) -> u64 {
        self.next - u64::from(self.finished()) - self.read
    }

    /// The application has read `count` bytes. A window update is sent if it doubles a window that
    /// is smaller than half of the buffer, as in Linux.
    pub(super) fn read(&mut self, count: u64) {
        let count = count.min(self.readable());
        if count == 0 {
            return;
        }
        self.read += count;
        let offered = self.edge.saturating_sub(self.next);
        if 2 * offered <= u64::from(self.capacity) {
            let possible = (self.read + u64::from(self.capacity)).saturating_sub(self.next);
            let worth = u64::from(self.mss.min(self.capacity / 2).max(1));
            self.ack_now |= possible >= worth && possible >= 2 * offered;
        }
    }

    /// Payload received in order.
    pub(super) fn received(&self) -> u64 {
        self.next - u64::from(self.finished()) - self.start
    }

    /// Whether the FIN and all data before it have arrived.
    pub(super) fn finished(&self) -> bool {
        self.next > self.fin
    }

    /// Whether it has nothing to send and no unread data.
    pub(super) fn is_at_rest(&self) -> bool {
        self.reordering.is_none()
            && !self.ack_now
            && self.ack_at == Time::MAX
            && self.readable() == 0
    }

    #[cfg(test)]
    pub(super) fn is_in_order(&self) -> bool {
        self.reordering.is_none()
    }
}
