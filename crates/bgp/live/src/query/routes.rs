//! Routes at an instant: the latest table before it, and the updates since.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::net::IpAddr;

use base::Time;
use bgp::attribute::{Attribute, Attributes, flags};
use bgp::mrt::Record;
use bgp::{ParsePrefixError, Prefix};
use collector::input::mrt;
use collector::rib::{Change, Destination, PathPattern, Query, Rib, Route, Scope, Tag, path_text};
use collector::{MirrorId, PeeringId, Sink};

use super::Archives;
use super::census::{each, first};
use super::files::{ArchiveFolder, Found, plain};
use super::interest::Interest;
use super::moment::moment_text;
use crate::archive::{Kind, Loss, TABLES, TableMirrors, read_ledger};
use crate::job::{control, mirrors};
use crate::{Error, Result};
pub(super) use show::next_hop_text;

#[derive(Clone, Debug)]
pub struct Question {
    prefix: Prefix,
    is_address: bool,
    /// All routes of all families.
    is_all: bool,
    pub more: bool,
    pub less: bool,
    /// The instant; the end of the archive if absent.
    pub at: Option<Time>,
    pub diff: Option<Time>,
    pub peer: Option<IpAddr>,
    path: Option<PathPattern>,
    community: Option<Tag>,
}

impl Question {
    /// A question about a prefix, about the longest match of an address, or about `all` routes.
    pub fn new(text: &str) -> Result<Self> {
        let is_all = text == "all";
        let prefix = if is_all { Prefix::V4(0, 0) } else { parse_prefix(text)? };
        Ok(Self {
            prefix,
            is_address: !is_all && !text.contains('/'),
            is_all,
            more: false,
            less: false,
            at: None,
            diff: None,
            peer: None,
            path: None,
            community: None,
        })
    }

    /// Only routes whose AS path matches.
    pub fn path(&mut self, pattern: &str) -> Result<()> {
        let wrong = |e: &dyn std::fmt::Display| Error::Question(format!("the path's pattern: {e}"));
        self.path = Some(PathPattern::new(pattern).map_err(|e| wrong(&e))?);
        Ok(())
    }

    /// Only routes with a community: `64500:1`, or a large one, `64500:1:2`.
    pub fn community(&mut self, text: &str) -> Result<()> {
        let wrong = || {
            Error::Question(format!(
                "invalid community `{text}`; expected 64500:1, or 64500:1:2 for a large community"
            ))
        };
        let parts: Option<Vec<u32>> = text.split(':').map(|part| part.parse().ok()).collect();
        self.community = Some(match parts.as_deref() {
            Some(&[high, low]) if high <= 0xffff && low <= 0xffff => {
                Tag::Plain(bgp::attribute::Community(high << 16 | low))
            }
            Some(&[global, one, two]) => {
                Tag::Large(bgp::attribute::LargeCommunity { global, local: [one, two] })
            }
            _ => return Err(wrong()),
        });
        Ok(())
    }

    #[cfg(test)]
    pub(super) const fn prefix(&self) -> Prefix {
        self.prefix
    }

    fn scopes(&self) -> Vec<Scope> {
        if self.is_all {
            return vec![Scope::All];
        }
        let prefix = self.prefix;
        let mut scopes =
            vec![if self.is_address { Scope::Longest(prefix) } else { Scope::Exact(prefix) }];
        scopes.extend(self.more.then_some(Scope::MoreSpecific(prefix)));
        scopes.extend(self.less.then_some(Scope::LessSpecific(prefix)));
        scopes
    }

    fn ask(&self, rib: &Rib, filtered: bool) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for (at, scope) in self.scopes().into_iter().enumerate() {
            let before = routes.len();
            let query = Query {
                scope,
                path: self.path.clone().filter(|_| filtered),
                community: self.community.filter(|_| filtered),
                ..Query::default()
            };
            for route in rib.query(&query) {
                let same = |known: &Route| {
                    (known.peering.id, known.family, &known.destination, known.path_id)
                        == (route.peering.id, route.family, &route.destination, route.path_id)
                };
                if self.is_of(&route) && (at == 0 || !routes[..before].iter().any(same)) {
                    routes.push(route);
                }
            }
        }
        routes.sort_by(|one, other| {
            (one.family, &one.destination).cmp(&(other.family, &other.destination))
        });
        routes
    }

    fn is_of(&self, route: &Route) -> bool {
        self.peer.is_none_or(|peer| peer == route.peering.peer)
    }

    /// Whether a route has the requested path and community.
    fn fits(&self, route: &Route) -> bool {
        let path = self.path.as_ref();
        self.is_of(route)
            && path.is_none_or(|pattern| pattern.matches(&path_text(route.path())))
            && self.community.is_none_or(|tag| match tag {
                Tag::Plain(wanted) => route.communities().any(|one| one == wanted),
                Tag::Large(wanted) => route.attributes().any(|attribute| {
                    matches!(attribute, Attribute::LargeCommunities(all)
                        if all.iter().any(|one| one == wanted))
                }),
            })
    }
}

