//! Scripts of BGP sessions, and their good captures.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::message::{self, Codec, Key, Meaning, Route, Update};
use super::truth::Truth;
use crate::packet::{ACK, FIN, Original, Packet, RST, SYN};

pub(crate) const ROUTER: &str = "192.0.2.1";

const START_NANOS: u64 = 1_700_000_000_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// Time between segments of one write.
const SPACING: u64 = 50_000;

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) codec: Codec,
    pub(crate) mss: u16,
    /// Peer and router support enhanced route refresh.
    pub(crate) refresh: [bool; 2],
    /// All connections have the same ports.
    pub(crate) same_ports: bool,
    /// One after another; each but the last has an end.
    pub(crate) sessions: Vec<Session>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) router_opens: bool,
    /// Milliseconds since the session before.
    pub(crate) pause: u16,
    /// Steps after a pause in milliseconds.
    pub(crate) steps: Vec<(u16, Step)>,
    pub(crate) end: Option<End>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Updates(Vec<Update>),
    Keepalives,
    FromRouter(Update),
    EndOfRib(usize),
    Refresh(Refresh),
}

/// The router requests the routes of a family, and the peer announces all of them again.
#[derive(Clone, Debug)]
pub(crate) struct Refresh {
    pub(crate) family: usize,
    /// Number of first markers. The peer announces all routes after each but the last one.
    pub(crate) begins: usize,
    pub(crate) ends: bool,
    /// A route that the peer does not announce again, modulo their number; without the last marker,
    /// also all routes after it.
    pub(crate) omitted: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Notification { from_peer: bool },
    Fin { from_peer: bool },
    Reset { from_peer: bool },
}

/// A good capture, and what the collector makes of it.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) original: Original,
    pub(crate) truth: Truth,
    /// The effect of each message of a peer on its routes.
    pub(crate) meaning: BTreeMap<(IpAddr, Vec<u8>), Meaning>,
}

/// A connection, at the time of its next packet.
struct Connection {
    number: usize,
    ends: [SocketAddr; 2],
    /// The side of the peer: 0 if it opened the connection.
    peer: usize,
    mss: usize,
    now: u64,
    sent: [u64; 2],
}

struct Writer<'a> {
    peer: &'a Peer,
    address: IpAddr,
    capture: &'a mut Capture,
    connection: Connection,
    routes: BTreeMap<Key, Route>,
    /// Families with a route refresh that has begun and not ended.
    begun: BTreeSet<usize>,
    serial: &'a mut u32,
}

pub(crate) fn capture(peers: &[Peer]) -> Capture {
    let original = Original::default();
    let mut capture = Capture { original, truth: Truth::default(), meaning: BTreeMap::new() };
    let (mut number, mut serial) = (0, 0);
    for (at, peer) in peers.iter().enumerate() {
        // No two packets have one time.
        let mut now = START_NANOS + at as u64 * 7_000;
        for (times, session) in peer.sessions.iter().enumerate() {
            now += u64::from(session.pause) * MILLISECOND;
            let is_last = times + 1 == peer.sessions.len();
            let default = (!is_last).then_some(End::Notification { from_peer: true });
            let (address, connection) = connection(peer, session, at, number, now);
            number += 1;
            capture.truth.begin(address);
            let mut writer = Writer {
                peer,
                address,
                capture: &mut capture,
                connection,
                routes: BTreeMap::new(),
                begun: BTreeSet::new(),
                serial: &mut serial,
            };
            writer.session(session, session.end.or(default));
            now = writer.connection.now;
        }
    }
    capture.original.packets.sort_by_key(|packet| packet.time);
    capture.original.assemble();
    capture
}

fn connection(
    peer: &Peer,
    session: &Session,
    at: usize,
    number: usize,
    now: u64,
) -> (IpAddr, Connection) {
    let address: IpAddr = [192, 0, 2, 2 + at as u8].into();
    let port = 40_000 + if peer.same_ports { at } else { number } as u16;
    let ports = if session.router_opens { [179, port] } else { [port, 179] };
    let mut ends =
        [SocketAddr::new(address, ports[0]), SocketAddr::new(ROUTER.parse().unwrap(), ports[1])];
    if session.router_opens {
        ends.swap(0, 1);
    }
    let side = usize::from(session.router_opens);
    let mss = usize::from(peer.mss);
    (address, Connection { number, ends, peer: side, mss, now, sent: [0; 2] })
}

