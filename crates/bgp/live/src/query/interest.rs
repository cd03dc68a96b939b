//! Selects the records that a query of routes needs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use bgp::mrt::{Body, Record, Rib, RibEntry, TableDump, write};
use bgp::nlri::{Nlri, Route};
use bgp::update::{Update, Visitor, walk};
use bgp::{Family, MessageType, Negotiated, Prefix, Safi};
use collector::rib::Scope;

#[derive(Debug)]
pub(super) struct Interest {
    pub(super) scopes: Vec<Scope>,
    pub(super) peer: Option<IpAddr>,
    /// Families with routes that a query for prefixes omits.
    omitted: RefCell<BTreeSet<Family>>,
}

struct Search<'a> {
    interest: &'a Interest,
    found: bool,
}

impl Visitor for Search<'_> {
    fn withdrawn(&mut self, _: Family, nlri: Nlri) {
        self.found = self.found || self.interest.is_about(nlri.prefix);
    }

    fn withdrawn_route(&mut self, _: Family, _: Route<'_>) {
        self.found = self.found || self.interest.is_all();
    }

    fn announced(&mut self, _: Family, nlri: Nlri) {
        self.found = self.found || self.interest.is_about(nlri.prefix);
    }

    fn announced_route(&mut self, family: Family, _: Route<'_>) {
        if self.interest.is_all() {
            self.found = true;
        } else {
            self.interest.omitted.borrow_mut().insert(family);
        }
    }
}

impl Interest {
    pub(super) fn new(scopes: Vec<Scope>, peer: Option<IpAddr>) -> Self {
        Self { scopes, peer, omitted: RefCell::default() }
    }

    fn is_all(&self) -> bool {
        self.scopes.contains(&Scope::All)
    }

    /// A note on the families with routes that were omitted since the last call.
    pub(super) fn take_omitted(&self) -> Option<String> {
        let omitted = self.omitted.take();
        let names: Vec<String> = omitted.iter().map(ToString::to_string).collect();
        (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("the archive also has routes of {names}; `show rib all` shows them")
        })
    }

    pub(super) fn is_about(&self, prefix: Prefix) -> bool {
        let prefix = prefix.masked();
        self.scopes.iter().any(|scope| match *scope {
            Scope::All => true,
            Scope::Exact(wanted) => prefix == wanted.masked(),
            Scope::MoreSpecific(wanted) => wanted.masked().covers(prefix),
            Scope::Longest(wanted) | Scope::LessSpecific(wanted) => prefix.covers(wanted.masked()),
        })
    }

    fn is_of(&self, peer: IpAddr) -> bool {
        self.peer.is_none_or(|wanted| wanted == peer)
    }

    pub(super) fn wants(&self, record: &Record<'_>) -> bool {
        match record.parse() {
            Ok(Body::Message(message)) => {
                if !self.is_of(message.session.peer) {
                    return false;
                }
                message.message().is_some_and(|whole| {
                    whole.kind() != MessageType::UPDATE
                        || self.wants_update(whole.body(), message.form.negotiated())
                })
            }
            // A change of state may have no peer: the reader identifies its session.
            Ok(Body::StateChange(_) | Body::Old(_)) => true,
            Ok(Body::Entry(entry)) => self.is_of(entry.session.peer),
            _ => false,
        }
    }

    fn wants_update(&self, body: &[u8], negotiated: Negotiated) -> bool {
        let mut search = Search { interest: self, found: false };
        walk(body, &negotiated, &mut search);
        search.found || Update::parse(body).is_ok_and(|update| update.end_of_rib().is_some())
    }

    /// Calls `each` with the required parts of a table record: the list of peers, and single
    /// routes, each with the time of its last change.
    pub(super) fn routes(&self, record: &Record<'_>, each: &mut impl FnMut(&Record<'_>)) {
        match record.parse() {
            Ok(Body::PeerIndexTable(_)) => each(record),
            Ok(Body::TableDump(dump)) => {
                let TableDump { prefix, peer, originated, .. } = dump;
                if self.is_about(prefix) && self.is_of(peer) {
                    each(&Record { time: changed(record, originated), ..*record });
                }
            }
            Ok(Body::Rib(rib)) => self.rib(record, &rib, each),
            _ => {}
        }
    }

    fn rib(&self, record: &Record<'_>, rib: &Rib<'_>, each: &mut impl FnMut(&Record<'_>)) {
        let Family { afi, safi } = rib.family;
        let has_prefixes = matches!(safi, Safi::UNICAST | Safi::MULTICAST);
        if !has_prefixes && !self.is_all() {
            self.omitted.borrow_mut().insert(rib.family);
            return;
        }
        let prefix = bgp::nlri::Prefixes::new(rib.nlri, afi, false).next();
        if has_prefixes
            && !prefix.is_some_and(|nlri| nlri.is_ok_and(|nlri| self.is_about(nlri.prefix)))
        {
            return;
        }
        let mut bytes = Vec::new();
        for entry in rib.entries().map_while(Result::ok) {
            bytes.clear();
            let time = changed(record, entry.originated);
            let add_path = entry.path_id.is_some();
            let mut one =
                write::Rib::open(&mut bytes, time, rib.sequence, rib.family, add_path, rib.nlri);
            let whole = one.entry(&mut bytes, &RibEntry { ..entry }).is_ok();
            one.close(&mut bytes);
            if let Some(single) = Record::of(&bytes).filter(|_| whole) {
                each(&single);
            }
        }
    }
}

/// Time of a route's last change: at most that of its table, for writers with zero or future times.
fn changed(record: &Record<'_>, originated: u32) -> base::Time {
    let originated = base::Time::from_nanos(u64::from(originated) * 1_000_000_000);
    if originated == base::Time::ZERO { record.time } else { originated.min(record.time) }
}
