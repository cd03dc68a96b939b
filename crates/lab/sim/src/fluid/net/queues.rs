//! Queues of elastic traffic: their delays, and the losses when they overflow.

use base::Histogram;
use fabric::{LinkStats, QueueLevel};
use sharing::LinkKey;

use super::Net;
use crate::fluid::backlog::Swing;

/// Number of flows whose mean queue estimate is used.
const SAMPLE: usize = 8;

/// Mean number of segments that a burst loses if it loses any: the segments at the end of a full
/// queue are consecutive. In the packet engine, the median transfer with losses loses 5.
const CLUSTER: f64 = 5.0;

/// RTTs until a lost tail has been repaired: two until the tail loss probe (RFC 8985 §7.2), and one
/// until its acknowledgement.
const REPAIR: f64 = 3.0;

/// Additional seconds if the probe is lost too, or no segment is left to be acknowledged.
const TIMEOUT: f64 = 0.2;

impl Net {
    /// Queueing delay on a stream's path, in seconds.
    pub(super) fn waiting(&self, id: u32) -> f64 {
        let links = &self.streams[id as usize].route.links;
        links.iter().map(|link| self.wait_at(*link)).sum()
    }

    /// Queueing delay of a packet at a link, in seconds.
    pub(super) fn wait_at(&self, link: LinkKey) -> f64 {
        let Some(entry) = self.links.table.get(link.0 as usize) else { return 0.0 };
        let elastic = self.standing(link);
        let capacity = entry.capacity();
        entry.wait() + if elastic > 0.0 && capacity > 0.0 { elastic / capacity } else { 0.0 }
    }

    /// Queued bits of elastic traffic at a link: the mean of the estimates for the first [`SAMPLE`]
    /// flows that the link limits.
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

    /// The sawtooth of a link's queue under the streams that the link limits; `None` if
    /// it limits none.
    fn swing(&self, link: LinkKey) -> Option<Swing> {
        let limited = self.solver.limited_by(link);
        let count = limited.len() as f64;
        let entry = self.links.table.get(link.0 as usize)?;
        let stream =
            limited.map(|key| &self.streams[self.owners[key.0 as usize] as usize]).next()?;
        let manner = &self.ends[stream.flow as usize].manner;
        manner.swing(entry, stream.rtt, count)
    }

    /// Updates the queue at a link to the present.
    pub(super) fn follow(&mut self, link: LinkKey) {
        if link == self.nowhere {
            return;
        }
        self.solver.advance(self.now.as_secs_f64());
        let swing = self.swing(link);
        let spare = (self.solver.capacity(link) - self.solver.load(link)).max(0.0);
        self.links.follow(self.now, link.0, self.solver.carried(link), (swing, spare));
    }

    /// Adds the bits by which a stream's window has grown to the queues on its path. Returns the
    /// survival rate of the data that it sends now.
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

    /// Samples whether a single packet of a stream is lost.
    pub(super) fn loses_one(&mut self, id: u32) -> bool {
        let survives = self.press(id, 0.0);
        survives < 1.0 && self.streams[id as usize].draw() >= survives
    }

    /// Sends the window of a stream, which grew by `grown` bits; the queues may drop the excess. A
    /// loss in the last window costs a probe or a timeout. An earlier loss halves the window.
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

    /// Counters of all directed links, in the order of interfaces.
    pub(in crate::fluid) fn counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        let links = (0..self.links.table.len() as u32).map(LinkKey);
        links
            .map(|link| {
                self.follow(link);
                self.links.counters(self.now, link.0, self.solver.carried(link))
            })
            .collect()
    }

    /// Queueing delays of all directed links, in the order of interfaces.
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
