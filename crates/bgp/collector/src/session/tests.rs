//! Scripts of calls with the expected output of the sink, as tables.

use std::fmt::Write as _;
use std::net::SocketAddr;

use base::Time;
use bgp::capability::Capability;
use bgp::open::OpenBuilder;
use bgp::{Asn, Family, MARKER};

use super::{Learned, Sessions, Settings};
use crate::{Close, Connection, ConnectionId, End, Event, Hole, MirrorId, Peering, Receiver, Sink};

mod one_sided;
mod perspective;
mod properties;
mod states;

const LOW: End = End::Low;
const HIGH: End = End::High;

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = MARKER.to_vec();
    bytes.extend((19 + body.len() as u16).to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

/// An OPEN with a hold time of 90 s.
fn open(asn: u32, capabilities: &[Capability<'_>]) -> Vec<u8> {
    let mut open = OpenBuilder::new(Asn(asn), 90, asn);
    for capability in capabilities {
        open.capability(capability).unwrap();
    }
    open.build().unwrap()
}

fn open4(asn: u32) -> Vec<u8> {
    open(asn, &[Capability::FourOctetAs(Asn(asn))])
}

fn keepalive() -> Vec<u8> {
    message(4, &[])
}

/// An UPDATE with one AS number of `width` octets and encoded prefixes.
fn update(width: usize, asn: u32, nlri: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 5 + width as u8, 0x40, 2, 2 + width as u8, 2, 1];
    body.extend(&asn.to_be_bytes()[4 - width..]);
    body.extend(nlri);
    message(2, &body)
}

const PREFIX: [u8; 4] = [24, 10, 0, 1];

#[derive(Debug, Default)]
struct Log {
    text: String,
    /// Omit the seconds and the number of the peering.
    bare: bool,
}

impl Sink for Log {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let text = &mut self.text;
        if !self.bare {
            let time = match event {
                Event::Message { time, .. } | Event::State { time, .. } => *time,
                Event::Gap(gap) => gap.until,
                Event::Reading(reading) => reading.time,
            };
            write!(text, "{} p{} ", time.as_secs_f64(), peering.id.0).unwrap();
        }
        match event {
            Event::Message { from, message, .. } => {
                let name = message.kind().name().unwrap_or("?");
                writeln!(text, "{from:?} {name}").unwrap();
            }
            Event::State { old, new, reason, .. } => {
                writeln!(text, "{old:?} > {new:?} {reason:?}").unwrap();
            }
            Event::Gap(gap) => {
                let (missing, skipped) = (gap.missing, gap.skipped);
                writeln!(text, "gap {:?} {:?} {missing} {skipped}", gap.from, gap.cause).unwrap();
            }
            Event::Reading(reading) => {
                let four = peering.from_peer.four_octet_as;
                let paths = peering.from_peer.add_path.contains(Family::IPV4_UNICAST);
                let (confidence, otherwise) = (reading.confidence, reading.otherwise);
                writeln!(text, "{confidence:?} four {four} paths {paths} otherwise {otherwise}")
                    .unwrap();
            }
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        writeln!(self.text, "p{} is forgotten", peering.id.0).unwrap();
    }
}

/// A gap of the last second that the receiver did not acknowledge.
fn gap(time: f64, missing: u64) -> Hole {
    Hole {
        time: at(time),
        since: at(time - 1.0),
        missing,
        skipped: 0,
        unconfirmed: 0,
        acknowledged: false,
        resynchronised: false,
        limit: None,
    }
}

struct Script<S = Log>(Sessions<S>);

impl<S: Sink> Script<S> {
    fn connect(&mut self, time: f64, id: u32, ends: [&str; 2], opener: Option<End>) -> &mut Self {
        let ends = ends.map(|end| end.parse::<SocketAddr>().unwrap());
        assert!(ends[0] < ends[1]);
        let connection = Connection { mirror: MirrorId(0), ends, opener };
        self.0.opened(at(time), ConnectionId(id), &connection);
        self
    }

    /// Connects neighbour 10.0.0.`peer`, below 9, and the router 10.0.0.9.
    fn meet(&mut self, time: f64, id: u32, peer: u8, opener: Option<End>) -> &mut Self {
        let port = 40_000 + id;
        let ends = [format!("10.0.0.{peer}:{port}"), "10.0.0.9:179".into()];
        self.connect(time, id, [&ends[0], &ends[1]], opener)
    }

    fn say(&mut self, time: f64, id: u32, from: End, bytes: &[u8]) -> &mut Self {
        self.0.message(at(time), ConnectionId(id), from, bytes);
        self
    }

    fn hole(&mut self, time: f64, id: u32, from: End, missing: u64) -> &mut Self {
        self.0.hole(ConnectionId(id), from, &gap(time, missing));
        self
    }

    fn close(&mut self, time: f64, id: u32, from: End, close: Close) -> &mut Self {
        self.0.closed(at(time), ConnectionId(id), from, close);
        self
    }

    fn end(&mut self, time: f64, id: u32) -> &mut Self {
        self.0.ended(at(time), ConnectionId(id));
        self
    }
}

impl Script {
    fn new(settings: Settings) -> Self {
        Self(Sessions::new(settings, Log::default()))
    }

    /// The router is 10.0.0.9.
    fn configured() -> Self {
        Self::new(Settings { routers: vec!["10.0.0.9".parse().unwrap()], ..Settings::default() })
    }

    /// Both OPENs and KEEPALIVEs, within 0.4 s.
    fn establish(&mut self, time: f64, id: u32, peer: u8) -> &mut Self {
        self.meet(time, id, peer, Some(LOW));
        self.say(time + 0.1, id, LOW, &open4(u32::from(peer)));
        self.say(time + 0.2, id, HIGH, &open4(9));
        self.say(time + 0.3, id, HIGH, &keepalive());
        self.say(time + 0.4, id, LOW, &keepalive())
    }

    fn output(&mut self) -> String {
        std::mem::take(&mut self.0.sink_mut().text)
    }

    #[track_caller]
    fn expect(&mut self, lines: &[&str]) -> &mut Self {
        let output = self.output();
        assert_eq!(output.lines().collect::<Vec<_>>(), lines);
        self
    }
}
