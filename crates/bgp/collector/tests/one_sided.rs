//! Real sessions with one direction and the OPENs removed: the inferred encoding is correct, and no
//! UPDATE is delivered under another one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use base::Time;
use bgp::mrt::{Body, Records};
use bgp::{Family, MARKER, Negotiated};
use collector::capture::{Reader, Step};
use collector::decapsulate::{self, Decapsulator};
use collector::reassembly::{self, Reassembler};
use collector::session::{Sessions, Settings};
use collector::{
    Close, Connection, ConnectionId, End, Event, Hole, MirrorId, Peering, Receiver, Sender, Sink,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name)
}

fn contents(path: &Path) -> Vec<u8> {
    let mut file = fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes),
        Some("bz2") => bzip2::read::MultiBzDecoder::new(file).read_to_end(&mut bytes),
        _ => file.read_to_end(&mut bytes),
    }
    .unwrap();
    bytes
}

type Readings = Vec<(Negotiated, Vec<u8>)>;

/// Delivered UPDATEs: by peer and router.
#[derive(Default)]
struct Updates {
    by: BTreeMap<(IpAddr, IpAddr), Readings>,
    /// For each inferred encoding: UPDATEs passed so far, and UPDATEs under a replaced encoding.
    readings: Vec<(usize, u64)>,
    given: usize,
    unreadable: usize,
}

impl Sink for Updates {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match event {
            Event::Message { from, message, .. } if message.kind().0 == 2 => {
                let (key, how) = match from {
                    Sender::Peer => ((peering.peer, peering.local), peering.from_peer),
                    Sender::Local => ((peering.local, peering.peer), peering.from_local),
                };
                self.by.entry(key).or_default().push((how, message.bytes().to_vec()));
            }
            Event::Reading(reading) => self.readings.push((self.given, reading.otherwise)),
            Event::Gap(gap) if gap.cause == collector::GapCause::Undecodable => {
                self.unreadable += 1;
            }
            _ => {}
        }
    }
}

#[derive(Clone)]
enum Call {
    Opened(Time, ConnectionId, Connection),
    Message(Time, ConnectionId, End, Vec<u8>),
    Closed(Time, ConnectionId, End, Close),
    Ended(Time, ConnectionId),
}

#[derive(Default)]
struct Calls(Vec<Call>);

impl Receiver for Calls {
    fn opened(&mut self, time: Time, id: ConnectionId, connection: &Connection) {
        self.0.push(Call::Opened(time, id, *connection));
    }
    fn message(&mut self, time: Time, id: ConnectionId, from: End, bytes: &[u8]) {
        self.0.push(Call::Message(time, id, from, bytes.to_vec()));
    }
    fn hole(&mut self, _id: ConnectionId, _from: End, hole: &Hole) {
        assert_eq!(hole.missing, 0);
    }
    fn closed(&mut self, time: Time, id: ConnectionId, from: End, close: Close) {
        self.0.push(Call::Closed(time, id, from, close));
    }
    fn ended(&mut self, time: Time, id: ConnectionId) {
        self.0.push(Call::Ended(time, id));
    }
}

fn capture(bytes: &[u8]) -> Vec<Call> {
    let mut reader = Reader::new();
    let mut decapsulator = Decapsulator::new(decapsulate::Settings::default());
    let mut reassembler = Reassembler::new(reassembly::Settings::default());
    let mut calls = Calls::default();
    let mut at = 0;
    loop {
        at += match reader.next(&bytes[at..], true).unwrap() {
            Step::Frame { frame, used } => {
                decapsulator.segments(&frame, &mut |segment| {
                    reassembler.segment(segment, &mut calls);
                });
                used
            }
            Step::Skip { used } => used,
            Step::End => break,
            step => panic!("{step:?}"),
        };
    }
    reassembler.end(&mut calls);
    calls.0
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    both: bool,
    opens: bool,
}

fn play(calls: &[Call], shown: Shown, routers: &[IpAddr]) -> Updates {
    let settings = Settings { routers: routers.to_vec(), ..Settings::default() };
    let mut sessions = Sessions::new(settings, Updates::default());
    let mut ends = BTreeMap::new();
    for call in calls {
        match call {
            Call::Opened(time, id, connection) => {
                let mut connection = *connection;
                let address = |end: End| connection.ends[end.index()].ip();
                let router =
                    if routers.contains(&address(End::Low)) { End::Low } else { End::High };
                ends.insert(*id, router);
                if !shown.opens {
                    connection.opener = None;
                }
                sessions.opened(*time, *id, &connection);
            }
            Call::Message(time, id, from, bytes) => {
                let open = bytes[18] == 1;
                if (shown.opens || !open) && (shown.both || *from != ends[id]) {
                    sessions.sink_mut().given += usize::from(bytes[18] == 2);
                    sessions.message(*time, *id, *from, bytes);
                }
            }
            Call::Closed(time, id, from, close) => sessions.closed(*time, *id, *from, *close),
            Call::Ended(time, id) => sessions.ended(*time, *id),
        }
    }
    sessions.finish();
    sessions.into_sink()
}

