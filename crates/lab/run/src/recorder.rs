//! The recorder: a writer thread, and handles that send records to it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Time;

use crate::live::Tap;
use crate::sample::bundle::BundleSample;
use crate::sample::control::{ControlSample, SessionRow};
use crate::sample::tcp::TcpEvent;
use crate::{
    Error, FlowSample, Level, LinkSample, PacketRecord, RunFolder, ShareSample, SubflowSample,
    Transfer,
};

mod writer;

use writer::Writer;

/// Maximum number of records in the queue to the writer.
const MAX_QUEUED_RECORDS: usize = 1 << 16;
/// Maximum number of bytes of packets in the queue to the writer.
const MAX_QUEUED_PACKET_BYTES: usize = 64 << 20;
/// Interval at which a lossless handle polls a full queue.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Records per message of a lossless recorder.
const BATCH_RECORDS: usize = 256;
/// Maximum time before a record is written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A capture file: the position in [`RecorderOptions::captures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptureId(pub u32);

#[derive(Clone, Debug, Default)]
pub struct RecorderOptions {
    /// Wall-clock time of the run's start, nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Names of the links, by `LinkId`.
    pub links: Vec<String>,
    /// Names of the flows, by `FlowId`.
    pub flows: Vec<String>,
    /// Names of the bundles, by position.
    pub bundles: Vec<String>,
    /// Names of the nodes, by `NodeId`; needed only for shares.
    pub nodes: Vec<String>,
    /// Capture files: `alice.eth0` becomes `alice.eth0.pcapng`.
    pub captures: Vec<String>,
    /// Wait for the writer instead of dropping records: for the virtual clock.
    pub lossless: bool,
}

#[derive(Debug, Default)]
pub struct RecorderReport {
    /// Packets in capture files.
    pub packets_written: u64,
    /// Packets missing from capture files.
    pub capture_drops: u64,
    /// Missing samples and log lines.
    pub records_lost: u64,
    /// The error that stopped the recording. Records written before it are kept.
    pub error: Option<Error>,
}

/// A packet's comment; empty if it has none.
type Comment = &'static str;

#[derive(Debug)]
pub(super) enum Message {
    Link(LinkSample),
    Flow(Box<FlowSample>),
    Transfer(Transfer),
    Shares(Vec<ShareSample>),
    Control(Box<ControlSample>),
    Bundle(Box<BundleSample>),
    Subflow(Box<SubflowSample>),
    Tcp(Box<TcpEvent>),
    Sessions(Vec<String>, Vec<SessionRow>),
    Packet {
        at: Time,
        capture: CaptureId,
        outbound: bool,
        comment: Comment,
        bytes: Box<[u8]>,
        /// Length of the whole packet in bytes.
        length: u32,
    },
    Log {
        at: Time,
        level: Level,
        /// The agent; empty in a run on one host.
        member: String,
        source: String,
        text: String,
    },
    /// Records collected by the handles of a lossless recorder.
    Batch(Vec<Message>),
    Finish,
}

