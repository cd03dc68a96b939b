//! One collector at work: packets, archives or BMP in; archive, routes, account and feeds out.

pub(crate) mod keeper;
mod learned;
pub(crate) mod mirrors;
mod sinks;
mod tables;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{Span, Time};
use collector::integrity::{Capture, Finished, Integrity};
use collector::rib::Rib;
use collector::{MirrorId, PeeringId, input};

use crate::archive::{self, Archive, Loss};
use crate::board::{Board, Status};
use crate::feed::Feed;
use crate::input::{Fill, Format, Input, Item};
use crate::live::{self, Clock, Handler, Source};
use crate::pipeline::{self, Pipeline};
use crate::{Result, Writer};
use keeper::{Keeper, News};
use learned::Memory;
use mirrors::Names;
use sinks::Sinks;
use tables::Tables;

/// What is collected, and what becomes of it.
#[derive(Debug, Default)]
pub struct Settings {
    /// How packets are read.
    pub pipeline: pipeline::Settings,
    /// What is written, and how.
    pub records: collector::archive::Settings,
    /// Folder of the archive and how it is written; without one nothing is archived.
    pub archive: Option<(PathBuf, archive::Options)>,
    /// Time between snapshots of all routes, aligned as files are; zero for none.
    pub snapshots: Span,
    /// Routes are kept, also without snapshots.
    pub routes: bool,
    /// Who reads along.
    pub feeds: Vec<Feed>,
    /// Where status is put up and questions are found.
    pub board: Board,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// At the end.
    pub status: Status,
    /// The archive.
    pub archive: Option<archive::Status>,
    /// What was found missing when the archive was opened.
    pub recovered: Vec<Loss>,
    /// What is wrong with inputs, in words; the first [`TROUBLES`].
    pub troubles: Vec<String>,
    /// All of it.
    pub trouble_count: u64,
    /// Gaps of all peerings.
    pub gaps: u64,
    /// Packets that were lost between the mirror and the capture, by tunnels' sequence numbers.
    pub mirror_lost: u64,
    /// The account of integrity (`netarium.integrity/1`).
    pub integrity: serde_json::Value,
    /// The same for people.
    pub table: String,
}