pub(super) fn parse_prefix(text: &str) -> Result<Prefix> {
    text.parse().map_err(|e| {
        Error::Question(match e {
            ParsePrefixError::HostBits(right) => {
                format!("`{text}` has bits set after the prefix length; did you mean {right}?")
            }
            _ => format!(
                "invalid prefix `{text}`; expected an address or a prefix, for example \
                 192.0.2.0/24"
            ),
        })
    })
}

#[derive(Debug)]
struct RouteSource {
    folder: String,
    table: Option<Time>,
    last: Option<Time>,
    notes: Vec<String>,
    mirrors: BTreeMap<u32, String>,
}

#[derive(Debug)]
pub struct Routes {
    at: Option<Time>,
    diff: Option<Time>,
    sources: Vec<RouteSource>,
    found: Vec<Route>,
    changes: Vec<Change>,
}

impl Routes {
    pub fn found(&self) -> &[Route] {
        &self.found
    }
}

pub fn routes(archives: &Archives, question: &Question) -> Result<Routes> {
    let mut answer = Routes {
        at: question.at,
        diff: question.diff,
        sources: Vec::new(),
        found: Vec::new(),
        changes: Vec::new(),
    };
    let before = rebuild(archives, question, question.at, &mut answer.sources)?;
    let Some(until) = question.diff else {
        answer.found = question.ask(&before, true);
        return Ok(answer);
    };
    let mut sources = Vec::new();
    let after = rebuild(archives, question, Some(until), &mut sources)?;
    for source in sources {
        let notes = source.notes.into_iter();
        let known = answer.sources.iter_mut().find(|known| known.folder == source.folder);
        if let Some(known) = known {
            known.last = source.last;
            let new: Vec<String> = notes.filter(|note| !known.notes.contains(note)).collect();
            known.notes.extend(new);
        }
    }
    // The longest match may differ between the instants: the answers of both count.
    let both = [&before, &after].map(|rib| question.ask(rib, false));
    let asked: BTreeSet<Destination> =
        both.into_iter().flatten().map(|route| route.destination).collect();
    before.diff(&after, &mut |change| {
        let is_asked = |route: &Route| asked.contains(&route.destination) && question.fits(route);
        let wanted = match &change {
            Change::Added(route) | Change::Removed(route) => is_asked(route),
            Change::Changed(old, new) => {
                (is_asked(old) || is_asked(new)) && sorted(old) != sorted(new)
            }
        };
        if wanted {
            answer.changes.push(change);
        }
    });
    Ok(answer)
}

/// Attributes of a route in the order of their codes, because tables may reorder them.
pub(super) fn sorted(route: &Route) -> Vec<(u8, u8, &[u8])> {
    let all = Attributes::new(&route.attributes, 0).map_while(std::result::Result::ok);
    let mut sorted: Vec<_> =
        all.map(|raw| (raw.code, raw.flags & !flags::EXTENDED_LENGTH, raw.value)).collect();
    sorted.sort_unstable();
    sorted
}

/// The routes of all archives at an instant, within the scope of the question.
fn rebuild(
    archives: &Archives,
    question: &Question,
    at: Option<Time>,
    sources: &mut Vec<RouteSource>,
) -> Result<Rib> {
    let interest = Interest::new(question.scopes(), question.peer);
    let at = at.unwrap_or(Time::MAX);
    let mut rib = Rib::new();
    let mut first = 0;
    for (number, shelf) in archives.shelves.iter().enumerate() {
        let mut source = Source {
            interest: &interest,
            at,
            control: unlisted_messages(shelf, at)?,
            reader: mrt::Input::new(MirrorId::of_archive(number as u16), PeeringId(first)),
            found: RouteSource {
                folder: shelf.folder.display().to_string(),
                table: None,
                last: None,
                notes: Vec::new(),
                mirrors: names(shelf)?,
            },
        };
        source.read(shelf, &mut rib)?;
        source.found.notes.extend(interest.take_omitted());
        first += source.reader.peerings().len() as u32;
        sources.push(source.found);
    }
    if at != Time::MAX {
        rib.advance(at);
    }
    Ok(rib)
}

fn names(shelf: &ArchiveFolder) -> Result<BTreeMap<u32, String>> {
    if shelf.listed { mirrors::read(&shelf.folder) } else { Ok(BTreeMap::new()) }
}

/// OPENs and NOTIFICATIONs until an instant that the files of updates lack.
pub(super) fn unlisted_messages(shelf: &ArchiveFolder, at: Time) -> Result<ControlRecords> {
    let mut records = if shelf.listed { control::read(&shelf.folder)? } else { Vec::new() };
    records.retain(|(time, _)| *time <= at);
    Ok(records.into_iter().peekable())
}

pub(super) type ControlRecords = Peekable<std::vec::IntoIter<(Time, Vec<u8>)>>;

const MAX_NOTES: usize = 20;

struct Source<'a> {
    interest: &'a Interest,
    at: Time,
    /// Records of [`control::CONTROL`] that are not read yet.
    control: ControlRecords,
    reader: mrt::Input,
    found: RouteSource,
}