/// For each connection, the address of the end that listens at port 179.
fn routers(calls: &[Call]) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for call in calls {
        if let Call::Opened(_, _, connection) = call {
            let listens = connection.ends.iter().find(|end| end.port() == 179).unwrap();
            found.push(listens.ip());
        }
    }
    found
}

fn matters(update: &[u8], how: Negotiated) -> (Option<bool>, Vec<(Family, bool)>) {
    let parsed = bgp::update::Update::parse(&update[19..]).unwrap();
    let mut families = Vec::new();
    if !parsed.withdrawn.is_empty() || !parsed.announced.is_empty() {
        families.push(Family::IPV4_UNICAST);
    }
    let mut width = None;
    for attribute in parsed.attributes() {
        let attribute = attribute.unwrap();
        let value = attribute.value;
        match attribute.code {
            2 if !value.is_empty() => width = Some(how.four_octet_as),
            7 => width = Some(how.four_octet_as),
            14 | 15 if value.len() > 3 => {
                let afi = bgp::Afi(u16::from_be_bytes([value[0], value[1]]));
                families.push(Family { afi, safi: bgp::Safi(value[2]) });
            }
            _ => {}
        }
    }
    (width, families.into_iter().map(|family| (family, how.add_path.contains(family))).collect())
}

#[test]
fn infers_same_encoding_from_one_direction() {
    let calls = capture(&contents(&data("pcap/addpath-extmsg-as4-v6-md5.pcap")));
    let routers = routers(&calls);
    let truth = play(&calls, Shown { both: true, opens: true }, &routers);
    assert!(truth.readings.is_empty() && truth.by.values().map(Vec::len).sum::<usize>() > 100);
    let mut with_paths = 0;
    for (both, opens) in [(false, true), (true, false), (false, false)] {
        let found = play(&calls, Shown { both, opens }, &routers);
        for (pair, updates) in &found.by {
            let known = &truth.by[pair];
            assert_eq!(known.len(), updates.len());
            for (known, found) in known.iter().zip(updates) {
                assert_eq!(known.1, found.1);
                assert_eq!(matters(&known.1, known.0), matters(&found.1, found.0), "{pair:?}");
                with_paths += usize::from(!found.0.add_path.is_empty());
            }
        }
        assert!(found.readings.iter().all(|(_, otherwise)| *otherwise == 0));
        assert_eq!(found.unreadable, 0);
    }
    assert!(with_paths > 100);
}

/// UPDATEs of a peer in an archive, with AS numbers of four octets or two.
type Peers = BTreeMap<(IpAddr, bool), Vec<Vec<u8>>>;

