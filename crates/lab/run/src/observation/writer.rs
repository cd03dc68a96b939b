//! The writer of a shard's observations.

use std::time::{Duration, Instant};

use crate::frames::{FrameWriter, MAX_FRAME_BYTES};
use crate::{Error, RunFolder};
use base::Histogram;
use fabric::LinkStats;
use lab::plan::Plan;

use super::{
    BundleRow, ChangeRow, Counters, Ending, FILE, KIND, LinkRow, Observation, Peer, ShareRow,
};
use crate::{Batch, FlowResult};

/// Size from which a frame is written.
const FRAME_BYTES: usize = 64 << 10;

/// Age from which a frame is written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of rows in one observation, so that it fits in a frame.
const MAX_ROWS: usize = 2048;

/// Writes a shard's observations. Only `start`, `write_blocking` and `finish` block.
#[derive(Debug)]
pub struct ObservationWriter {
    frames: FrameWriter,
    frame: Vec<u8>,
    /// Number of observations in the frame.
    buffered: u64,
    since: Instant,
    last: Vec<LinkStats>,
    lost: u64,
}

impl ObservationWriter {
    /// Creates the file in the folder of a shard of this plan. `started_unix_ns` is the local
    /// wall-clock time at lab time zero.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn start(folder: &RunFolder, plan: &Plan, started_unix_ns: u64) -> Result<Self, Error> {
        let mut this = Self {
            frames: FrameWriter::start(&folder.file(FILE), KIND)?,
            frame: Vec::new(),
            buffered: 0,
            since: Instant::now(),
            last: vec![LinkStats::default(); plan.links.len() * 2],
            lost: 0,
        };
        this.write(&Observation::Begin(started_unix_ns));
        Ok(this)
    }

    /// Writes counters; links only if they have changed.
    pub fn batch(&mut self, batch: &Batch) {
        let mut rows = Vec::new();
        for (position, stats, level) in &batch.links {
            let Some(last) = self.last.get_mut(*position as usize) else { continue };
            if stats != last || level.peak_packets > 0 || level.peak_bytes > 0 {
                rows.push(LinkRow::new(*position, stats, level));
                last.clone_from(stats);
            }
        }
        let shares: Vec<ShareRow> = batch.shares.iter().map(|share| (*share).into()).collect();
        let bundles = batch.bundles.iter().enumerate();
        let bundles = bundles
            .filter_map(|(at, status)| Some(BundleRow::new(at as u32, status.as_ref()?)))
            .collect();
        let changes = batch.bundle_changes.iter();
        let changes = changes.map(|(bundle, change)| ChangeRow::new(*bundle, change)).collect();
        // Written even without changes: the interval of a sample begins at the previous time.
        let mut links = rows.chunks(MAX_ROWS);
        let first = links.next().unwrap_or_default().to_vec();
        let mut more_shares = shares.chunks(MAX_ROWS);
        let shares = more_shares.next().unwrap_or_default().to_vec();
        let at = batch.at;
        self.write(&Observation::Counters(Counters { at, links: first, shares, bundles, changes }));
        for links in links {
            let links = links.to_vec();
            self.write(&Observation::Counters(Counters { at, links, ..Counters::default() }));
        }
        for shares in more_shares {
            let shares = shares.to_vec();
            self.write(&Observation::Counters(Counters { at, shares, ..Counters::default() }));
        }
    }

    pub fn write(&mut self, observation: &Observation) {
        self.encode(observation);
        if self.frame.len() >= FRAME_BYTES || self.since.elapsed() >= FLUSH_INTERVAL {
            self.push_frame();
        }
    }

    /// Whether writing has failed, for example on a full disk; the run should then end.
    pub fn failed(&self) -> bool {
        self.frames.failed()
    }

    /// Observations dropped because the disk was too slow.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes the results of the run and all buffered observations.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(
        mut self,
        results: Vec<FlowResult>,
        queue_delays: &[Histogram],
        peers: Vec<Peer>,
        mut ending: Ending,
    ) -> Result<(), Error> {
        for result in results {
            self.write_blocking(&Observation::Result(Box::new(result)));
        }
        let queue_delays = queue_delays.iter().enumerate().filter(|(_, delays)| delays.count() > 0);
        for (position, delays) in queue_delays {
            self.write_blocking(&Observation::QueueDelay(position as u32, delays.clone()));
        }
        for peer in peers {
            self.write_blocking(&Observation::Peer(Box::new(peer)));
        }
        ending.host.records_lost += self.lost;
        self.write_blocking(&Observation::End(Box::new(ending)));
        let rest = self.take_frame();
        self.frames.push_blocking(rest);
        self.frames.finish().map_or(Ok(()), Err)
    }

    /// Like [`Self::write`], but waits for the disk: at the end of a run, nothing may be dropped.
    pub fn write_blocking(&mut self, observation: &Observation) {
        self.encode(observation);
        if self.frame.len() >= FRAME_BYTES {
            let frame = self.take_frame();
            self.frames.push_blocking(frame);
            self.buffered = 0;
        }
    }

    fn encode(&mut self, observation: &Observation) {
        // Encoding into a vector cannot fail.
        let Ok(bytes) = postcard::to_stdvec(observation) else { return };
        if bytes.len() > MAX_FRAME_BYTES {
            // Only an observation with texts, such as a program's last output, can be this long.
            self.lost += 1;
            return;
        }
        if self.frame.len() + bytes.len() > MAX_FRAME_BYTES {
            self.push_frame();
        }
        self.frame.extend(bytes);
        self.buffered += 1;
    }

    /// Queues the frame; its observations are lost if the disk is too slow.
    fn push_frame(&mut self) {
        let frame = self.take_frame();
        if !self.frames.push(frame) {
            self.lost += self.buffered;
        }
        self.buffered = 0;
    }

    fn take_frame(&mut self) -> Vec<u8> {
        self.since = Instant::now();
        std::mem::take(&mut self.frame)
    }
}
