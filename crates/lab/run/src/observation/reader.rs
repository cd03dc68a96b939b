//! The reader of a shard's observations.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::frames::FrameReader;
use crate::{Error, FlowSample, Transfer};
use base::{Histogram, Time};
use lab::plan::Plan;

use super::rows::MAX_COUNTER;
use super::{Counters, Ending, KIND, Observation, Peer};
use crate::FlowResult;

/// Maximum number of values in a histogram, more than any run has packets.
const MAX_HISTOGRAM_VALUES: u64 = 1 << 48;

/// Reads a file of observations one by one. Memory is bounded by one frame and the histograms
/// of one observation.
#[derive(Debug)]
pub struct ObservationReader<R> {
    frames: FrameReader<R>,
    frame: Vec<u8>,
    /// Offset in the frame of the next observation.
    next: usize,
    limits: Limits,
    ended: bool,
}

/// The number of the plan's items that observations refer to by position.
#[derive(Clone, Copy, Debug)]
struct Limits {
    positions: usize,
    ifaces: usize,
    bundles: usize,
    flows: usize,
    programs: usize,
    links: usize,
}

impl ObservationReader<BufReader<File>> {
    /// Opens the file of a shard of this plan.
    ///
    /// # Errors
    /// If the file does not exist, or is of another kind or version.
    pub fn open(path: &Path, plan: &Plan) -> Result<Self, Error> {
        Ok(Self::from_frames(FrameReader::open(path, KIND)?, plan))
    }
}

impl<R: Read> ObservationReader<R> {
    /// Reads a file of a shard of this plan. `path` is used in messages.
    ///
    /// # Errors
    /// If the file is of another kind or version.
    pub fn new(source: R, path: &Path, plan: &Plan) -> Result<Self, Error> {
        Ok(Self::from_frames(FrameReader::new(source, path, KIND)?, plan))
    }

    fn from_frames(frames: FrameReader<R>, plan: &Plan) -> Self {
        let limits = Limits {
            positions: plan.links.len() * 2,
            ifaces: plan.ifaces.len(),
            bundles: plan.bundles.len(),
            flows: plan.flows.len(),
            programs: plan.programs.len(),
            links: plan.links.len(),
        };
        Self { frames, frame: Vec::new(), next: 0, limits, ended: false }
    }

    /// The next observation; `None` at the end. The file of a killed shard has no
    /// [`Observation::End`].
    ///
    /// # Errors
    /// If the file is damaged or truncated, or does not fit the plan. The rest cannot be read.
    pub fn next_observation(&mut self) -> Result<Option<Observation>, Error> {
        while !self.ended && self.next >= self.frame.len() {
            let Some(frame) = self.frames.next_frame()? else { return Ok(None) };
            self.frame.clear();
            self.frame.extend(frame);
            self.next = 0;
        }
        if self.ended {
            return Ok(None);
        }
        let read = postcard::take_from_bytes(&self.frame[self.next..]);
        let Ok((observation, rest)) = read else { return Err(self.damaged()) };
        self.next = self.frame.len() - rest.len();
        if !self.limits.is_valid(&observation) {
            return Err(self.damaged());
        }
        self.ended = matches!(observation, Observation::End(_));
        Ok(Some(observation))
    }

    fn damaged(&mut self) -> Error {
        self.ended = true;
        self.frames.damaged()
    }
}

impl Limits {
    /// Whether all values are valid, and small enough that sums over all shards do not overflow.
    fn is_valid(&self, observation: &Observation) -> bool {
        match observation {
            Observation::Begin(_) => true,
            Observation::Counters(counters) => self.are_valid_counters(counters),
            Observation::Flow(sample) => self.is_valid_sample(sample),
            Observation::Subflow(sample) => {
                let counts = [sample.sent_bytes, sample.received_bytes, sample.retransmits];
                sample.flow.index() < self.flows
                    && sample.path.index() < self.links
                    && is_valid_time(sample.at)
                    && are_valid_counts(&counts)
            }
            Observation::Transfer(transfer) => self.is_valid_transfer(transfer),
            Observation::Result(result) => self.is_valid_result(result),
            Observation::QueueDelay(position, delays) => {
                (*position as usize) < self.positions && is_valid_histogram(delays)
            }
            Observation::Peer(peer) => is_valid_peer(peer),
            Observation::Program(program, _) => (*program as usize) < self.programs,
            Observation::End(ending) => is_valid_ending(ending),
        }
    }

