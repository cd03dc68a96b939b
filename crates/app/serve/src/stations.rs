//! BMP sessions to monitoring stations (RFC 7854 §3.2): the collector connects to the station.

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Time;
use bgp::message::{MAX, encode};
use bgp::mrt::Records;
use bgp::{Family, MessageType};
use collector::export::bmp::{Cursor, Exporter, Settings};
use collector::input::mrt;
use collector::{Event, MirrorId, Peering, PeeringId, Sink};
use collector_live::Board;
use collector_live::feed::Watch;

use crate::Error;

/// First delay before reconnecting to a station; it doubles up to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
/// RFC 7854 §3.2 recommends at most 720 s, which would lose too many events.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Timeout of a station that accepts no data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of the export of the last events, after the collector has ended.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of the first connection to a station after the end of the events.
const FIRST_CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
const STATISTICS_INTERVAL: Duration = Duration::from_secs(60);

/// The events for each station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The sessions and routes at the time of its connection, and the later events. A slow station
    /// loses its connection.
    Live,
    /// All events: the collector waits for slow stations. For files.
    All,
}

struct Inner {
    exporter: Mutex<Exporter>,
    wakeup: Condvar,
    over: AtomicBool,
    delivery: Delivery,
    /// For [`Delivery::All`]: position of each station for which the collector waits.
    sent: Mutex<Vec<Option<Cursor>>>,
    /// Stations that did not receive all events, and why.
    failures: Mutex<Vec<String>>,
}