impl Summary {
    /// What is missing, or may be, each with its number; empty if the archive is complete.
    pub fn missing(&self) -> Vec<String> {
        let streams = &self.status.streams;
        let lost = self.archive.as_ref().map_or(0, |archive| archive.lost);
        [
            (self.gaps, "gaps"),
            (streams.missing_bytes, "bytes missing"),
            (streams.skipped_bytes, "bytes skipped"),
            (self.status.kernel_drops, "packets dropped by the capture"),
            (self.mirror_lost, "packets lost on the way from the mirror"),
            (streams.evicted, "connections forgotten for want of memory"),
            (lost, "records not written"),
            (self.trouble_count, "errors of inputs"),
            (self.recovered.len() as u64, "losses of the previous run"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

/// Troubles that are kept in words.
pub const TROUBLES: usize = 20;

/// How often status is put up.
const STATUS: Duration = Duration::from_millis(500);
/// Time after which no further question is answered before packets are read again.
const ANSWER_BUDGET: Duration = Duration::from_millis(5);
/// How often hours that are over, and the account, are written beside the archive.
const ACCOUNT: Duration = Duration::from_secs(60);
/// How long records of files and pipes wait for others to be written with them.
const HELD: Duration = Duration::from_millis(20);

/// A collector while it runs.
struct Job {
    pipeline: Pipeline<Sinks>,
    board: Board,
    tables: Tables,
    names: Option<Names>,
    keeper: Option<Keeper>,
    /// Questions take a fifth of the time at most: until then, none is answered.
    answer_at: Instant,
    /// Packets are those of this moment.
    live: bool,
    flushed: Instant,
    published: Instant,
    /// Until status is put up again.
    pause: Duration,
    accounted: Instant,
    kernel_drops: u64,
    counted: Capture,
    summary: Summary,
}

impl Job {
    fn new(settings: Settings) -> Result<Self> {
        let mut summary = Summary::default();
        let (mut writer, mut memory, mut keeper) = (None, Memory::default(), None);
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
            keeper = Some(Keeper::start(archive.folder(), memory.lines())?);
            writer = Some(Writer::new(archive, settings.records));
        }
        let snapshots = writer.is_some() && settings.snapshots > Span::ZERO;
        let sinks = Sinks {
            writer,
            rib: (settings.routes || snapshots).then(Rib::new),
            integrity: Integrity::new(collector::integrity::Settings::default()),
            feeds: settings.feeds,
            peerings: Vec::new(),
            new_mirrors: Vec::new(),
            messages: 0,
            gaps: 0,
            unstated: Vec::new(),
            now: Time::ZERO,
            asked: Vec::new(),
            begun: Time::ZERO,
            accounted: Time::ZERO,
        };
        let interval = if snapshots { settings.snapshots } else { Span::ZERO };
        let mut pipeline = Pipeline::new(pipeline, sinks);
        let (decapsulator, sessions) = pipeline.first_and_last();
        memory.teach(decapsulator.mirrors(), sessions);
        Ok(Self {
            pipeline,
            names,
            board: settings.board,
            tables: Tables::new(interval, &name),
            keeper,
            answer_at: Instant::now(),
            live: false,
            flushed: Instant::now(),
            published: Instant::now(),
            pause: STATUS,
            accounted: Instant::now(),
            kernel_drops: 0,
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

    /// Tells the account what became of packets since the last time.
    fn account(&mut self, now: Time) {
        let frames = self.pipeline.decapsulator().counters();
        let streams = *self.pipeline.reassembler().statistics();
        let mut lost = 0;
        self.pipeline.decapsulator_mut().losses(&mut |loss| lost += loss.packets);
        let total = Capture {
            frames: frames.frames,
            bytes: streams.payload_bytes,
            dropped: self.kernel_drops,
            mirror_lost: self.counted.mirror_lost + lost,
            bad_checksums: frames.bad_checksums,
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
        // With very many peerings it takes its time: a twentieth of all at most.
        self.pause = STATUS.max(20 * begin.elapsed());
    }

    fn status(&self) -> Status {
        let sinks = self.pipeline.sessions().sink();
        // Both are in the order of numbers.
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
            routes: sinks.rib.as_ref().map(Rib::counts).unwrap_or_default(),
            memory: sinks.rib.as_ref().map(Rib::memory).unwrap_or_default(),
            records: archive.as_ref().map_or(0, |archive| archive.records),
            archived: archive.as_ref().map_or(0, |archive| archive.content),
        }
    }

    /// Lists mirrors that have their first session, before its records are written.
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

    fn mirror_names(&self) -> Vec<String> {
        let mirrors = self.pipeline.decapsulator().mirrors();
        mirrors.iter().map(|mirror| mirror.name.clone()).collect()
    }

    /// What is to be kept beside the archive: the account and what was learned.
    fn news(&mut self, last: bool) -> News {
        let mirrors = self.mirror_names();
        let learned = self.pipeline.sessions().learned().collect();
        let integrity = &mut self.pipeline.sink_mut().integrity;
        let over = integrity.finished().collect();
        let current = integrity.hours().map(|(peering, hour, seen)| Finished {
            peering: *peering,
            hour,
            seen: seen.clone(),
        });
        News { over, current: current.collect(), learned, mirrors, last }
    }

    /// Has the account and what was learned written, if the disk had the time for the last ones.
    fn keep(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        for error in keeper.failures() {
            self.trouble(&error);
        }
        if keeper.is_free() {
            keeper.keep(self.news(false));
        }
        self.keeper = Some(keeper);
    }

    fn keep_last(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        keeper.keep(self.news(true));
        for error in keeper.finish() {
            self.trouble(&error);
        }
    }

    /// Hands on what was collected; from files, which may come in the smallest of portions, only
    /// from time to time.
    fn flush(&mut self) {
        if self.live || self.flushed.elapsed() >= HELD {
            self.flushed = Instant::now();
            self.list_mirrors();
            self.pipeline.sink_mut().flush();
        }
    }

    /// What is due besides packets.
    fn tend(&mut self, now: Time) {
        let sinks = self.pipeline.sink_mut();
        sinks.advance(now);
        if let Err(error) = self.tables.tend(now, sinks, &self.board) {
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
        let now = self.pipeline.now();
        self.account(now);
        let sinks = self.pipeline.sink_mut();
        sinks.advance(now);
        sinks.integrity.advance(now);
        let account = (sinks.integrity.json(), sinks.integrity.table());
        if let Err(error) = self.tables.finish(sinks) {
            self.trouble(&error);
        }
        self.keep_last();
        self.summary.mirror_lost = self.counted.mirror_lost;
        self.summary.status = self.status();
        self.board.publish(self.summary.status.clone());
        let sinks = self.pipeline.into_sink();
        self.summary.gaps = sinks.gaps;
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

/// Collects from packets until all sources have ended, or `stop` is set.
///
/// # Errors
/// If the archive cannot be written, or a source fails. What was collected until then is archived.
pub fn packets(settings: Settings, mut sources: Vec<Source>, stop: &AtomicBool) -> Result<Summary> {
    let mut job = Job::new(settings)?;
    job.live = sources.iter().any(Source::is_live);
    let ran = live::run(&mut sources, &mut job, stop);
    let summary = job.finish()?;
    ran.map(|()| summary)
}

/// Collects from archive files or recorded BMP, one after the other.
///
/// # Errors
/// If the archive cannot be written, or it is not known what an input holds. Where one cannot be
/// read on, that is a trouble, and the next follows.
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

/// Reads an input to its end.
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
