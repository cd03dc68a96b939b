//! A running collector: packets, archives or BMP in; archive, routes, account and feeds out.

mod account;
pub(crate) mod control;
mod learned;
pub(crate) mod mirrors;
pub(crate) mod retention;
mod sinks;
mod tables;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{Span, Time};
use collector::integrity::{Capture, Finished};
use collector::rib::Rib;
use collector::{MirrorId, PeeringId, input};

use crate::archive::{self, Archive, Loss};
use crate::board::{Board, Status};
use crate::feed::Feed;
use crate::input::{Fill, Format, Input, Item};
use crate::live::{self, Clock, Handler, Source};
use crate::pipeline::{self, Pipeline};
use crate::{Result, Writer};
use control::Control;
use learned::Memory;
use mirrors::Names;
use retention::{Retention, Snapshot};
use sinks::Sinks;
use tables::Tables;

#[derive(Debug, Default)]
pub struct Settings {
    pub pipeline: pipeline::Settings,
    pub records: collector::archive::Settings,
    /// Folder and settings of the archive; without it nothing is archived.
    pub archive: Option<(PathBuf, archive::Options)>,
    /// Interval of snapshots of all routes, aligned like files; zero for none.
    pub snapshots: Span,
    pub routes: bool,
    pub feeds: Vec<Feed>,
    pub board: Board,
    /// Called when the archive is open, before the first packet or record.
    pub on_start: Option<fn()>,
}

#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub status: Status,
    pub archive: Option<archive::Status>,
    pub recovered: Vec<Loss>,
    /// Problems of inputs, as text; the first [`TROUBLES`].
    pub troubles: Vec<String>,
    pub trouble_count: u64,
    pub gaps: u64,
    /// Archived messages that cannot be decoded, so that their routes are missing in tables.
    pub undecodable: u64,
    /// Sessions whose router's end was guessed, which nothing confirmed.
    pub guessed: u64,
    /// Sessions of which the router's messages were captured, and none of the peer.
    pub unheard: u64,
    /// Sessions with one captured direction, whose sender is assumed to be the peer.
    pub one_sided: u64,
    /// Packets lost between the mirror and the capture, by sequence numbers of tunnels.
    pub mirror_lost: u64,
    /// Packets whose time was implausible and replaced by that of the packet before.
    pub implausible_times: u64,
    /// The account of integrity (`netarium.integrity/1`).
    pub integrity: serde_json::Value,
    pub table: String,
}

impl Summary {
    /// Number of sessions that another mirror shows with exchanged ends: the routes of a router are
    /// archived as those of its peer.
    fn reversed(&self) -> u64 {
        let ends = self.status.peerings.iter().map(|(peering, ..)| (peering.peer, peering.local));
        let ends: HashSet<_> = ends.collect();
        ends.iter().filter(|(peer, local)| peer < local && ends.contains(&(*local, *peer))).count()
            as u64
    }

