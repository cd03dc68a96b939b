//! Announcements, withdrawals and changes of sessions in archives and captures, in their order.

mod show;

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use base::Time;
use bgp::attribute::{Attribute, Communities, LargeCommunities, LogicalPath, NextHop};
use bgp::nlri::{Destination, Routes};
use bgp::route_refresh::RouteRefresh;
use bgp::{Asn, Family, MessageType, Prefix};
use collector::input::mrt;
use collector::{Event, GapCause, MirrorId, Peering, PeeringId, Reason, Sender, Sink, State};

use super::census::each_until;
use super::files::Found;
use super::routes::{parse_prefix, read_control, unlisted_messages};
use super::{ArchiveFolder, Archives};
use crate::Result;
use crate::archive::Kind;
use crate::input::{Captures, Format, Input, Item, Progress};
use crate::pipeline::{Pipeline, Settings};

pub use show::UpdateText;

/// Packets that determine whether checksums are meaningful.
const LEARN: usize = 256;
/// Maximum number of notes on damaged input.
const MAX_NOTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    Announce,
    Withdraw,
    /// Changes of state, End-of-RIB and route refreshes.
    State,
}

/// Selects updates: all conditions must match.
#[derive(Clone, Debug)]
pub struct UpdateFilter {
    prefix: Option<(Prefix, bool)>,
    pub peer: Option<IpAddr>,
    /// An AS of the path; of the peer for withdrawals and states.
    pub asn: Option<Asn>,
    pub since: Time,
    pub until: Time,
    /// Kinds; all if empty.
    pub kinds: Vec<UpdateKind>,
}

impl Default for UpdateFilter {
    fn default() -> Self {
        let (since, until) = (Time::ZERO, Time::MAX);
        Self { prefix: None, peer: None, asn: None, since, until, kinds: Vec::new() }
    }
}

impl UpdateFilter {
    /// Only routes to a prefix and to more specific ones, or to prefixes that contain an address.
    pub fn prefix(&mut self, text: &str) -> Result<()> {
        self.prefix = Some((parse_prefix(text)?, !text.contains('/')));
        Ok(())
    }

    fn wants(&self, kind: UpdateKind) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (kind != UpdateKind::State || self.prefix.is_none())
    }

    fn is_about(&self, prefix: Option<Prefix>) -> bool {
        let Some((wanted, is_address)) = self.prefix else { return true };
        prefix.is_some_and(|prefix| {
            let (prefix, wanted) = (prefix.masked(), wanted.masked());
            if is_address { prefix.covers(wanted) } else { wanted.covers(prefix) }
        })
    }
}

#[derive(Clone, Debug)]
pub struct Update<'a> {
    pub time: Time,
    pub peering: &'a Peering,
    pub change: UpdateChange<'a>,
}

#[derive(Clone, Debug)]
pub enum UpdateChange<'a> {
    Announce(ChangedRoute<'a>, &'a Content<'a>),
    Withdraw(ChangedRoute<'a>),
    State(State, State, Reason),
    EndOfRib(Family),
    /// Begin (true) or end of a route refresh (RFC 7313).
    Refresh(Family, bool),
}

#[derive(Clone, Debug)]
pub struct ChangedRoute<'a> {
    pub family: Family,
    pub path_id: Option<u32>,
    pub destination: Destination<'a>,
    pub next_hop: NextHop<'a>,
}

/// Attributes that all routes of an UPDATE share.
#[derive(Clone, Debug, Default)]
pub struct Content<'a> {
    path: Option<LogicalPath<'a>>,
    communities: Option<Communities<'a>>,
    large: Option<LargeCommunities<'a>>,
}

/// Passes events as updates to `each`, until it returns `Break`.
struct Lister<'a> {
    filter: &'a UpdateFilter,
    each: &'a mut dyn FnMut(&Update<'_>) -> ControlFlow<()>,
    is_over: bool,
    is_guess: bool,
}