impl Message {
    /// Number of rows, lines or packets in the message.
    fn records(&self) -> u64 {
        match self {
            Self::Shares(samples) => samples.len() as u64,
            Self::Sessions(_, rows) => rows.len() as u64,
            Self::Batch(messages) => messages.iter().map(Self::records).sum(),
            _ => 1,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    failed: AtomicBool,
    packet_len: AtomicUsize,
    capture_drops: AtomicU64,
    records_lost: AtomicU64,
    error: Mutex<Option<Error>>,
    /// Receives samples and log lines while the run is watched.
    tap: OnceLock<Arc<Tap>>,
}

/// Sends records to the writer thread. Cheap to clone. Methods do not block unless the recorder is
/// lossless: if the queue is full, the record is dropped and counted. A lossless handle waits, but
/// not for a writer that has failed.
#[derive(Clone, Debug)]
pub struct RecorderHandle {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    /// Unsent records of a lossless recorder, which are sent in batches: waking the writer takes
    /// longer than writing a record.
    batch: Option<Arc<Mutex<Batch>>>,
}

/// Records not yet sent.
#[derive(Debug)]
struct Batch {
    messages: Vec<Message>,
    since: Instant,
}

impl Batch {
    fn new() -> Self {
        Self { messages: Vec::new(), since: Instant::now() }
    }

    /// Adds a record. Returns the batch once it is full or due.
    fn add(&mut self, message: Message) -> Option<Message> {
        self.messages.push(message);
        let due = self.messages.len() >= BATCH_RECORDS || self.since.elapsed() >= FLUSH_INTERVAL;
        due.then(|| self.take())
    }

    fn take(&mut self) -> Message {
        self.since = Instant::now();
        Message::Batch(std::mem::take(&mut self.messages))
    }
}

/// Writes a run's samples, captures and log in a separate thread.
#[derive(Debug)]
pub struct Recorder {
    handle: RecorderHandle,
    thread: JoinHandle<u64>,
}

impl Recorder {
    /// Creates the files and starts the thread.
    pub fn start(folder: &RunFolder, options: &RecorderOptions) -> Result<Self, Error> {
        let writer = Writer::create(folder, options)?;
        let lossless = options.lossless;
        let capacity =
            if lossless { MAX_QUEUED_RECORDS / BATCH_RECORDS } else { MAX_QUEUED_RECORDS };
        let (queue, records) = sync_channel(capacity);
        let shared = Arc::new(Shared::default());
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || run(writer, &records, &thread_shared))
            .map_err(|e| Error::io("start a thread for", folder.path(), e))?;
        let batch = lossless.then(|| Arc::new(Mutex::new(Batch::new())));
        Ok(Self { handle: RecorderHandle { queue, shared, batch }, thread })
    }

    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Writes the queued records, joins the tables and ends the thread. Records sent later through
    /// other handles are dropped.
    pub fn finish(self) -> RecorderReport {
        let Self { handle, thread } = self;
        // A send fails only if the thread panicked, which `join` reports.
        if let Some(batch) = &handle.batch {
            let rest = batch.lock().unwrap_or_else(PoisonError::into_inner).take();
            let _ = handle.queue.send(rest);
        }
        let _ = handle.queue.send(Message::Finish);
        let joined = thread.join();
        let shared = &handle.shared;
        let error = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        RecorderReport {
            packets_written: *joined.as_ref().unwrap_or(&0),
            capture_drops: shared.capture_drops.load(Relaxed),
            records_lost: shared.records_lost.load(Relaxed),
            error: error.or(joined.is_err().then_some(Error::WriterGone)),
        }
    }
}

impl RecorderHandle {
    /// Passes samples and log lines to `tap`, too. Further calls have no effect.
    pub fn connect(&self, tap: Arc<Tap>) {
        let _ = self.shared.tap.set(tap);
    }

    /// The connected tap, if the run is watched.
    fn tap(&self) -> Option<&Tap> {
        self.shared.tap.get().filter(|tap| tap.is_watched()).map(|tap| &**tap)
    }