    /// Missing data, each kind with its number; empty if the archive is complete.
    pub fn missing(&self) -> Vec<String> {
        let streams = &self.status.streams;
        let lost = self.archive.as_ref().map_or(0, |archive| archive.lost);
        [
            (self.gaps, "gap{s}"),
            (self.undecodable, "message{s} that cannot be decoded (archived, but not in tables)"),
            (streams.missing_bytes, "byte{s} missing"),
            (streams.skipped_bytes, "byte{s} skipped"),
            (self.status.kernel_drops, "packet{s} dropped by the capture"),
            (
                self.guessed,
                "BGP session{s} whose router's end was guessed (state it with --router ADDRESS)",
            ),
            (self.unheard, "BGP session{s} without a captured message of the peer"),
            (
                self.one_sided,
                "BGP session{s} of which one direction was captured, which may be that of the \
                 router (state the router with --router ADDRESS)",
            ),
            (
                self.reversed(),
                "BGP session{s} archived from both ends (state the router with --router ADDRESS)",
            ),
            (self.mirror_lost, "packet{s} lost between mirror and collector"),
            (streams.evicted, "connection{s} evicted for lack of memory"),
            (lost, "record{s} not written"),
            (self.trouble_count, "error{s} of inputs"),
            (self.recovered.len() as u64, "loss{es} of the previous run"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| {
            let (s, es) = if count == 1 { ("", "") } else { ("s", "es") };
            format!("{count} {}", what.replace("{s}", s).replace("{es}", es))
        })
        .chain(self.status.frames.unread())
        .collect()
    }
}

/// Maximum number of problems retained as text.
pub const TROUBLES: usize = 20;

/// Interval of status updates.
const STATUS: Duration = Duration::from_millis(500);
/// Time after which packets are read before the next query.
const ANSWER_BUDGET: Duration = Duration::from_millis(5);
/// Interval at which past hours and the account are written beside the archive.
const ACCOUNT: Duration = Duration::from_secs(60);
/// Maximum delay of records of files and pipes.
const HELD: Duration = Duration::from_millis(20);

struct Job {
    pipeline: Pipeline<Sinks>,
    board: Board,
    names: Option<Names>,
    retention: Option<Retention>,
    /// Queries take at most a fifth of the time: none is answered before this time.
    answer_at: Instant,
    live: bool,
    flushed: Instant,
    published: Instant,
    pause: Duration,
    accounted: Instant,
    kernel_drops: u64,
    /// Addresses of routers that are configured.
    routers: Vec<IpAddr>,
    counted: Capture,
    summary: Summary,
}

impl Job {
    fn new(settings: Settings) -> Result<Self> {
        let mut summary = Summary::default();
        let (mut writer, mut memory, mut retention) = (None, Memory::default(), None);
        let (mut names, mut pipeline) = (None, settings.pipeline);
        let mut name = String::new();
        if let Some((folder, options)) = settings.archive {
            name.clone_from(&options.collector);
            let archive = Archive::open(&folder, options)?;
            summary.recovered = archive.recovered().to_vec();
            memory = Memory::open(archive.folder())?;
            let listed = Names::open(archive.folder())?;
            pipeline.decapsulate.known_mirrors = listed.known();
            names = Some(listed);
            retention = Some(Retention::start(archive.folder(), memory.lines())?);
            writer = Some(Writer::new(archive, settings.records));
        }
        let snapshots = writer.is_some() && settings.snapshots > Span::ZERO;
        let with_removals = settings.feeds.iter().any(|feed| feed.with_removals);
        let new_rib = if with_removals { Rib::with_removals } else { Rib::new };
        let rib = (settings.routes || snapshots).then(new_rib);
        let mut sinks = Sinks::new(writer, rib, settings.feeds);
        let interval = if snapshots { settings.snapshots } else { Span::ZERO };
        sinks.set_tables(Tables::new(interval, &name));
        let routers = pipeline.sessions.routers.clone();
        let mut pipeline = Pipeline::new(pipeline, sinks);
        let (decapsulator, sessions) = pipeline.first_and_last();
        memory.teach(decapsulator.mirrors(), sessions);
        if let Some(on_start) = settings.on_start {
            on_start();
        }
        Ok(Self {
            pipeline,
            names,
            board: settings.board,
            retention,
            answer_at: Instant::now(),
            live: false,
            flushed: Instant::now(),
            published: Instant::now(),
            pause: STATUS,
            accounted: Instant::now(),
            kernel_drops: 0,
            routers,
            counted: Capture::default(),
            summary,
        })
    }

    fn trouble(&mut self, error: &dyn std::fmt::Display) {
        self.summary.trouble_count += 1;
        if self.summary.troubles.len() < TROUBLES {
            self.summary.troubles.push(error.to_string());
        }
    }

    /// Updates the account with the packets since the last time.
    fn account(&mut self, now: Time) {
        let frames = self.pipeline.decapsulator().counters();
        let streams = *self.pipeline.reassembler().statistics();
        let mut lost = 0;
        self.pipeline.decapsulator_mut().losses(&mut |loss| lost += loss.packets);
        if now == Time::ZERO && frames.frames == 0 {
            return;
        }
        let total = Capture {
            frames: frames.frames,
            bytes: streams.payload_bytes,
            dropped: self.kernel_drops,
            mirror_lost: self.counted.mirror_lost + lost,
            bad_checksums: frames.bad_checksums,
            unverified_checksums: frames.unknown_checksums,
            unreadable: frames.malformed + frames.truncated + frames.unknown_links,
        };
        self.counted = total;
        self.pipeline.sink_mut().integrity.capture(now, total);
    }

    fn publish(&mut self, now: Time) {
        let begin = Instant::now();
        self.account(now);
        let (board, status) = (self.board.clone(), self.status());
        board.publish(status);
        self.published = Instant::now();
        // Limited to a twentieth of the time, for very many peerings.
        self.pause = STATUS.max(20 * begin.elapsed());
    }

