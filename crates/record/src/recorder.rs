//! The writer thread, and the handle that feeds it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Time;

use crate::bundle::BundleSample;
use crate::control::{ControlSample, SessionRow};
use crate::{
    Error, FlowSample, Level, LinkSample, PacketRecord, RunFolder, ShareSample, SubflowSample,
    Transfer,
};

mod writer;

use writer::Writer;

/// Records that may wait for the writer.
const QUEUE_RECORDS: usize = 1 << 16;
/// Bytes of packets that may wait for the writer.
const QUEUE_BYTES: usize = 64 << 20;
/// A lossless handle looks this often whether packets have been written.
const FULL_PAUSE: Duration = Duration::from_micros(50);
/// Records that a lossless recorder's writer gets together.
const BATCH_RECORDS: usize = 256;
/// The longest that a record stays in memory only.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A capture file: the position in [`RecorderOptions::captures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptureId(pub u32);

/// What a recorder must know at the start.
#[derive(Clone, Debug, Default)]
pub struct RecorderOptions {
    /// Wall-clock time of the run's start, nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Names of the links, by `LinkId`.
    pub links: Vec<String>,
    /// Names of the flows, by `FlowId`.
    pub flows: Vec<String>,
    /// Names of the bundles, by their positions.
    pub bundles: Vec<String>,
    /// Names of the nodes, by `NodeId`: needed for shares only.
    pub nodes: Vec<String>,
    /// Capture files: `alice.eth0` becomes `alice.eth0.pcapng`.
    pub captures: Vec<String>,
    /// Wait for the writer rather than lose a record: for the virtual clock, which can wait.
    pub lossless: bool,
}

/// What became of the records.
#[derive(Debug, Default)]
pub struct RecorderReport {
    /// Packets in capture files.
    pub packets_written: u64,
    /// Packets that are missing from capture files.
    pub capture_drops: u64,
    /// Samples and log lines that are missing.
    pub records_lost: u64,
    /// What stopped the recording, if anything did. What was written before it is kept.
    pub error: Option<Error>,
}

/// A packet's comment; empty for none.
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
    Sessions(Vec<String>, Vec<SessionRow>),
    Packet {
        at: Time,
        capture: CaptureId,
        outbound: bool,
        comment: Comment,
        bytes: Box<[u8]>,
    },
    Log {
        at: Time,
        level: Level,
        /// Empty where there is one only.
        member: String,
        source: String,
        text: String,
    },
    /// What a lossless recorder's handles have gathered.
    Batch(Vec<Message>),
    Finish,
}

impl Message {
    /// Rows, lines or packets in it.
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
    packet_bytes: AtomicUsize,
    capture_drops: AtomicU64,
    records_lost: AtomicU64,
    error: Mutex<Option<Error>>,
}

/// Feeds the writer thread. Cheap to clone. Unless the recorder is lossless no method ever blocks:
/// what the writer cannot take is counted and left out. A lossless one waits, but never for a
/// writer that has failed.
#[derive(Clone, Debug)]
pub struct RecorderHandle {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    /// A lossless recorder's records are handed over together: to wake the writer takes longer
    /// than to write one.
    batch: Option<Arc<Mutex<Batch>>>,
}

/// Records that have not been handed over.
#[derive(Debug)]
struct Batch {
    messages: Vec<Message>,
    since: Instant,
}

impl Batch {
    fn new() -> Self {
        Self { messages: Vec::new(), since: Instant::now() }
    }

    /// Takes a record in; gives all back once they are many or old.
    fn add(&mut self, message: Message) -> Option<Message> {
        self.messages.push(message);
        let due = self.messages.len() >= BATCH_RECORDS || self.since.elapsed() >= FLUSH_EVERY;
        due.then(|| self.take())
    }

    fn take(&mut self) -> Message {
        self.since = Instant::now();
        Message::Batch(std::mem::take(&mut self.messages))
    }
}

/// Writes a run's samples, captures and log from a thread of its own.
#[derive(Debug)]
pub struct Recorder {
    handle: RecorderHandle,
    thread: JoinHandle<u64>,
}

