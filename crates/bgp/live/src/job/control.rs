//! OPEN and NOTIFICATION messages of sessions, saved beside the archive: the files of updates lack
//! those of the router, and a table lacks all. They determine which routes outlive a session
//! (RFC 4724, RFC 8538) and what a route refresh removes (RFC 7313).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Time;
use bgp::message::{MAX_EXTENDED, encode};
use bgp::mrt::{self, Form};
use bgp::notification::code::HOLD_TIMER;
use bgp::{Asn, MessageType};
use collector::{Event, Peering, PeeringId, Reason, Sender, State};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::archive::{Ledger, micros, read_ledger};
use crate::query::hex;

/// The file, one message per line.
pub(crate) const CONTROL: &str = "CONTROL";

/// Maximum number of lines that wait for the disk.
const MAX_PENDING: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    time_us: u64,
    mirror: u32,
    peer: IpAddr,
    peer_as: u32,
    router: IpAddr,
    router_as: u32,
    /// The sender: `peer` or `router`.
    from: String,
    /// The whole message, in hexadecimal digits.
    message: String,
}

impl Line {
    fn new(peering: &Peering, time: Time, from: Sender, message: &[u8]) -> Self {
        let from = if from == Sender::Peer { "peer" } else { "router" };
        Self {
            time_us: micros(time),
            mirror: peering.mirror.0,
            peer: peering.peer,
            peer_as: peering.peer_as.0,
            router: peering.local,
            router_as: peering.local_as.0,
            from: from.to_owned(),
            message: hex(message),
        }
    }

    fn record(&self) -> Option<(Time, Vec<u8>)> {
        let time = Time::from_nanos(self.time_us.checked_mul(1_000)?);
        let digits = self.message.as_bytes().chunks(2);
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let message: Vec<u8> = digits.map(octet).collect::<Option<_>>()?;
        let interface = self.mirror.try_into().unwrap_or(0);
        let (peer_as, router_as) = (Asn(self.peer_as), Asn(self.router_as));
        let session = mrt::Session::new(peer_as, router_as, self.peer, self.router);
        let session = mrt::Session { interface, ..session };
        let form = Form { four_octet_as: true, local: self.from == "router", add_path: false };
        let mut record = Vec::new();
        mrt::write::message(&mut record, time, mrt::kind::BGP4MP_ET, &session, form, &message);
        Some((time, record))
    }
}

/// The messages as MRT records with their times, in the order of time.
pub(crate) fn read(folder: &Path) -> Result<Vec<(Time, Vec<u8>)>> {
    let lines = read_ledger::<Line>(&folder.join(CONTROL))?;
    let mut records: Vec<_> = lines.iter().filter_map(Line::record).collect();
    records.sort_by_key(|(time, _)| *time);
    Ok(records)
}

pub(super) struct Control {
    path: PathBuf,
    pending: Vec<Line>,
    /// The OPENs in the file, of peer and router: equal ones are not repeated.
    opens: HashMap<PeeringId, [Vec<u8>; 2]>,
}

impl Control {
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(CONTROL), pending: Vec::new(), opens: HashMap::new() }
    }

    pub(super) fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match *event {
            Event::Message { time, from, message } if message.kind() == MessageType::OPEN => {
                let opens = self.opens.entry(peering.id).or_default();
                let last = &mut opens[usize::from(from == Sender::Local)];
                if *last != message.bytes() {
                    message.bytes().clone_into(last);
                    self.add(peering, time, from, message.bytes());
                }
            }
            Event::State { time, old: State::Established, reason, .. } => {
                let body = match reason {
                    Reason::Notification(Sender::Local, code, subcode) => [code, subcode],
                    Reason::HoldTimeExpired => [HOLD_TIMER, 0],
                    _ => return,
                };
                if let Ok(message) = encode(MessageType::NOTIFICATION, &body, MAX_EXTENDED) {
                    self.add(peering, time, Sender::Local, &message);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, peering: &Peering, time: Time, from: Sender, message: &[u8]) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push(Line::new(peering, time, from, message));
        }
    }

    pub(super) fn forget_peering(&mut self, peering: &Peering) {
        self.opens.remove(&peering.id);
    }

    /// Writes new lines; those that cannot be written remain for the next call.
    pub(super) fn write(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        Ledger::open(self.path.clone())?.append_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bgp::Message;
    use bgp::mrt::{Body, Record};
    use bgp::open::OpenBuilder;
    use collector::MirrorId;

    use super::*;

    #[test]
    fn saves_opens_once_and_ends_of_router() {
        let folder = tempfile::tempdir().unwrap();
        let address = |text: &str| text.parse().unwrap();
        let (peer, router) = (address("192.0.2.2"), address("192.0.2.1"));
        let peering = Peering::new(PeeringId(0), MirrorId(3), peer, router);
        let open = OpenBuilder::new(Asn(64_500), 90, 1).build().unwrap();
        let message = Message::split(&open).unwrap();
        let mut control = Control::new(folder.path());
        let mut event = |event: Event<'_>| control.event(&peering, &event);
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let (old, new) = (State::Established, State::Idle);
        let from = Sender::Local;
        event(Event::Message { time: at(1), from, message });
        event(Event::State { time: at(5), old, new, reason: Reason::HoldTimeExpired });
        event(Event::Message { time: at(7), from, message });
        event(Event::State { time: at(8), old, new, reason: Reason::Reset });
        let reason = Reason::Notification(Sender::Local, 6, 4);
        event(Event::State { time: at(9), old, new, reason });
        control.write().unwrap();
        control.write().unwrap();
        let records = read(folder.path()).unwrap();
        let found: Vec<_> = records
            .iter()
            .map(|(time, bytes)| {
                let record = Record::of(bytes).unwrap();
                assert_eq!(record.time, *time);
                let Body::Message(message) = record.parse().unwrap() else { panic!("{record:?}") };
                assert!(message.form.local);
                assert_eq!((message.session.interface, message.session.peer), (3, peer));
                (time.as_nanos() / 1_000_000_000, message.bytes[18..].to_vec())
            })
            .collect();
        let wanted = [(1, open[18..].to_vec()), (5, vec![3, 4, 0]), (9, vec![3, 6, 4])];
        assert_eq!(found, wanted);
    }
}