    fn status(&self) -> Status {
        let sinks = self.pipeline.sessions().sink();
        // Both are in the order of their numbers.
        let mut routes = sinks.rib.iter().flat_map(Rib::peerings).peekable();
        let mut of = |id: PeeringId| {
            while routes.next_if(|routes| routes.peering.id < id).is_some() {}
            routes.next_if(|routes| routes.peering.id == id)
        };
        let peerings = sinks.peerings.iter().flatten();
        let archive = sinks.writer.as_ref().map(|writer| writer.archive().status());
        Status {
            time: self.pipeline.now(),
            frames: self.pipeline.decapsulator().counters(),
            kernel_drops: self.kernel_drops,
            streams: *self.pipeline.reassembler().statistics(),
            waiting: self.pipeline.reassembler().memory(),
            mirrors: self.mirror_names(),
            peerings: peerings.map(|met| (met.0, met.1, of(met.0.id))).collect(),
            messages: sinks.messages,
            late_messages: self.pipeline.sessions().late_messages(),
            routes: sinks.rib.as_ref().map(Rib::counts).unwrap_or_default(),
            memory: sinks.rib.as_ref().map(Rib::memory).unwrap_or_default(),
            records: archive.as_ref().map_or(0, |archive| archive.records),
            archived: archive.as_ref().map_or(0, |archive| archive.content),
        }
    }

    fn list_mirrors(&mut self) {
        let met = std::mem::take(&mut self.pipeline.sink_mut().new_mirrors);
        if met.is_empty() {
            return;
        }
        let Some(names) = &mut self.names else { return };
        if let Err(error) = names.add(&met, self.pipeline.decapsulator().mirrors()) {
            self.pipeline.sink_mut().new_mirrors = met;
            self.trouble(&error);
        }
    }

    fn write_control(&mut self) -> Result<()> {
        let control = self.pipeline.sink_mut().control.as_mut();
        control.map_or(Ok(()), Control::write)
    }

    fn mirror_names(&self) -> Vec<String> {
        let mirrors = self.pipeline.decapsulator().mirrors();
        mirrors.iter().map(|mirror| mirror.name.clone()).collect()
    }

    /// State saved beside the archive: the account and session parameters.
    fn snapshot(&mut self, last: bool) -> Snapshot {
        let mirrors = self.mirror_names();
        let learned = self.pipeline.sessions().learned().collect();
        let integrity = &mut self.pipeline.sink_mut().integrity;
        let over = integrity.finished().collect();
        let current = integrity.hours().map(|(peering, hour, seen)| Finished {
            peering: *peering,
            hour,
            seen: seen.clone(),
        });
        Snapshot { over, current: current.collect(), learned, mirrors, last }
    }

    /// Saves the account and session parameters, unless the last save is running.
    fn keep(&mut self) {
        let Some(retention) = self.retention.take() else { return };
        for error in retention.failures() {
            self.trouble(&error);
        }
        if retention.is_free() {
            retention.keep(self.snapshot(false));
        }
        self.retention = Some(retention);
    }

    fn keep_last(&mut self) {
        let Some(retention) = self.retention.take() else { return };
        retention.keep(self.snapshot(true));
        for error in retention.finish() {
            self.trouble(&error);
        }
    }

    /// Writes the collected records; for files, whose portions may be small, only from
    /// time to time.
    fn flush(&mut self) {
        if self.live || self.flushed.elapsed() >= HELD {
            self.flushed = Instant::now();
            self.list_mirrors();
            // Written again later if the disk is full.
            let _ = self.write_control();
            self.pipeline.sink_mut().flush();
        }
    }

    fn tend(&mut self, now: Time) {
        let sinks = self.pipeline.sink_mut();
        sinks.advance(now);
        let board = &self.board;
        sinks.with_tables(|tables, rib, writer| tables.tend(now, rib, writer, board));
        if let Some(error) = sinks.table_error.take() {
            self.trouble(&error);
        }
        let sinks = self.pipeline.sink_mut();
        let begin = Instant::now();
        if let Some(rib) = sinks.rib.as_ref().filter(|_| begin >= self.answer_at) {
            self.board.answer(rib, ANSWER_BUDGET);
            self.answer_at = Instant::now() + 4 * begin.elapsed();
        }
        if self.published.elapsed() >= self.pause {
            self.publish(now);
        }
        if self.accounted.elapsed() >= ACCOUNT {
            self.accounted = Instant::now();
            self.keep();
        }
    }

