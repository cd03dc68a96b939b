//! Encodes events as MRT records (RFC 6396 §4.4, RFC 8050).

use base::Time;
use bgp::mrt::{self, Form};
use bgp::{Afi, Family, Message, MessageType, Negotiated, Safi};

use crate::{Event, Peering, Sender, Sink, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Write `BGP4MP_ET` with microseconds instead of `BGP4MP` with seconds.
    pub microseconds: bool,
    /// Also write the router's own messages, as `_LOCAL` subtypes. bgpdump does not read them.
    pub local_messages: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { microseconds: true, local_messages: false }
    }
}

/// Writes the messages and state changes of all peerings into a buffer, record by record.
#[derive(Debug)]
pub struct Recorder {
    settings: Settings,
    bytes: Vec<u8>,
    heads: Vec<Option<Box<Head>>>,
    records: u64,
    last: Time,
}

/// Maximum size of header, microseconds and session: four-octet AS numbers and IPv6 addresses.
const HEAD_MAX: usize = 12 + 4 + 4 + 4 + 2 + 2 + 16 + 16;

/// The start of each record of a peering, without time, subtype and length.
#[derive(Clone, Copy, Debug)]
struct Head {
    session: mrt::Session,
    /// With two-octet and with four-octet AS numbers.
    bytes: [[u8; HEAD_MAX]; 2],
    length: [usize; 2],
}

impl Head {
    fn new(session: mrt::Session, kind: u16) -> Self {
        let mut head = Self { session, bytes: [[0; HEAD_MAX]; 2], length: [0; 2] };
        for four_octet_as in [false, true] {
            let mut bytes = Vec::with_capacity(HEAD_MAX);
            let _record = mrt::write::open(&mut bytes, Time::ZERO, kind, 0);
            mrt::write::session(&mut bytes, &session, four_octet_as);
            let which = usize::from(four_octet_as);
            head.bytes[which][..bytes.len()].copy_from_slice(&bytes);
            head.length[which] = bytes.len();
        }
        head
    }
}

impl Recorder {
    pub fn new(settings: Settings) -> Self {
        let (bytes, heads) = (Vec::new(), Vec::new());
        Self { settings, bytes, heads, records: 0, last: Time::ZERO }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Buffer of complete records; the caller removes those that it has written.
    pub const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub const fn records(&self) -> u64 {
        self.records
    }

    pub const fn last(&self) -> Time {
        self.last
    }

    const fn kind(&self) -> u16 {
        mrt::write::bgp4mp(self.settings.microseconds)
    }

    /// Creates the head of `peering`, or updates it. Addresses of a peering never change.
    #[inline]
    fn prepare(&mut self, peering: &Peering) {
        let systems = (peering.peer_as, peering.local_as);
        let head = self.heads.get(peering.id.index()).and_then(Option::as_deref);
        if head.is_none_or(|head| (head.session.peer_as, head.session.local_as) != systems) {
            self.make(peering);
        }
    }

    #[cold]
    fn make(&mut self, peering: &Peering) {
        let (index, kind) = (peering.id.index(), self.kind());
        if index >= self.heads.len() {
            self.heads.resize_with(index + 1, || None);
        }
        self.heads[index] = Some(Box::new(Head::new(session(peering), kind)));
    }

    #[inline]
    fn message(&mut self, peering: &Peering, time: Time, from: Sender, message: Message<'_>) {
        let negotiated = match from {
            Sender::Peer => peering.from_peer,
            Sender::Local if self.settings.local_messages => peering.from_local,
            Sender::Local => return,
        };
        let form = Form {
            four_octet_as: negotiated.four_octet_as,
            local: from == Sender::Local,
            add_path: !negotiated.add_path.is_empty() && has_path_ids(message, negotiated),
        };
        self.prepare(peering);
        let Some(head) = &self.heads[peering.id.index()] else { return };
        let which = usize::from(form.four_octet_as);
        let (length, start) = (head.length[which], self.bytes.len());
        self.bytes.reserve(HEAD_MAX + message.bytes().len());
        self.bytes.extend_from_slice(&head.bytes[which]);
        let nanos = time.as_nanos();
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let body = length - mrt::HEADER + message.bytes().len();
        let bytes = &mut self.bytes[start..start + HEAD_MAX];
        bytes[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
        bytes[6..8].copy_from_slice(&form.subtype().to_be_bytes());
        bytes[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        if self.settings.microseconds {
            bytes[12..16].copy_from_slice(&(nanos as u32 / 1000).to_be_bytes());
        }
        self.bytes.truncate(start + length);
        self.bytes.extend_from_slice(message.bytes());
        self.records += 1;
        self.last = time;
    }

    fn state(&mut self, peering: &Peering, time: Time, old: State, new: State) {
        let change = mrt::StateChange {
            session: session(peering),
            four_octet_as: true,
            old: old as u16,
            new: new as u16,
        };
        let kind = self.kind();
        mrt::write::state_change(&mut self.bytes, time, kind, &change);
        self.records += 1;
        self.last = time;
    }
}

impl Sink for Recorder {
    #[inline]
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match *event {
            Event::Message { time, from, message } => self.message(peering, time, from, message),
            Event::State { time, old, new, .. } => self.state(peering, time, old, new),
            Event::Gap(_) | Event::Reading(_) => {}
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        if let Some(head) = self.heads.get_mut(peering.id.index()) {
            *head = None;
        }
    }
}

fn session(peering: &Peering) -> mrt::Session {
    let Peering { peer_as, local_as, peer, local, mirror, .. } = *peering;
    let interface = u16::try_from(mirror.0).unwrap_or(0);
    mrt::Session { interface, ..mrt::Session::new(peer_as, local_as, peer, local) }
}

/// Whether the prefixes of an UPDATE carry path identifiers, by its family.
fn has_path_ids(message: Message<'_>, negotiated: Negotiated) -> bool {
    message.kind() == MessageType::UPDATE
        && family(message.body()).is_some_and(|family| negotiated.add_path.contains(family))
}

/// Family of an UPDATE's prefixes: that of `MP_REACH_NLRI` or `MP_UNREACH_NLRI` (RFC 4760),
/// otherwise IPv4 unicast.
fn family(body: &[u8]) -> Option<Family> {
    const MP_REACH_NLRI: u8 = 14;
    const MP_UNREACH_NLRI: u8 = 15;
    let word = |at: usize| {
        body.get(at..at + 2).map(|word| usize::from(u16::from_be_bytes([word[0], word[1]])))
    };
    let withdrawn = word(0)?;
    let mut at = 4 + withdrawn;
    let end = at + word(2 + withdrawn)?;
    while at < end {
        let extended = body.get(at)? & 0x10 != 0;
        let (length, value) = if extended {
            (word(at + 2)?, at + 4)
        } else {
            (usize::from(*body.get(at + 2)?), at + 3)
        };
        if matches!(body.get(at + 1)?, &(MP_REACH_NLRI | MP_UNREACH_NLRI)) {
            let afi = Afi(word(value)? as u16);
            return Some(Family { afi, safi: Safi(*body.get(value + 2)?) });
        }
        at = value + length;
    }
    Some(Family::IPV4_UNICAST)
}