    fn are_valid_counters(&self, counters: &Counters) -> bool {
        is_valid_time(counters.at)
            && counters
                .links
                .iter()
                .all(|row| (row.position as usize) < self.positions && row.is_valid())
            && counters.shares.iter().all(|row| row.is_valid(self.ifaces))
            && counters
                .bundles
                .iter()
                .all(|row| (row.bundle as usize) < self.bundles && row.is_valid())
            && counters
                .changes
                .iter()
                .all(|row| (row.bundle as usize) < self.bundles && row.transition().is_some())
    }

    fn is_valid_sample(&self, sample: &FlowSample) -> bool {
        let counts = [
            sample.sent_bytes,
            sample.received_bytes,
            sample.retransmits.unwrap_or(0),
            sample.lost.unwrap_or(0),
            sample.responses.unwrap_or(0),
            sample.reinjected_bytes.unwrap_or(0),
            sample.reorder_bytes.unwrap_or(0),
            sample.interval.as_nanos(),
        ];
        let distributions = [&sample.delay, &sample.latency].into_iter().flatten();
        sample.flow.index() < self.flows
            && is_valid_time(sample.at)
            && are_valid_counts(&counts)
            && distributions.into_iter().all(|d| d.count <= MAX_HISTOGRAM_VALUES)
    }

    fn is_valid_transfer(&self, transfer: &Transfer) -> bool {
        let spans = [transfer.completion, transfer.ideal].into_iter().flatten();
        transfer.flow.index() < self.flows
            && is_valid_time(transfer.start)
            && spans.into_iter().all(|span| span.as_nanos() <= MAX_COUNTER)
    }

    fn is_valid_result(&self, result: &FlowResult) -> bool {
        let histograms = [&result.rtt, &result.delay, &result.latency, &result.goodput];
        let transfers = result.transfers.iter();
        let more = transfers.flat_map(|all| [&all.completion, &all.slowdown]);
        let counts = [
            result.sent_bytes,
            result.received_bytes,
            result.retransmits.unwrap_or(0),
            result.timeouts.unwrap_or(0),
            result.responses.unwrap_or(0),
            result.active.as_nanos(),
            result.reinjected.unwrap_or(0),
        ];
        let datagrams = result.datagrams.iter();
        let datagrams = datagrams.flat_map(|d| [d.sent, d.received, d.lost, d.skipped, d.overrun]);
        let edges = result.edges.iter().all(|(_, edge)| *edge <= MAX_COUNTER);
        let times = [result.started, result.ended].into_iter().flatten();
        let paths = result.paths.iter();
        result.id.index() < self.flows
            && edges
            && histograms.into_iter().chain(more).all(is_valid_histogram)
            && are_valid_counts(&counts)
            && datagrams.into_iter().all(|count| count <= MAX_COUNTER)
            && times.into_iter().all(is_valid_time)
            && paths.into_iter().all(|path| path.path.index() < self.links)
    }
}

fn is_valid_peer(peer: &Peer) -> bool {
    let counts = [
        peer.sent_datagrams,
        peer.sent_bytes,
        peer.refused,
        peer.datagrams,
        peer.bytes,
        peer.packets,
        peer.lost,
        peer.reordered,
        peer.duplicate,
        peer.forged,
        peer.lead.as_nanos(),
    ];
    are_valid_counts(&counts) && is_valid_histogram(&peer.late) && is_valid_histogram(&peer.delay)
}

fn is_valid_ending(ending: &Ending) -> bool {
    let messages = &ending.messages;
    let counts = [
        ending.delivered,
        ending.distorted,
        ending.rejected,
        ending.memory_drops,
        ending.overrun,
        ending.cpu.as_nanos(),
        ending.machine.memory_bytes,
        ending.host.dropped_packets,
        ending.host.capture_drops,
        ending.host.records_lost,
        messages.sent,
        messages.sent_bytes,
        messages.received,
        messages.received_bytes,
        messages.unsent,
    ];
    let delays = [&ending.lateness, &ending.ingress, &ending.flow_waits, &ending.notices];
    is_valid_time(ending.at)
        && are_valid_counts(&counts)
        && delays.into_iter().all(is_valid_histogram)
        && ending.stalls.is_valid(is_valid_histogram, is_valid_time)
}

const fn is_valid_time(at: Time) -> bool {
    at.as_nanos() <= MAX_COUNTER
}

fn are_valid_counts(counts: &[u64]) -> bool {
    counts.iter().all(|count| *count <= MAX_COUNTER)
}

/// The decoder has checked the counts; the encoded sum must fit the values.
fn is_valid_histogram(histogram: &Histogram) -> bool {
    let count = histogram.count();
    count <= MAX_HISTOGRAM_VALUES
        && (count == 0 || histogram.mean() <= histogram.max() as f64 * 1.01)
}
