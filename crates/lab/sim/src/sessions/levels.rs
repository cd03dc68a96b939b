//! Counters and queues of links, read once per sample for the table of links and for the totals.

use base::{Bytes, LinkId, Span};
use fabric::fifo::{FifoLink, FifoNetwork, Level};
use fabric::{LinkStats, QueueLevel};
use lab::plan::Plan;

use super::wires::limit;

/// Links that sessions have crossed, with their counters as last read.
#[derive(Debug)]
pub(super) struct Levels {
    /// Directed links that can carry traffic: those of paths, and their opposite directions.
    links: Vec<u32>,
    /// For each directed link, whether `links` contains it.
    known: Vec<bool>,
    /// Identifier of each link in the original plan.
    original: Vec<LinkId>,
    /// The lab's queue limits in wire bytes, by directed link.
    limits: Vec<u64>,
    packet: u64,
    control: u64,
    seen: Carried,
    total: Carried,
    /// The link whose queue exceeded its limit by the most, and the excess.
    exceeded: Option<(u32, u64)>,
}

/// Sums over links, the largest queue, and the queue with the longest drain time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) control: u64,
    pub(super) data: u64,
    pub(super) queue_bytes: u64,
    pub(super) queue_time: Span,
}

impl Levels {
    pub(super) fn new(plan: &Plan, original: Vec<LinkId>, packet: Bytes) -> Self {
        let control = plan.control.as_ref().map_or(64, |c| c.settings.packet.count());
        let configs = plan.links.iter().flat_map(|link| &link.directions);
        Self {
            links: Vec::new(),
            known: vec![false; plan.links.len()],
            original,
            limits: configs.map(|config| limit(config, packet)).collect(),
            packet: packet.count().max(1),
            control: control.max(1),
            seen: Carried::default(),
            total: Carried::default(),
            exceeded: None,
        }
    }

    /// Wire bytes of a data packet.
    pub(super) const fn packet(&self) -> u64 {
        self.packet
    }

    /// Registers a link of a session's path.
    pub(super) fn cross(&mut self, link: u32) {
        let known = &mut self.known[link as usize / 2];
        if !*known {
            *known = true;
            self.links.extend([link & !1, link | 1]);
        }
    }

    /// Reads all links. Passes the counters of `reported` links to `sink`; links are numbered as
    /// directed links of the original plan.
    pub(super) fn read<M: Copy>(
        &mut self,
        net: &mut FifoNetwork<M>,
        wires: &[FifoLink],
        reported: &[bool],
        sink: &mut dyn FnMut(usize, LinkStats, QueueLevel),
    ) {
        let mut sum = Carried { control: 0, data: 0, ..self.total };
        for link in &self.links {
            let level = net.take_level(*link);
            let peak = level.peak.count();
            sum.control += level.control.count();
            sum.data += level.arrived.count() - level.control.count();
            sum.queue_bytes = sum.queue_bytes.max(peak);
            sum.queue_time = sum.queue_time.max(time(&wires[*link as usize], level.peak));
            let limit = self.limits[*link as usize];
            if peak > limit && self.exceeded.is_none_or(|(_, by)| peak - limit > by) {
                self.exceeded = Some((*link, peak - limit));
            }
            let original = self.original[*link as usize / 2].index() * 2 + *link as usize % 2;
            if reported.get(original) == Some(&true) {
                let wire = &wires[*link as usize];
                let (stats, queue) = self.counters(&level, wire);
                sink(original, stats, queue);
            }
        }
        self.total = sum;
    }

    /// Converts a link's byte counters to packets: data packets have one size,
    /// control packets another.
    fn counters(&self, level: &Level, wire: &FifoLink) -> (LinkStats, QueueLevel) {
        let packets = |arrived: u64, control: u64| {
            arrived.saturating_sub(control) / self.packet + control / self.control
        };
        let [arrived, control] = [level.arrived, level.control].map(Bytes::count);
        let [backlog, peak] = [level.backlog, level.peak].map(Bytes::count);
        let sent = arrived.saturating_sub(backlog);
        let offered_packets = packets(arrived, control);
        let sent_packets = offered_packets.saturating_sub(backlog.div_ceil(self.packet));
        let stats = LinkStats {
            offered_packets,
            offered_bytes: arrived,
            sent_packets,
            sent_bytes: sent,
            delivered_packets: sent_packets,
            delivered_bytes: sent,
            ..LinkStats::default()
        };
        let queue = QueueLevel {
            packets: backlog.div_ceil(self.packet),
            bytes: backlog,
            peak_packets: peak.div_ceil(self.packet),
            peak_bytes: peak,
            peak_delay: time(wire, level.peak),
        };
        (stats, queue)
    }

    /// Takes the totals since the last call, as of the last reading.
    pub(super) fn take(&mut self) -> Carried {
        let taken = Carried {
            control: self.total.control - self.seen.control,
            data: self.total.data - self.seen.data,
            ..self.total
        };
        self.seen = self.total;
        self.total.queue_bytes = 0;
        self.total.queue_time = Span::ZERO;
        taken
    }

    /// Total bytes of control and of data, as of the last reading.
    pub(super) const fn totals(&self) -> [u64; 2] {
        [self.total.control, self.total.data]
    }

    /// The queue that exceeded its limit by the most.
    pub(super) fn exceeded(&self) -> Option<(LinkId, u64)> {
        self.exceeded.map(|(link, by)| (self.original[link as usize / 2], by))
    }

    pub(super) fn memory(&self) -> u64 {
        (self.links.capacity() * 4
            + self.known.len()
            + self.original.len() * 4
            + self.limits.len() * 8) as u64
    }
}

/// Drain time of a link's queue; 0 for links without a rate.
fn time(wire: &FifoLink, waiting: Bytes) -> Span {
    if wire.rate.is_positive() { wire.rate.time_for(waiting) } else { Span::ZERO }
}