impl Lister<'_> {
    fn tell(&mut self, time: Time, peering: &Peering, change: UpdateChange<'_>) {
        self.is_over = self.is_over || (self.each)(&Update { time, peering, change }).is_break();
    }

    fn state(&mut self, time: Time, peering: &Peering, change: UpdateChange<'_>) {
        if self.filter.wants(UpdateKind::State) && self.is_of_peer(peering) {
            self.tell(time, peering, change);
        }
    }

    fn is_of_peer(&self, peering: &Peering) -> bool {
        self.filter.asn.is_none_or(|asn| asn == peering.peer_as)
    }

    fn update(&mut self, time: Time, peering: &Peering, body: &[u8]) {
        let Ok(update) = bgp::update::Update::parse(body) else { return };
        if let Some(family) = update.end_of_rib() {
            return self.state(time, peering, UpdateChange::EndOfRib(family));
        }
        let negotiated = peering.from_peer;
        let (mut content, mut path, mut as4_path) = (Content::default(), None, None);
        let (mut next_hop, mut reach, mut unreach) = (NextHop::None, None, None);
        for raw in update.attributes().map_while(std::result::Result::ok) {
            match Attribute::decode(raw, &negotiated) {
                Ok(Attribute::AsPath(value)) => path = Some(value),
                Ok(Attribute::As4Path(value)) if !negotiated.four_octet_as => {
                    as4_path = Some(value);
                }
                Ok(Attribute::NextHop(value)) => next_hop = NextHop::V4(value),
                Ok(Attribute::Communities(value)) => content.communities = Some(value),
                Ok(Attribute::LargeCommunities(value)) => content.large = Some(value),
                Ok(Attribute::MpReach(value)) => reach = Some(value),
                Ok(Attribute::MpUnreach(value)) => unreach = Some(value),
                _ => {}
            }
        }
        content.path = path.map(|path| LogicalPath::new(path, as4_path));
        let plain = |bytes| (Family::IPV4_UNICAST, bytes, NextHop::None);
        if self.filter.wants(UpdateKind::Withdraw) && self.is_of_peer(peering) {
            let others = unreach.map(|field| (field.family, field.nlri, NextHop::None));
            for field in [plain(update.withdrawn)].into_iter().chain(others) {
                self.routes(time, peering, field, UpdateChange::Withdraw);
            }
        }
        let is_wanted = self.filter.asn.is_none_or(|asn| content.has(asn));
        if self.filter.wants(UpdateKind::Announce) && is_wanted {
            let own = (Family::IPV4_UNICAST, update.announced, next_hop);
            let others = reach.map(|field| (field.family, field.nlri, field.next_hop()));
            for field in [own].into_iter().chain(others) {
                self.routes(time, peering, field, |route| UpdateChange::Announce(route, &content));
            }
        }
    }

    fn routes<'b>(
        &mut self,
        time: Time,
        peering: &Peering,
        (family, bytes, next_hop): (Family, &'b [u8], NextHop<'b>),
        change: impl Fn(ChangedRoute<'b>) -> UpdateChange<'b>,
    ) {
        let add_path = peering.from_peer.add_path.contains(family);
        for route in Routes::new(bytes, family, add_path).map_while(std::result::Result::ok) {
            let destination = Destination::decode(&route, family);
            let destination = destination.unwrap_or(Destination::Opaque(route.bytes));
            let prefix = match &destination {
                Destination::Prefix(prefix) => Some(*prefix),
                Destination::Labelled(labelled) => Some(labelled.prefix),
                Destination::Vpn(vpn) => Some(vpn.prefix),
                _ => None,
            };
            if self.filter.is_about(prefix) {
                let path_id = route.path_id;
                let route = ChangedRoute { family, path_id, destination, next_hop };
                self.tell(time, peering, change(route));
            }
        }
    }
}

impl Content<'_> {
    fn has(&self, asn: Asn) -> bool {
        self.path.is_some_and(|path| {
            path.segments().any(|segment| segment.asns.into_iter().any(|one| one == asn))
        })
    }
}

impl Sink for Lister<'_> {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let filter = self.filter;
        let is_wanted = |time: Time| {
            time >= filter.since
                && time <= filter.until
                && filter.peer.is_none_or(|peer| peer == peering.peer)
        };
        match *event {
            _ if self.is_over => {}
            Event::Message { time, from: Sender::Peer, message } if is_wanted(time) => {
                match message.kind() {
                    MessageType::UPDATE => self.update(time, peering, message.body()),
                    MessageType::ROUTE_REFRESH => {
                        if let Ok(refresh) = RouteRefresh::parse(message.body())
                            && matches!(refresh.subtype, RouteRefresh::BEGIN | RouteRefresh::END)
                        {
                            let is_begin = refresh.subtype == RouteRefresh::BEGIN;
                            let change = UpdateChange::Refresh(refresh.family, is_begin);
                            self.state(time, peering, change);
                        }
                    }
                    _ => {}
                }
            }
            Event::State { time, old, new, reason } if is_wanted(time) => {
                self.state(time, peering, UpdateChange::State(old, new, reason));
            }
            Event::Gap(gap) => self.is_guess |= gap.cause == GapCause::Guessed,
            _ => {}
        }
    }
}