/// Reads the records until `time`.
pub(super) fn read_control(
    records: &mut ControlRecords,
    time: Time,
    reader: &mut mrt::Input,
    sink: &mut impl Sink,
) {
    while let Some((_, record)) = records.next_if(|(of, _)| *of <= time) {
        if let Some(record) = Record::of(&record) {
            reader.record(&record, sink);
        }
    }
}

impl Source<'_> {
    fn read(&mut self, shelf: &ArchiveFolder, rib: &mut Rib) -> Result<()> {
        let at = self.at;
        let is_before = |file: &&Found| file.start.is_none_or(|start| start <= at);
        for file in shelf.readable(Kind::Routes).rev().filter(is_before) {
            // The records of a table state its instant, at or soon after that of its name.
            let time = first(file)?.into_iter().chain(file.start).max();
            if let Some(time) = time.filter(|time| *time <= at) {
                read_control(&mut self.control, time, &mut self.reader, rib);
                self.set_mirrors(shelf, file)?;
                self.table(file, time, rib)?;
                break;
            }
        }
        let files: Vec<&Found> = shelf.readable(Kind::Updates).collect();
        let since = self.found.table;
        for (number, file) in files.iter().enumerate() {
            let next = files.get(number + 1).and_then(|next| next.start);
            let is_old = since.zip(next).is_some_and(|(since, next)| next <= since);
            if is_old || !is_before(file) {
                continue;
            }
            self.updates(file, rib)?;
        }
        read_control(&mut self.control, at, &mut self.reader, rib);
        self.notes(shelf, &files)
    }

    /// Sets the mirrors of a table's peers, which the table does not state.
    fn set_mirrors(&mut self, shelf: &ArchiveFolder, file: &Found) -> Result<()> {
        if shelf.listed {
            let lines = read_ledger::<TableMirrors>(&shelf.folder.join(TABLES))?;
            let line = lines.into_iter().rfind(|line| line.table == plain(&file.name));
            let mirrors = line.map_or_else(Vec::new, |line| line.mirrors);
            let interfaces = mirrors.into_iter().map(|number| MirrorId(number).interface());
            self.reader.set_table_interfaces(interfaces.collect());
        }
        Ok(())
    }

    fn table(&mut self, file: &Found, time: Time, rib: &mut Rib) -> Result<()> {
        let Self { interest, reader, found, .. } = self;
        found.table = Some(time);
        each(file, &mut found.notes, &mut |record| {
            interest.routes(record, &mut |part| reader.record(part, rib));
        })
    }

    fn updates(&mut self, file: &Found, rib: &mut Rib) -> Result<()> {
        let Self { interest, reader, found, at, control } = self;
        let since = found.table.unwrap_or(Time::ZERO);
        let last = &mut found.last;
        each(file, &mut found.notes, &mut |record| {
            if record.time >= since && record.time <= *at {
                *last = (*last).max(Some(record.time));
                read_control(control, record.time, reader, rib);
                if interest.wants(record) {
                    reader.record(record, rib);
                }
            }
        })
    }

    fn notes(&mut self, shelf: &ArchiveFolder, files: &[&Found]) -> Result<()> {
        let found = &mut self.found;
        if found.table.is_none() {
            let begin = files.first().and_then(|file| file.start);
            let begin = begin.map_or_else(String::new, |time| format!(" ({})", moment_text(time)));
            found.notes.push(format!(
                "the archive has no table of routes before that time: routes that were announced \
                 before its first file{begin} are missing"
            ));
        }
        let ambiguous = self.reader.counts().ambiguous;
        if ambiguous > 0 {
            found.notes.push(format!(
                "{ambiguous} peers of the table have the address, AS and BGP identifier of another \
                 and no list states their mirrors: their routes may be those of the other"
            ));
        }
        let end = found.last.or(found.table);
        if self.at != Time::MAX && end.is_none_or(|end| end < self.at) {
            let at = moment_text(self.at);
            found.notes.push(match end {
                None => format!("the archive has no records before {at}"),
                Some(end) => format!(
                    "the last record before {at} is from {}: later changes are unknown",
                    moment_text(end)
                ),
            });
        }
        let from = found.table.unwrap_or(Time::ZERO).as_nanos() / 1000;
        let to = self.at.as_nanos() / 1000;
        for loss in super::gaps::losses(shelf)? {
            let (since, until) = super::gaps::times(&loss);
            let overlaps = since.is_some_and(|since| since <= to)
                && until.or(since).is_some_and(|until| until >= from);
            let of_all = !matches!(loss, Loss::Stream { .. } | Loss::UnfinishedRoutes { .. });
            if overlaps && (of_all || self.interest.loses(&loss)) {
                found
                    .notes
                    .push(format!("routes may be out of date: {}", super::gaps::words(&loss)));
            }
        }
        if found.notes.len() > MAX_NOTES {
            let rest = found.notes.len() - MAX_NOTES;
            found.notes.truncate(MAX_NOTES);
            found.notes.push(format!("and {rest} more; `show gaps` lists all"));
        }
        Ok(())
    }
}

impl Interest {
    fn loses(&self, loss: &Loss) -> bool {
        matches!(loss, Loss::Stream { peer, from, .. }
            if from == "peer" && self.peer.is_none_or(|wanted| wanted == *peer))
    }
}