impl Inner {
    /// Locks the exporter, also after a panic: packets are appended completely.
    fn exporter(&self) -> MutexGuard<'_, Exporter> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Vec<Option<Cursor>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all events are exported; false after a timeout.
    fn wait_for_end(&self, timeout: Duration) -> bool {
        let continues = |_: &mut Exporter| !self.over.load(Ordering::SeqCst);
        let waited = self.wakeup.wait_timeout_while(self.exporter(), timeout, continues);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn record_sent(&self, station: usize, sent: Option<Cursor>) {
        if self.delivery == Delivery::All {
            self.sent()[station] = sent;
            self.wakeup.notify_all();
        }
    }

    fn fail(&self, what: String) {
        if self.delivery == Delivery::All {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        }
    }

    /// Waits until no station would lose events.
    fn wait_for_stations(&self) {
        let is_full = |exporter: &mut Exporter| {
            let sent = self.sent().iter().flatten().copied().collect::<Vec<_>>();
            let backlog = sent.into_iter().map(|sent| exporter.backlog(sent)).max();
            backlog.is_some_and(|backlog| backlog > exporter.max_backlog() / 2)
        };
        let pause = Duration::from_millis(200);
        let mut exporter = self.exporter();
        while is_full(&mut exporter) {
            let waited = self.wakeup.wait_timeout(exporter, pause);
            exporter = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

pub struct Stations {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl Stations {
    /// Sends `events` of the collector `name` to the stations at `addresses` (`host:port`). An
    /// unreachable station is retried. Each one first receives the sessions that are up and all of
    /// their routes, then the events; with [`Delivery::All`] all events from the first on.
    pub fn start(
        addresses: &[String],
        name: &str,
        events: Watch,
        board: &Board,
        delivery: Delivery,
    ) -> Result<Self, Error> {
        let settings = Settings { name: name.to_owned(), ..Settings::default() };
        let inner = Arc::new(Inner {
            exporter: Mutex::new(Exporter::new(settings)),
            wakeup: Condvar::new(),
            over: AtomicBool::new(false),
            delivery,
            sent: Mutex::new(vec![Some(Cursor::START); addresses.len()]),
            failures: Mutex::default(),
        });
        let named = |name: String| std::thread::Builder::new().name(name);
        let exporting = Arc::clone(&inner);
        let mut threads =
            vec![named("bmp".to_owned()).spawn(move || export_events(&exporting, &events))?];
        for (number, address) in addresses.iter().enumerate() {
            let (inner, address) = (Arc::clone(&inner), address.clone());
            let board = board.clone();
            let thread = named(format!("bmp {address}"));
            threads.push(thread.spawn(move || keep_connected(&inner, number, &address, &board))?);
        }
        Ok(Self { inner, threads })
    }

    /// Waits until all stations have received all data, or fail. Returns those that did not receive
    /// all events, with [`Delivery::All`].
    pub fn finish(mut self) -> Vec<String> {
        if self.inner.delivery == Delivery::All {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
        std::mem::take(&mut *self.inner.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Stations {
    /// Waits until all stations have received the queued data, or for a timeout.
    fn drop(&mut self) {
        crate::join(&mut self.threads);
    }
}

impl std::fmt::Debug for Stations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stations").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

fn export_events(inner: &Inner, events: &Watch) {
    let mut reported = Instant::now();
    let mut time = Time::ZERO;
    for batch in &events.batches {
        if inner.delivery == Delivery::All {
            inner.wait_for_stations();
        }
        let mut exporter = inner.exporter();
        for (peering, event) in batch.events() {
            exporter.event(peering, &event);
            if let collector::Event::Message { time: at, .. } = event {
                time = time.max(at);
            }
        }
        if reported.elapsed() >= STATISTICS_INTERVAL {
            reported = Instant::now();
            // Counters that do not fit are sent with the next report.
            let _ = exporter.statistics(time);
        }
        drop(exporter);
        inner.wakeup.notify_all();
    }
    let exporter = inner.exporter();
    inner.over.store(true, Ordering::SeqCst);
    drop(exporter);
    inner.wakeup.notify_all();
}

fn keep_connected(inner: &Inner, number: usize, address: &str, board: &Board) {
    let (mut wait, mut is_first) = (MIN_RETRY_DELAY, true);
    let mut failing_since = Instant::now();
    loop {
        let connecting_since = Instant::now();
        let stream = connect(address);
        let was_first = is_first;
        let served = stream.and_then(|stream| serve(inner, number, stream, board, &mut is_first));
        let Err(error) = served else {
            // All queued data was sent.
            return inner.record_sent(number, None);
        };
        if was_first && !is_first || connecting_since.elapsed() > MAX_RETRY_DELAY {
            // It was connected.
            (failing_since, wait) = (Instant::now(), MIN_RETRY_DELAY);
        }
        if !is_first {
            inner.record_sent(number, None);
            inner.fail(format!("the connection to the BMP station {address} failed: {error}"));
        }
        let timeout = match (inner.delivery, is_first) {
            (Delivery::All, true) => MAX_RETRY_DELAY,
            (Delivery::Live, true) => FIRST_CONNECTION_TIMEOUT,
            (_, false) => Duration::ZERO,
        };
        let is_late = failing_since.elapsed() >= timeout;
        if is_first && is_late && inner.sent()[number].is_some() {
            inner.record_sent(number, None);
            inner.fail(format!("the BMP station {address} cannot be reached: {error}"));
        }
        if inner.over.load(Ordering::SeqCst) && is_late {
            return;
        }
        if is_late {
            inner.wait_for_end(wait);
        } else {
            std::thread::sleep(wait);
        }
        wait = (wait * 2).min(MAX_RETRY_DELAY);
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => {
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn serve(
    inner: &Inner,
    number: usize,
    mut stream: TcpStream,
    board: &Board,
    is_first: &mut bool,
) -> io::Result<()> {
    let invalid = |error: bgp::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut bytes = Vec::new();
    // A running collector has the current routes; the events of one that has ended are repeated.
    let wants_all = inner.delivery == Delivery::All || inner.over.load(Ordering::SeqCst);
    let exporter = inner.exporter();
    let all = (*is_first && wants_all).then(|| exporter.beginning(&mut bytes)).flatten();
    let (mut cursor, up) = match all {
        Some(cursor) => (cursor, None),
        None => (exporter.greeting(&mut bytes).map_err(invalid)?, Some(exporter.up_sessions())),
    };
    drop(exporter);
    *is_first = false;
    inner.record_sent(number, Some(cursor));
    stream.write_all(&bytes)?;
    if let Some(up) = up {
        send_table(inner, &mut stream, board, &up)?;
    }
    loop {
        let over = inner.over.load(Ordering::SeqCst);
        if read_unread(inner, &mut cursor, &mut bytes)? {
            stream.write_all(&bytes)?;
            inner.record_sent(number, Some(cursor));
        } else if over {
            bytes.clear();
            Exporter::termination(&mut bytes).map_err(invalid)?;
            return stream.write_all(&bytes);
        }
    }
}

/// Sends the current routes of the sessions in `up`, whose Peer Up was sent. Events since the
/// initiation message follow in order, so that the station reaches the current state.
fn send_table(
    inner: &Inner,
    stream: &mut TcpStream,
    board: &Board,
    up: &HashSet<PeeringId>,
) -> io::Result<()> {
    let parts = board.table();
    let mut input = mrt::Input::new(MirrorId::NONE, PeeringId(0));
    let mut ended = Ended::default();
    let mut sessions = Vec::new();
    loop {
        let part = match parts.recv_timeout(Duration::from_millis(200)) {
            Ok(part) if part.is_empty() => break,
            Ok(part) => part,
            Err(_) if inner.over.load(Ordering::SeqCst) => break,
            Err(RecvTimeoutError::Timeout) => continue,
            // The collector has ended, and its last events are being processed.
            Err(RecvTimeoutError::Disconnected) if inner.wait_for_end(LAST_EVENTS_TIMEOUT) => break,
            Err(RecvTimeoutError::Disconnected) => {
                let text = "the station received the routes too slowly";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        };
        let mut table = Table {
            exporter: inner.exporter(),
            sessions: std::mem::take(&mut sessions),
            bytes: Vec::new(),
            ended: &mut ended,
        };
        for record in Records::new(&part).flatten() {
            input.record(&record, &mut table);
            if table.sessions.len() < input.peerings().len() {
                let sessions = table.exporter.sessions(input.peerings()).into_iter();
                table.sessions = sessions.map(|id| id.filter(|id| up.contains(id))).collect();
            }
        }
        sessions = std::mem::take(&mut table.sessions);
        let bytes = std::mem::take(&mut table.bytes);
        drop(table);
        stream.write_all(&bytes)?;
    }
    let mut bytes = Vec::new();
    for (id, family) in ended.order {
        inner.exporter().table(&mut bytes, id, Time::ZERO, &end_of_rib(family));
    }
    stream.write_all(&bytes)
}

/// Families of sessions whose routes were sent, in order.
#[derive(Default)]
struct Ended {
    order: Vec<(PeeringId, Family)>,
    known: HashSet<(PeeringId, Family)>,
}

/// Encodes the announcements of a table dump for the station's stream.
struct Table<'a> {
    exporter: MutexGuard<'a, Exporter>,
    sessions: Vec<Option<PeeringId>>,
    bytes: Vec<u8>,
    ended: &'a mut Ended,
}

impl Sink for Table<'_> {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let Event::Message { time, message, .. } = *event else { return };
        let Some(id) = self.sessions.get(peering.id.index()).copied().flatten() else { return };
        self.exporter.table(&mut self.bytes, id, time, message.bytes());
        let family = bgp::update::Update::parse(message.body()).ok().and_then(|update| {
            if !update.announced.is_empty() {
                return Some(Family::IPV4_UNICAST);
            }
            update.attributes().map_while(Result::ok).find_map(|raw| {
                let is_reach = raw.code == bgp::attribute::code::MP_REACH_NLRI;
                let head = is_reach.then(|| raw.value.first_chunk::<3>()).flatten()?;
                let afi = bgp::Afi(u16::from_be_bytes([head[0], head[1]]));
                Some(Family { afi, safi: bgp::Safi(head[2]) })
            })
        });
        if let Some(family) = family.filter(|family| self.ended.known.insert((id, *family))) {
            self.ended.order.push((id, family));
        }
    }
}

/// The End-of-RIB marker of a family (RFC 4724 §2).
fn end_of_rib(family: Family) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0];
    if family != Family::IPV4_UNICAST {
        let [high, low] = family.afi.0.to_be_bytes();
        body[3] = 6;
        body.extend_from_slice(&[0x80, 15, 3, high, low, family.safi.0]);
    }
    encode(MessageType::UPDATE, &body, MAX).expect("ten bytes fit into a message")
}

/// Copies the unread data of the station; false if there is none after a timeout.
fn read_unread(inner: &Inner, cursor: &mut Cursor, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let exporter = inner.exporter();
    let wait = Duration::from_millis(200);
    let has_no_data = |exporter: &mut Exporter| {
        !inner.over.load(Ordering::SeqCst) && exporter.unread(*cursor).is_ok_and(<[u8]>::is_empty)
    };
    let (exporter, _) = inner
        .wakeup
        .wait_timeout_while(exporter, wait, has_no_data)
        .unwrap_or_else(PoisonError::into_inner);
    let unread = exporter.unread(*cursor).map_err(|overrun| {
        let text = format!("the station is {} bytes behind", overrun.missing);
        io::Error::new(io::ErrorKind::TimedOut, text)
    })?;
    bytes.clear();
    bytes.extend_from_slice(unread);
    cursor.advance(bytes.len());
    Ok(!bytes.is_empty())
}