    fn finish(mut self) -> Result<Summary> {
        self.pipeline.finish();
        self.list_mirrors();
        if let Err(error) = self.write_control() {
            self.trouble(&error);
        }
        let now = self.pipeline.now();
        self.account(now);
        let sinks = self.pipeline.sink_mut();
        sinks.advance(now);
        sinks.integrity.advance(now);
        // The last batch of events.
        sinks.flush();
        [self.summary.unheard, self.summary.one_sided] =
            account::one_sided(&sinks.integrity, &self.routers);
        let account = (sinks.integrity.json(), account::table(&sinks.integrity));
        sinks.with_tables(|tables, rib, writer| {
            tables.reach(now, rib, writer)?;
            tables.finish(rib)
        });
        if let Some(error) = sinks.table_error.take() {
            self.trouble(&error);
        }
        self.keep_last();
        self.summary.mirror_lost = self.counted.mirror_lost;
        self.summary.implausible_times = self.pipeline.implausible_times();
        self.summary.status = self.status();
        self.board.publish(self.summary.status.clone());
        let sinks = self.pipeline.into_sink();
        self.summary.gaps = sinks.gaps;
        (self.summary.undecodable, self.summary.guessed) = (sinks.undecodable, sinks.guessed);
        (self.summary.integrity, self.summary.table) = account;
        self.summary.archive = sinks.writer.map(Writer::close).transpose()?;
        if let Some(archive) = &self.summary.archive {
            self.summary.status.records = archive.records;
            self.summary.status.archived = archive.content;
        }
        Ok(self.summary)
    }
}

impl Handler for Job {
    #[inline]
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Frame(frame) => self.pipeline.frame(&frame),
            Item::Dropped { interface, packets } => {
                self.kernel_drops += packets;
                let now = self.pipeline.now();
                self.pipeline.sink_mut().dropped(now, interface, packets);
            }
            Item::Trouble(error) => self.trouble(error),
        }
    }

    fn pause(&mut self, clock: Clock) {
        match clock {
            Clock::Live(now) => self.pipeline.advance(now),
            Clock::Recorded(idle) => self.pipeline.idle(idle),
            Clock::Unknown => {}
        }
        self.flush();
        let now = self.pipeline.now();
        self.tend(now);
    }
}

/// Collects packets until all sources end, or `stop` is set.
///
/// Fails if the archive cannot be written, or a source fails. The data until then is archived.
pub fn packets(settings: Settings, mut sources: Vec<Source>, stop: &AtomicBool) -> Result<Summary> {
    let mut job = Job::new(settings)?;
    job.live = sources.iter().any(Source::is_live);
    let ran = live::run(&mut sources, &mut job, stop);
    let summary = job.finish()?;
    ran.map(|()| summary)
}

/// Collects archive files or recorded BMP, one after the other.
///
/// Fails if the archive cannot be written, or an input has an unknown format. If an input cannot be
/// read to its end, the problem is reported, and the next input follows.
pub fn records(settings: Settings, inputs: Vec<Input>, stop: &AtomicBool) -> Result<Summary> {
    let mut job = Job::new(settings)?;
    let mirror = MirrorId::NONE;
    let mut archive = input::mrt::Input::new(mirror, PeeringId(0));
    let mut first = 0;
    for mut input in inputs {
        let read = if input.format()? == Format::Mrt {
            let read = |bytes: &[u8], end, sinks: &mut Sinks| archive.read(bytes, end, sinks);
            let read = each(&mut job, &mut input, stop, read);
            first = archive.peerings().len() as u32;
            read
        } else {
            let mut station = input::bmp::Input::new(mirror, PeeringId(first));
            let read = |bytes: &[u8], end, sinks: &mut Sinks| station.read(bytes, end, sinks);
            let read = each(&mut job, &mut input, stop, read);
            first += station.peerings().len() as u32;
            read
        };
        if let Err(error) = read {
            job.trouble(&error);
        }
    }
    job.finish()
}

fn each(
    job: &mut Job,
    input: &mut Input,
    stop: &AtomicBool,
    mut read: impl FnMut(&[u8], bool, &mut Sinks) -> (usize, usize),
) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let end = input.is_ended();
        let (used, need) = read(input.unread(), end, job.pipeline.sink_mut());
        input.consume(used);
        let now = job.pipeline.sink_mut().now;
        job.pipeline.advance(now);
        job.flush();
        job.tend(now);
        if end && used == 0 {
            break;
        }
        if used == 0 && input.fill(need, Duration::from_millis(50))? == Fill::End {
            let (used, _) = read(input.unread(), true, job.pipeline.sink_mut());
            input.consume(used);
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