/// Passes the updates of `paths` (archives, their files, captures) to `each`, until it breaks:
/// those of archives first, one after the other. Returns notes on what may be missing.
pub fn updates(
    paths: &[PathBuf],
    filter: &UpdateFilter,
    each: &mut dyn FnMut(&Update<'_>) -> ControlFlow<()>,
) -> Result<Vec<String>> {
    let (mut captures, mut archives) = (Vec::new(), Vec::new());
    for path in paths {
        let format = if path.is_file() { Input::open(path, false)?.format()? } else { Format::Mrt };
        let list = if format == Format::Capture { &mut captures } else { &mut archives };
        list.push(path.clone());
    }
    let mut notes = Vec::new();
    let mut lister = Lister { filter, each, is_over: false, is_guess: false };
    if !archives.is_empty() {
        let mut first = 0;
        for (number, shelf) in Archives::open(&archives)?.shelves.iter().enumerate() {
            let mirror = MirrorId::of_archive(number as u16);
            let mut reader = mrt::Input::new(mirror, PeeringId(first));
            archive(shelf, &mut reader, &mut lister, &mut notes)?;
            first += reader.peerings().len() as u32;
        }
    }
    if !captures.is_empty() && !lister.is_over {
        capture(&captures, &mut lister, &mut notes)?;
    }
    notes.truncate(MAX_NOTES);
    Ok(notes)
}

fn archive(
    shelf: &ArchiveFolder,
    reader: &mut mrt::Input,
    lister: &mut Lister<'_>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let filter = lister.filter;
    let files: Vec<&Found> = shelf.readable(Kind::Updates).collect();
    let mut control = unlisted_messages(shelf, filter.until)?;
    for (number, file) in files.iter().enumerate() {
        let next = files.get(number + 1).and_then(|next| next.start);
        let is_old = next.is_some_and(|next| next <= filter.since);
        let is_new = file.start.is_some_and(|start| start > filter.until);
        if is_old || is_new || lister.is_over {
            continue;
        }
        each_until(file, notes, &mut |record| {
            read_control(&mut control, record.time, reader, lister);
            reader.record(record, lister);
            if lister.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    if files.is_empty() {
        notes.push(format!("{}: there are no files of updates", shelf.folder.display()));
    }
    Ok(())
}

fn capture(paths: &[PathBuf], lister: &mut Lister<'_>, notes: &mut Vec<String>) -> Result<()> {
    let mut captures = Captures::open(paths, false, false)?;
    let mut settings = Settings { learn: LEARN, ..Settings::default() };
    // A file may contain segments that were captured late.
    settings.reassembly.acknowledged_timeout = settings.reassembly.gap_timeout;
    let mut pipeline = Pipeline::new(settings, lister);
    let mut dropped = 0;
    while !pipeline.sink_mut().is_over {
        let step = captures.step(Duration::from_millis(50), &mut |item| match item {
            Item::Frame(frame) => pipeline.frame(&frame),
            Item::Dropped { packets, .. } => dropped += packets,
            Item::Trouble(error) => notes.push(error.to_string()),
        })?;
        if step == Progress::End {
            break;
        }
    }
    pipeline.finish();
    if dropped > 0 {
        notes.push(format!("the capture reports {dropped} lost packets"));
    }
    notes.extend(pipeline.decapsulator().counters().unread());
    let streams = pipeline.reassembler().statistics();
    if streams.missing_bytes + streams.skipped_bytes > 0 {
        notes.push(format!(
            "{} bytes are missing and {} belong to no complete message; `netarium collect --read` \
             and `show gaps` list where",
            streams.missing_bytes, streams.skipped_bytes
        ));
    }
    if pipeline.into_sink().is_guess {
        notes.push(
            "the router's end was guessed; `netarium collect --read FILE --router ADDRESS --out \
             DIR` states it"
                .to_owned(),
        );
    }
    Ok(())
}