fn archive(bytes: &[u8]) -> Peers {
    let mut peers = Peers::new();
    for record in Records::new(bytes).flatten() {
        let Ok(Body::Message(record)) = record.parse() else { continue };
        let Some(message) = record.message() else { continue };
        if message.kind().0 == 2 && !record.form.local && !record.form.add_path {
            let key = (record.session.peer, record.form.four_octet_as);
            peers.entry(key).or_default().push(message.bytes().to_vec());
        }
    }
    peers
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

/// The UPDATE with AS numbers of the other width and, if requested, path identifiers before each
/// IPv4 prefix. `None` if it cannot be encoded.
fn rewrite(update: &[u8], four: bool, to_four: bool, ids: bool) -> Option<Vec<u8>> {
    let parsed = bgp::update::Update::parse(&update[19..]).ok()?;
    let mut next = 0_u32;
    let mut nlri = |mut bytes: &[u8]| {
        let mut out = Vec::new();
        while let Some(&bits) = bytes.first() {
            let (item, rest) = bytes.split_at_checked(1 + usize::from(bits).div_ceil(8))?;
            if ids {
                next = next % 5 + 1;
                out.extend(next.to_be_bytes());
            }
            out.extend(item);
            bytes = rest;
        }
        Some(out)
    };
    let (withdrawn, announced) = (nlri(parsed.withdrawn)?, nlri(parsed.announced)?);
    let width = |bytes: &[u8]| -> Option<Vec<u8>> {
        let number = bytes.iter().fold(0, |high, low| high << 8 | u32::from(*low));
        let number = number.to_be_bytes();
        if to_four {
            Some(number.to_vec())
        } else {
            (number[..2] == [0; 2]).then(|| number[2..].into())
        }
    };
    let size = if four { 4 } else { 2 };
    let mut attributes = Vec::new();
    for attribute in parsed.attributes() {
        let attribute = attribute.ok()?;
        let value = match attribute.code {
            2 => as_path(attribute.value, size, &width)?,
            7 => [width(attribute.value.get(..size)?)?, attribute.value[size..].into()].concat(),
            14 | 15 => return None,
            _ => attribute.value.to_vec(),
        };
        attributes.extend([attribute.flags | 0x10, attribute.code]);
        attributes.extend((value.len() as u16).to_be_bytes());
        attributes.extend(value);
    }
    let mut body = (withdrawn.len() as u16).to_be_bytes().to_vec();
    body.extend(withdrawn);
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend(announced);
    let mut message = MARKER.to_vec();
    message.extend((19 + body.len() as u16).to_be_bytes());
    message.push(2);
    message.extend(body);
    Some(message)
}

fn as_path(
    mut bytes: &[u8],
    size: usize,
    width: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<2>() {
        let (numbers, rest) = rest.split_at_checked(usize::from(head[1]) * size)?;
        out.extend(head);
        for number in numbers.chunks(size) {
            out.extend(width(number)?);
        }
        bytes = rest;
    }
    Some(out)
}

/// Peers whose records state that there are no path identifiers, although there are: the writers
/// did not support RFC 8050. BIRD's OPENs in the same files show it.
const MISLABELLED: [(&str, &str); 3] = [
    ("bgpipe_sample.mrt", "206.126.236.214"),
    ("bird_bgp", "192.168.0.10"),
    ("bird6_bgp", "fd02::10"),
];

/// Number of UPDATEs before the encoding was decided, later changes of the encoding,
/// and unreadable UPDATEs.
fn met_in_the_middle(updates: &[Vec<u8>], truth: Negotiated) -> (usize, usize, usize) {
    let ends: [SocketAddr; 2] =
        ["10.0.0.1:40000".parse().unwrap(), "10.0.0.9:179".parse().unwrap()];
    let routers = vec![ends[1].ip()];
    let settings = Settings { routers, ..Settings::default() };
    let mut sessions = Sessions::new(settings, Updates::default());
    let connection = Connection { mirror: MirrorId(0), ends, opener: None };
    sessions.opened(Time::from_nanos(1), ConnectionId(0), &connection);
    for (at, update) in updates.iter().enumerate() {
        sessions.sink_mut().given += 1;
        let time = Time::from_nanos(at as u64 * 1_000_000);
        sessions.message(time, ConnectionId(0), End::Low, update);
    }
    sessions.finish();
    let found = sessions.into_sink();
    let mut given = found.by.into_values().flatten();
    for update in updates {
        let (how, bytes) = given.next().unwrap();
        assert_eq!(bytes, *update);
        assert_eq!(matters(update, how), matters(update, truth), "{update:02x?}");
    }
    let first = found.readings.first().map_or(0, |(given, _)| *given);
    let refuted = found.readings.iter().filter(|(_, otherwise)| *otherwise > 0).count();
    (first, refuted, found.unreadable)
}

#[test]
fn decodes_archives_without_opens() {
    let mut found = Vec::new();
    files(&data("mrt"), &mut found);
    let (mut peers, mut slowest) = (0, 0);
    for path in found {
        for ((peer, four), updates) in archive(&contents(&path)) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            let mislabelled = MISLABELLED.contains(&(name, peer.to_string().as_str()));
            let families = [Family::IPV4_UNICAST, Family::IPV6_UNICAST];
            let add_path = families.into_iter().filter(|_| mislabelled).collect();
            let truth = Negotiated { four_octet_as: four, extended_message: false, add_path };
            let (first, refuted, unreadable) = met_in_the_middle(&updates, truth);
            assert_eq!((refuted, unreadable), (0, 0), "{} {peer}", path.display());
            (peers, slowest) = (peers + 1, slowest.max(first));
            if mislabelled {
                continue;
            }
            for (to_four, ids) in [(false, false), (true, false), (false, true), (true, true)] {
                let others: Vec<_> = updates
                    .iter()
                    .filter_map(|update| rewrite(update, four, to_four, ids))
                    .collect();
                let add_path = ids.then_some(Family::IPV4_UNICAST).into_iter().collect();
                let truth =
                    Negotiated { four_octet_as: to_four, extended_message: false, add_path };
                let (first, refuted, unreadable) = met_in_the_middle(&others, truth);
                assert_eq!((refuted, unreadable), (0, 0), "{} {peer}", path.display());
                slowest = slowest.max(first);
            }
        }
    }
    eprintln!("{peers} peers, decided after {slowest} UPDATEs at most");
    assert!(peers > 50 && slowest <= 8, "{peers} {slowest}");
}
