//! Queues of elastic traffic: how long they make others wait, and who loses when they overflow.

use base::Histogram;
use fabric::{LinkStats, QueueLevel};
use sharing::LinkKey;

use super::Net;
use crate::fluid::backlog::Swing;

/// Flows whose view of a queue is asked for.
const SAMPLE: usize = 8;

/// Segments that a burst loses on average if it loses any: those at the end of a full queue come
/// one after the other. The packet engine's transfers lose 5 in the median.
const CLUSTER: f64 = 5.0;

/// Round trips until a lost tail has arrived after all: a probe after two (RFC 8985 §7.2), and
/// the answer to what it tells.
const REPAIR: f64 = 3.0;

/// Seconds more if the probe is lost too, or nothing is left to be acknowledged.
const TIMEOUT: f64 = 0.2;

impl Net {
    /// Seconds in queues on a stream's way.
    pub(super) fn waiting(&self, id: u32) -> f64 {
        let links = &self.streams[id as usize].route.links;
        links.iter().map(|link| self.wait_at(*link)).sum()
    }

    /// Seconds that a packet waits at a link.
    pub(super) fn wait_at(&self, link: LinkKey) -> f64 {
        let Some(entry) = self.links.table.get(link.0 as usize) else { return 0.0 };
        let elastic = self.standing(link);
        let capacity = entry.capacity();
        entry.wait() + if elastic > 0.0 && capacity > 0.0 { elastic / capacity } else { 0.0 }
    }

    /// Bits of elastic traffic that wait at a link: as the flows that it limits have them, the
    /// first few of them at most.
    fn standing(&self, link: LinkKey) -> f64 {
        if !self.solver.is_bottleneck(link) || link == self.nowhere {
            return 0.0;
        }
        let (mut sum, mut count) = (0.0, 0.0f64);
        for key in self.solver.limited_by(link).take(SAMPLE) {
            let stream = &self.streams[self.owners[key.0 as usize] as usize];
            count += 1.0;
            if !stream.slow_start {
                let manner = &self.ends[stream.flow as usize].manner;
                sum += manner.standing_queue(&self.links.table[link.0 as usize], stream.rtt);
            }
        }
        sum / count.max(1.0)
    }

    /// What the queue of a link does under the streams that the link limits; `None` if it limits
    /// none.
    fn swing(&self, link: LinkKey) -> Option<Swing> {
        let limited = self.solver.limited_by(link);
        let count = limited.len() as f64;
        let entry = self.links.table.get(link.0 as usize)?;
        let stream =
            limited.map(|key| &self.streams[self.owners[key.0 as usize] as usize]).next()?;
        let manner = &self.ends[stream.flow as usize].manner;
        manner.swing(entry, stream.rtt, count)
    }

    /// Brings the queue at a link to the present.
    pub(super) fn follow(&mut self, link: LinkKey) {
        if link == self.nowhere {
            return;
        }
        self.solver.advance(self.now.as_secs_f64());
        let swing = self.swing(link);
        let spare = (self.solver.capacity(link) - self.solver.load(link)).max(0.0);
        self.links.follow(self.now, link.0, self.solver.carried(link), (swing, spare));
    }

    /// The queues on a stream's way take the bits that its window grew by, if any. The part of
    /// what it sends now that survives.
    fn press(&mut self, id: u32, grown: f64) -> f64 {
        let mut survives = 1.0;
        for hop in 0..self.streams[id as usize].route.links.len() {
            let link = self.streams[id as usize].route.links[hop];
            if link != self.nowhere && self.solver.is_bottleneck(link) {
                self.follow(link);
                let backlog = &mut self.links.table[link.0 as usize].backlog;
                backlog.press(grown);
                survives *= 1.0 - backlog.loss();
            }
        }
        survives
    }

    /// Whether a lone packet of a stream is lost.
    pub(super) fn loses_one(&mut self, id: u32) -> bool {
        let survives = self.press(id, 0.0);
        survives < 1.0 && self.streams[id as usize].draw() >= survives
    }

    /// A stream sends a window, which grew by so many bits, and loses what does not fit: at the
    /// tail that costs a probe or a timeout, before it the window is halved.
    pub(super) fn burst(&mut self, id: u32, grown: f64, rtt: f64) {
        let survives = self.press(id, grown);
        if survives >= 1.0 {
            return;
        }
        let segment = self.ends[self.streams[id as usize].flow as usize].manner.segment_bits();
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        let segments = (stream.window.min(stream.left) / segment).ceil();
        let mean = segments * (1.0 - survives);
        let lost = mean.max(CLUSTER).min(segments);
        if stream.draw() * lost >= mean {
            return;
        }
        stream.lost += lost;
        if stream.left > stream.window {
            stream.window = (stream.window / 2.0).max(2.0 * segment);
            stream.slow_start = false;
            stream.recovers = true;
        } else {
            stream.late += REPAIR * rtt;
            if lost >= segments || stream.draw() >= survives {
                stream.late += TIMEOUT;
            }
        }
    }

    /// Counters of all link directions, in the order of interfaces.
    pub(in crate::fluid) fn counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        let links = (0..self.links.table.len() as u32).map(LinkKey);
        links
            .map(|link| {
                self.follow(link);
                self.links.counters(self.now, link.0, self.solver.carried(link))
            })
            .collect()
    }

    /// How long packets waited, likewise.
    pub(in crate::fluid) fn delays(&mut self) -> Vec<Histogram> {
        let links = (0..self.links.table.len() as u32).map(LinkKey);
        links
            .map(|link| {
                self.follow(link);
                self.links.table[link.0 as usize].delays.take()
            })
            .collect()
    }
}