    pub fn link(&self, sample: LinkSample) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.link(&sample));
        }
        self.send(Message::Link(sample));
    }

    pub fn flow(&self, sample: FlowSample) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.flow(&sample));
        }
        self.send(Message::Flow(Box::new(sample)));
    }

    /// Records a transfer that has ended.
    pub fn transfer(&self, transfer: Transfer) {
        self.send(Message::Transfer(transfer));
    }

    /// Records the shares of all live flows at the end of a sampling interval.
    pub fn shares(&self, samples: Vec<ShareSample>) {
        if !samples.is_empty() {
            if let Some(tap) = self.tap() {
                tap.with(|builder| builder.shares(&samples));
            }
            self.send(Message::Shares(samples));
        }
    }

    /// Records a sample of explicit rate control.
    pub fn control(&self, sample: ControlSample) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.control(&sample));
        }
        self.send(Message::Control(Box::new(sample)));
    }

    pub fn bundle(&self, sample: BundleSample) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.bundle(&sample));
        }
        self.send(Message::Bundle(Box::new(sample)));
    }

    pub fn subflow(&self, sample: SubflowSample) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.subflow(&sample));
        }
        self.send(Message::Subflow(Box::new(sample)));
    }

    pub fn tcp(&self, event: TcpEvent) {
        self.send(Message::Tcp(Box::new(event)));
    }

    /// Records rate-controlled sessions at the end of a run. Rows refer to the names in
    /// `populations` by position.
    pub fn sessions(&self, populations: Vec<String>, rows: Vec<SessionRow>) {
        if !rows.is_empty() {
            self.send(Message::Sessions(populations, rows));
        }
    }

    /// Writes a line to `log.jsonl`. `source` names the element that logs.
    pub fn log(&self, at: Time, level: Level, source: &str, text: &str) {
        self.log_of("", at, level, source, text);
    }

    /// The same for an agent of a run on several agents; its name is omitted if empty.
    pub fn log_of(&self, member: &str, at: Time, level: Level, source: &str, text: &str) {
        if let Some(tap) = self.tap() {
            tap.with(|builder| builder.log(at, level, source, text));
        }
        let [member, source, text] = [member, source, text].map(str::to_owned);
        self.send(Message::Log { at, level, member, source, text });
    }

    pub fn packet(&self, packet: &PacketRecord<'_>) {
        let length = packet.bytes.len();
        while self.batch.is_some()
            && self.shared.packet_len.load(Relaxed)
                > MAX_QUEUED_PACKET_BYTES - length.min(MAX_QUEUED_PACKET_BYTES)
            && !self.failed()
        {
            std::thread::sleep(QUEUE_POLL_INTERVAL);
        }
        let queued = self.shared.packet_len.fetch_add(length, Relaxed);
        let message = || Message::Packet {
            at: packet.at,
            capture: packet.capture,
            outbound: packet.outbound,
            comment: packet.dropped.map_or("", crate::DropReason::as_str),
            bytes: packet.bytes.into(),
            length: packet.length,
        };
        if queued + length > MAX_QUEUED_PACKET_BYTES || !self.deliver(message()) {
            self.shared.packet_len.fetch_sub(length, Relaxed);
            self.shared.capture_drops.fetch_add(1, Relaxed);
        }
    }

    /// Whether recording has failed, for example on a full disk; the run should then end.
    /// [`Recorder::finish`] returns the error.
    pub fn failed(&self) -> bool {
        self.shared.failed.load(Relaxed)
    }

    fn send(&self, message: Message) {
        let records = message.records();
        if !self.deliver(message) {
            self.shared.records_lost.fetch_add(records, Relaxed);
        }
    }

    /// Sends a message; false if it was dropped. A writer that has failed continues to receive
    /// messages and counts them as lost, so that handles do not block.
    fn deliver(&self, message: Message) -> bool {
        let Some(batch) = &self.batch else { return self.queue.try_send(message).is_ok() };
        // Other handles wait for the lock while one sends, which keeps the order.
        let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.add(message).is_none_or(|full| self.queue.send(full).is_ok())
    }
}

/// The writer thread. Returns the number of packets in captures.
fn run(mut writer: Writer, records: &Receiver<Message>, shared: &Shared) -> u64 {
    let fail = |result: Result<(), Error>| {
        result.is_err_and(|error| {
            shared.failed.store(true, Relaxed);
            shared.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            true
        })
    };
    let mut has_failed = false;
    loop {
        let (single, batch) = match records.recv_timeout(FLUSH_INTERVAL) {
            Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Message::Batch(batch)) => (None, batch),
            Ok(message) => (Some(message), Vec::new()),
            Err(RecvTimeoutError::Timeout) => (None, Vec::new()),
        };
        for message in single.into_iter().chain(batch) {
            let packet_len = match &message {
                Message::Packet { bytes, .. } => Some(bytes.len()),
                _ => None,
            };
            if let Some(length) = packet_len {
                shared.packet_len.fetch_sub(length, Relaxed);
            }
            if has_failed {
                let counter =
                    if packet_len.is_some() { &shared.capture_drops } else { &shared.records_lost };
                counter.fetch_add(message.records(), Relaxed);
            } else {
                has_failed = fail(writer.take(message));
            }
        }
        has_failed = has_failed || fail(writer.flush_if_due());
    }
    // Even after an error, to save as much as possible. The first error is reported.
    fail(writer.finish());
    writer.packets()
}
