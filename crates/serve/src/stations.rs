//! BMP sessions to monitoring stations (RFC 7854 §3.2): the collector connects, the station
//! listens.

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

/// The first wait before a station is tried again; it doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_millis(500);
/// RFC 7854 §3.2 asks for at most 720 s; nobody wants to miss that much.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long a station may take nothing.
const STUCK: Duration = Duration::from_secs(60);
/// How often counters are told.
const STATISTICS: Duration = Duration::from_secs(60);

struct Inner {
    exporter: Mutex<Exporter>,
    news: Condvar,
    /// No more events will come.
    over: AtomicBool,
}

impl Inner {
    /// A thread that panicked did not leave the stream between packets half written: they are
    /// appended whole.
    fn exporter(&self) -> MutexGuard<'_, Exporter> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections to stations, until dropped.
pub struct Stations {
    threads: Vec<JoinHandle<()>>,
}

impl Stations {
    /// Tells the stations at `addresses` (`host:port`) everything that comes by `events`, from
    /// the collector called `name`. Stations that are not there are tried again and again; each
    /// is told who is up, all their routes, and from then on what is said.
    pub fn start(
        addresses: &[String],
        name: &str,
        events: Watch,
        board: &Board,
    ) -> Result<Self, Error> {
        let settings = Settings { name: name.to_owned(), ..Settings::default() };
        let inner = Arc::new(Inner {
            exporter: Mutex::new(Exporter::new(settings)),
            news: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let named = |name: String| std::thread::Builder::new().name(name);
        let tell = Arc::clone(&inner);
        let mut threads = vec![named("bmp".to_owned()).spawn(move || tell_all(&tell, &events))?];
        for address in addresses {
            let (inner, address) = (Arc::clone(&inner), address.clone());
            let board = board.clone();
            let thread = named(format!("bmp {address}"));
            threads.push(thread.spawn(move || keep_connected(&inner, &address, &board))?);
        }
        Ok(Self { threads })
    }
}

impl Drop for Stations {
    /// Ends when all stations have what there is; those that do not take it in time, or that
    /// are not there, are left.
    fn drop(&mut self) {
        crate::join(&mut self.threads);
    }
}

impl std::fmt::Debug for Stations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stations").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

fn tell_all(inner: &Inner, events: &Watch) {
    let mut told = Instant::now();
    let mut time = Time::ZERO;
    for batch in &events.batches {
        let mut exporter = inner.exporter();
        for (peering, event) in batch.events() {
            exporter.event(peering, &event);
            if let collector::Event::Message { time: at, .. } = event {
                time = time.max(at);
            }
        }
        if told.elapsed() >= STATISTICS {
            told = Instant::now();
            // Counters that do not fit are told the next time.
            let _ = exporter.statistics(time);
        }
        drop(exporter);
        inner.news.notify_all();
    }
    inner.over.store(true, Ordering::SeqCst);
    inner.news.notify_all();
}

fn keep_connected(inner: &Inner, address: &str, board: &Board) {
    let mut wait = RETRY;
    while !inner.over.load(Ordering::SeqCst) {
        let began = Instant::now();
        match connect(address).and_then(|stream| serve(inner, stream, board)) {
            // Everything was told.
            Ok(()) => return,
            // Whoever was there for a while is looked for again at once.
            Err(_) if began.elapsed() > RETRY_MAX => wait = RETRY,
            Err(_) => {}
        }
        let until = Instant::now() + wait;
        while Instant::now() < until && !inner.over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        wait = (wait * 2).min(RETRY_MAX);
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => {
                stream.set_write_timeout(Some(STUCK))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Sends everything until the collector ends.
fn serve(inner: &Inner, mut stream: TcpStream, board: &Board) -> io::Result<()> {
    let invalid = |error: bgp::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut bytes = Vec::new();
    let mut cursor = inner.exporter().greeting(&mut bytes).map_err(invalid)?;
    stream.write_all(&bytes)?;
    send_table(inner, &mut stream, board)?;
    loop {
        let over = inner.over.load(Ordering::SeqCst);
        if take(inner, &mut cursor, &mut bytes)? {
            stream.write_all(&bytes)?;
        } else if over {
            bytes.clear();
            Exporter::termination(&mut bytes).map_err(invalid)?;
            return stream.write_all(&bytes);
        }
    }
}

/// Sends all routes as they are by now. What happened since the greeting comes again afterwards,
/// in order, so in the end the station knows what is so.
fn send_table(inner: &Inner, stream: &mut TcpStream, board: &Board) -> io::Result<()> {
    let pieces = board.table();
    let mut input = mrt::Input::new(MirrorId::NONE, PeeringId(0));
    let mut ended = Ended::default();
    let mut sessions = Vec::new();
    loop {
        let piece = match pieces.recv_timeout(Duration::from_millis(200)) {
            Ok(piece) if piece.is_empty() => break,
            Ok(piece) => piece,
            Err(_) if inner.over.load(Ordering::SeqCst) => break,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => {
                let text = "the station took the routes too slowly";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        };
        let mut table = Table {
            exporter: inner.exporter(),
            sessions: std::mem::take(&mut sessions),
            bytes: Vec::new(),
            told: &mut ended,
        };
        for record in Records::new(&piece).flatten() {
            input.record(&record, &mut table);
            if table.sessions.len() < input.peerings().len() {
                table.sessions = table.exporter.sessions(input.peerings());
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

/// Families of sessions whose routes were sent, in that order.
#[derive(Default)]
struct Ended {
    order: Vec<(PeeringId, Family)>,
    known: HashSet<(PeeringId, Family)>,
}

/// Announcements of a table dump into packets of the station's stream.
struct Table<'a> {
    exporter: MutexGuard<'a, Exporter>,
    /// Of the peers of the table.
    sessions: Vec<Option<PeeringId>>,
    bytes: Vec<u8>,
    told: &'a mut Ended,
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
        if let Some(family) = family.filter(|family| self.told.known.insert((id, *family))) {
            self.told.order.push((id, family));
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
    encode(MessageType::UPDATE, &body, MAX).expect("ten octets fit into a message")
}

/// Copies what the station has not read; false if there is nothing after a while.
fn take(inner: &Inner, cursor: &mut Cursor, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let exporter = inner.exporter();
    let wait = Duration::from_millis(200);
    let quiet = |exporter: &mut Exporter| {
        !inner.over.load(Ordering::SeqCst) && exporter.unread(*cursor).is_ok_and(<[u8]>::is_empty)
    };
    let (exporter, _) = inner
        .news
        .wait_timeout_while(exporter, wait, quiet)
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