impl Writer<'_> {
    fn session(&mut self, session: &Session, end: Option<End>) {
        self.handshake();
        let (peer, router) = (self.connection.peer, 1 - self.connection.peer);
        for (side, asn, refresh) in
            [(peer, message::PEER_AS, self.peer.refresh[0]), (router, 64_500, self.peer.refresh[1])]
        {
            let open = message::open(asn, side == peer, &self.peer.codec, refresh);
            self.write(side, &[open]);
        }
        for side in [router, peer] {
            self.write(side, &[message::keepalive()]);
        }
        for (pause, step) in &session.steps {
            self.connection.now += u64::from(*pause) * MILLISECOND;
            self.step(step);
        }
        if let Some(end) = end {
            self.connection.now += 5 * MILLISECOND;
            self.end(end);
        } else {
            self.capture.truth.routes.extend(
                self.routes.iter().map(|(key, route)| ((self.address, key.clone()), route.serial)),
            );
        }
    }

    fn step(&mut self, step: &Step) {
        let (peer, router) = (self.connection.peer, 1 - self.connection.peer);
        match step {
            Step::Updates(updates) => {
                let messages: Vec<_> = updates.iter().map(|update| self.update(update)).collect();
                self.write(peer, &messages);
            }
            Step::Keepalives => {
                self.write(router, &[message::keepalive()]);
                self.write(peer, &[message::keepalive()]);
            }
            Step::FromRouter(update) => {
                *self.serial += 1;
                let (bytes, _) = self.peer.codec.update(update, *self.serial, false);
                self.write(router, &[bytes]);
            }
            Step::EndOfRib(family) => {
                let end = message::end_of_rib(*family);
                self.mean(&end, Meaning::Changes(Vec::new()));
                self.write(peer, &[end]);
            }
            Step::Refresh(refresh) => self.refresh(refresh),
        }
    }

    fn update(&mut self, update: &Update) -> Vec<u8> {
        *self.serial += 1;
        let (bytes, changes) = self.peer.codec.update(update, *self.serial, true);
        for (key, route) in &changes {
            match route {
                Some(route) => self.routes.insert(key.clone(), route.clone()),
                None => self.routes.remove(key),
            };
        }
        let changes = changes.into_iter().map(|(key, route)| (key, route.map(|one| one.serial)));
        self.mean(&bytes, Meaning::Changes(changes.collect()));
        bytes
    }

    fn refresh(&mut self, refresh: &Refresh) {
        let (family, works) = (refresh.family, self.peer.refresh == [true; 2]);
        self.write(1 - self.connection.peer, &[message::route_refresh(family, 0)]);
        let of = |key: &&Key| key.family == message::FAMILIES[family];
        let mut keys: Vec<Key> = self.routes.keys().filter(of).cloned().collect();
        for key in &keys {
            let Route { serial, alone } = self.routes[key].clone();
            self.mean(&alone, Meaning::Changes(vec![(key.clone(), Some(serial))]));
        }
        let mut messages = Vec::new();
        let marker = |subtype| message::route_refresh(family, subtype);
        for number in 0..refresh.begins {
            if number > 0 {
                messages.extend(keys.iter().map(|key| self.routes[key].alone.clone()));
            }
            messages.push(marker(1));
            self.mean(&marker(1), Meaning::Begin(message::FAMILIES[family], works));
            self.begun.insert(family);
        }
        let is_begun = self.begun.contains(&family);
        // Without the first marker of this refresh, an earlier one is valid.
        let omits = refresh.begins > 0 || !is_begun;
        match refresh.omitted.filter(|_| omits && !keys.is_empty()) {
            Some(omitted) if refresh.ends => {
                let key = keys.remove(omitted % keys.len());
                if works && is_begun {
                    self.routes.remove(&key);
                }
            }
            // Without the last marker no route is removed.
            Some(omitted) => keys.truncate(omitted),
            None => {}
        }
        messages.extend(keys.iter().map(|key| self.routes[key].alone.clone()));
        if refresh.ends {
            messages.push(marker(2));
            self.begun.remove(&family);
            self.mean(&marker(2), Meaning::End(message::FAMILIES[family], works));
        }
        if !messages.is_empty() {
            self.write(self.connection.peer, &messages);
        }
    }

    fn mean(&mut self, bytes: &[u8], meaning: Meaning) {
        self.capture.meaning.insert((self.address, bytes.to_vec()), meaning);
    }

    fn handshake(&mut self) {
        let mss = (self.connection.mss as u16).to_be_bytes();
        let options = [2, 4, mss[0], mss[1]];
        for (side, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            let has_options = flags & SYN != 0;
            self.packet(side, flags, &[], if has_options { &options } else { &[] });
        }
    }

    fn end(&mut self, end: End) {
        let side =
            |from_peer| if from_peer { self.connection.peer } else { 1 - self.connection.peer };
        match end {
            End::Notification { from_peer } => {
                let side = side(from_peer);
                self.write(side, &[message::notification()]);
                self.close(side);
            }
            End::Fin { from_peer } => self.close(side(from_peer)),
            End::Reset { from_peer } => self.packet(side(from_peer), RST | ACK, &[], &[]),
        }
        self.capture.truth.end(self.address);
    }

    fn close(&mut self, side: usize) {
        for side in [side, 1 - side] {
            self.packet(side, FIN | ACK, &[], &[]);
            self.connection.sent[side] += 1;
            self.connection.now += MILLISECOND;
        }
        self.packet(side, ACK, &[], &[]);
    }

    /// Sends messages in segments of at most the MSS, which the receiver acknowledges.
    fn write(&mut self, side: usize, messages: &[Vec<u8>]) {
        let (bytes, mss) = (messages.concat(), self.connection.mss);
        let mut end = 0;
        for message in messages.iter().filter(|_| side == self.connection.peer) {
            end += message.len();
            let time = self.connection.now + ((end - 1) / mss) as u64 * SPACING;
            self.capture.truth.message(self.address, time / 1_000, message);
        }
        for segment in bytes.chunks(mss) {
            self.packet(side, ACK, segment, &[]);
            self.connection.sent[side] += segment.len() as u64;
        }
        self.connection.now += MILLISECOND;
        self.packet(1 - side, ACK, &[], &[]);
        self.connection.now += MILLISECOND;
    }

    fn packet(&mut self, side: usize, flags: u8, payload: &[u8], options: &[u8]) {
        let connection = &mut self.connection;
        self.capture.original.packets.push(Packet {
            time: connection.now,
            from: connection.ends[side],
            to: connection.ends[1 - side],
            flags,
            window: 512,
            options: options.to_vec(),
            payload: payload.to_vec(),
            connection: connection.number,
            side,
            offset: connection.sent[side],
            acked: if flags & ACK == 0 { 0 } else { connection.sent[1 - side] },
            kept: None,
            flipped: None,
            merged: false,
            first_part: None,
            mirror: 0,
        });
        connection.now += SPACING;
    }
}