impl Recorder {
    /// Makes the files and starts the thread.
    pub fn start(folder: &RunFolder, options: &RecorderOptions) -> Result<Self, Error> {
        let writer = Writer::create(folder, options)?;
        let lossless = options.lossless;
        let waiting = if lossless { QUEUE_RECORDS / BATCH_RECORDS } else { QUEUE_RECORDS };
        let (queue, records) = sync_channel(waiting);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || run(writer, &records, &theirs))
            .map_err(|e| Error::io("start a thread for", folder.path(), e))?;
        let batch = lossless.then(|| Arc::new(Mutex::new(Batch::new())));
        Ok(Self { handle: RecorderHandle { queue, shared, batch }, thread })
    }

    /// A handle that feeds this recorder.
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Writes what still waits, joins the tables and ends the thread. Handles that are left over
    /// lead nowhere from now on.
    pub fn finish(self) -> RecorderReport {
        let Self { handle, thread } = self;
        // A closed channel means a writer that ended early, which `join` tells.
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
    /// Records a link's sample.
    pub fn link(&self, sample: LinkSample) {
        self.send(Message::Link(sample));
    }

    /// Records a flow's sample.
    pub fn flow(&self, sample: FlowSample) {
        self.send(Message::Flow(Box::new(sample)));
    }

    /// Records a transfer that has ended.
    pub fn transfer(&self, transfer: Transfer) {
        self.send(Message::Transfer(transfer));
    }

    /// Records the shares of all live flows at the end of a sampling interval.
    pub fn shares(&self, samples: Vec<ShareSample>) {
        if !samples.is_empty() {
            self.send(Message::Shares(samples));
        }
    }

    /// Records how rate control did in a sampling interval.
    pub fn control(&self, sample: ControlSample) {
        self.send(Message::Control(Box::new(sample)));
    }

    /// Records a bundle's sample.
    pub fn bundle(&self, sample: BundleSample) {
        self.send(Message::Bundle(Box::new(sample)));
    }

    /// Records a subflow's sample.
    pub fn subflow(&self, sample: SubflowSample) {
        self.send(Message::Subflow(Box::new(sample)));
    }

    /// Records rate-controlled sessions at the end of a run; `populations` are the names that the
    /// rows refer to.
    pub fn sessions(&self, populations: Vec<String>, rows: Vec<SessionRow>) {
        if !rows.is_empty() {
            self.send(Message::Sessions(populations, rows));
        }
    }

    /// Writes a line to `log.jsonl`; `source` names the element that speaks.
    pub fn log(&self, at: Time, level: Level, source: &str, text: &str) {
        self.log_of("", at, level, source, text);
    }

    /// The same for a member of a lab over several machines; an empty name says nothing.
    pub fn log_of(&self, member: &str, at: Time, level: Level, source: &str, text: &str) {
        let [member, source, text] = [member, source, text].map(str::to_owned);
        self.send(Message::Log { at, level, member, source, text });
    }

    /// Captures a packet.
    pub fn packet(&self, packet: &PacketRecord<'_>) {
        let length = packet.bytes.len();
        while self.batch.is_some()
            && self.shared.packet_bytes.load(Relaxed) > QUEUE_BYTES - length.min(QUEUE_BYTES)
            && !self.failed()
        {
            std::thread::sleep(FULL_PAUSE);
        }
        let waiting = self.shared.packet_bytes.fetch_add(length, Relaxed);
        let message = || Message::Packet {
            at: packet.at,
            capture: packet.capture,
            outbound: packet.outbound,
            comment: packet.dropped.map_or("", crate::DropReason::as_str),
            bytes: packet.bytes.into(),
        };
        if waiting + length > QUEUE_BYTES || !self.deliver(message()) {
            self.shared.packet_bytes.fetch_sub(length, Relaxed);
            self.shared.capture_drops.fetch_add(1, Relaxed);
        }
    }

    /// Whether recording has stopped, as on a full disk: the run should end.
    /// [`Recorder::finish`] tells the reason.
    pub fn failed(&self) -> bool {
        self.shared.failed.load(Relaxed)
    }

    fn send(&self, message: Message) {
        let records = message.records();
        if !self.deliver(message) {
            self.shared.records_lost.fetch_add(records, Relaxed);
        }
    }

    /// Whether the writer has taken, or will take, the message. One that has failed goes on
    /// taking messages (and counts them as lost), so that nobody waits for it in vain.
    fn deliver(&self, message: Message) -> bool {
        let Some(batch) = &self.batch else { return self.queue.try_send(message).is_ok() };
        // While one hands over and waits, the others wait with it: order is kept.
        let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.add(message).is_none_or(|all| self.queue.send(all).is_ok())
    }
}

/// The writer thread: returns the number of packets in captures.
fn run(mut writer: Writer, records: &Receiver<Message>, shared: &Shared) -> u64 {
    let fail = |result: Result<(), Error>| {
        result.is_err_and(|error| {
            shared.failed.store(true, Relaxed);
            shared.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            true
        })
    };
    let mut lost = false;
    loop {
        let (one, many) = match records.recv_timeout(FLUSH_EVERY) {
            Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Message::Batch(many)) => (None, many),
            Ok(message) => (Some(message), Vec::new()),
            Err(RecvTimeoutError::Timeout) => (None, Vec::new()),
        };
        for message in one.into_iter().chain(many) {
            let packet = match &message {
                Message::Packet { bytes, .. } => Some(bytes.len()),
                _ => None,
            };
            if let Some(length) = packet {
                shared.packet_bytes.fetch_sub(length, Relaxed);
            }
            if lost {
                let counter =
                    if packet.is_some() { &shared.capture_drops } else { &shared.records_lost };
                counter.fetch_add(message.records(), Relaxed);
            } else {
                lost = fail(writer.take(message));
            }
        }
        lost = lost || fail(writer.flush_if_due());
    }
    // Even after a failure: what can still be saved is saved, and the first error stands.
    fail(writer.finish());
    writer.packets()
}
