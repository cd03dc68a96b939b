//! Which files an archive has.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::Time;
use bgp::mrt::kind;

use super::moment;
use crate::archive::{FULL, GAPS, Kind, MANIFEST, OPEN, PACKED, PARTIAL};
use crate::input::{Format, Input, Piece, records};
use crate::{Error, Result};

/// Suffixes of compressed files.
const PACKINGS: [&str; 5] = [".gz", ".bz2", ".zst", ".lz4", ".xz"];

/// Folders within folders that are looked through.
const DEPTH: usize = 8;

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Under its name.
    Finished,
    /// Whole records under a hidden name: being written, or left by a collector that was killed.
    Open,
    /// Under a hidden name, and of no use: half a table, a half-compressed file.
    Partial,
}

/// A file of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Where.
    pub(crate) path: PathBuf,
    /// Its name within the archive's folder.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) kind: Kind,
    /// The beginning of its interval, or its instant, as its name says.
    pub(crate) start: Option<Time>,
    /// The time of its first record where the name says none, for the order.
    first: Option<Time>,
    /// How far it is.
    pub(crate) state: State,
}

impl Found {
    fn order(&self) -> (Option<Time>, &str) {
        (self.start.or(self.first), &self.name)
    }
}

/// The files of one collector.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// The folder that the names are relative to.
    pub(crate) folder: PathBuf,
    /// In the order of time.
    pub(crate) files: Vec<Found>,
    /// Lists of ours lie beside the files, and all files are asked for.
    pub(crate) listed: bool,
}

impl Shelf {
    /// Files of a kind with whole records, in the order of time.
    pub(super) fn readable(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Found> {
        let files = self.files.iter();
        files.filter(move |file| file.kind == kind && file.state != State::Partial)
    }

    /// The collector's name, as far as the folder tells it.
    pub(super) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// The archives at `paths`, by folder.
pub(crate) fn shelves(paths: &[PathBuf]) -> Result<Vec<Shelf>> {
    let mut shelves = Vec::new();
    for path in paths {
        let data = fs::metadata(path).map_err(|e| Error::file("read", path, e))?;
        if data.is_dir() {
            let before = shelves.len();
            look(path, None, DEPTH, &mut shelves)?;
            if shelves.len() == before {
                shelf(&mut shelves, path);
            }
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(found) = sniff(path, &name)? else {
            let cause = "this is no archive file".to_owned();
            return Err(Error::Content { path: path.clone(), cause });
        };
        let root = undated(path.parent().unwrap_or(Path::new("")));
        let shelf = shelf(&mut shelves, root);
        if shelf.files.iter().all(|known| known.path != found.path) {
            shelf.files.push(found);
        }
    }
    for shelf in &mut shelves {
        shelf.files.sort_by(|one, other| one.order().cmp(&other.order()));
        // Between its finishing and the removal of its plain form a file is there twice.
        let finished: HashSet<String> = shelf
            .files
            .iter()
            .filter(|file| file.state == State::Finished)
            .map(|file| plain(&file.name).to_owned())
            .collect();
        shelf.files.retain(|file| file.state != State::Open || !finished.contains(&file.name));
    }
    Ok(shelves)
}

fn is_listed(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file() || folder.join(GAPS).is_file()
}

fn shelf<'a>(shelves: &'a mut Vec<Shelf>, folder: &Path) -> &'a mut Shelf {
    let at = shelves.iter().position(|shelf| shelf.folder == folder).unwrap_or_else(|| {
        shelves.push(Shelf { folder: folder.to_owned(), files: Vec::new(), listed: false });
        shelves.len() - 1
    });
    &mut shelves[at]
}

/// A folder without the parts that the layouts of RIS and `RouteViews` add to it.
fn undated(folder: &Path) -> &Path {
    let is_month = |name: &str| {
        let name = name.as_bytes();
        name.len() == 7
            && name[4] == b'.'
            && name.iter().enumerate().all(|(at, byte)| at == 4 || byte.is_ascii_digit())
    };
    let mut root = folder;
    while let (Some(name), Some(parent)) =
        (root.file_name().and_then(|name| name.to_str()), root.parent())
    {
        if !(is_month(name) || matches!(name, "UPDATES" | "RIBS" | "bgpdata")) {
            break;
        }
        root = parent;
    }
    root
}

fn look(folder: &Path, root: Option<&Path>, depth: usize, shelves: &mut Vec<Shelf>) -> Result<()> {
    let refused = |e: io::Error| Error::file("read", folder, e);
    let own = is_listed(folder);
    let root = if own { Some(folder) } else { root };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let data = fs::metadata(entry.path());
        // What has gone meanwhile was no finished file.
        entries.extend(data.ok().map(|data| (name, data)));
    }
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (name, data) in entries {
        let path = folder.join(&name);
        if data.is_dir() && depth > 0 && !name.starts_with('.') {
            look(&path, root, depth - 1, shelves)?;
        }
        if !data.is_file() {
            continue;
        }
        let root = root.unwrap_or_else(|| undated(folder));
        if let Some(mut found) = sniff(&path, &name)? {
            let parent = folder.strip_prefix(root).unwrap_or(folder);
            let shown = parent.join(&found.name);
            found.name = shown.to_string_lossy().into_owned();
            shelf(shelves, root).files.push(found);
        }
    }
    if own {
        shelf(shelves, folder).listed = true;
    }
    Ok(())
}

/// A name without the suffix of its compression.
pub(super) fn plain(name: &str) -> &str {
    PACKINGS.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// What a file is, by its name or else by its first record; `None` if it belongs to no archive.
/// Names stand without what hides them.
fn sniff(path: &Path, name: &str) -> Result<Option<Found>> {
    let mut found = Found {
        path: path.to_owned(),
        name: name.to_owned(),
        kind: Kind::Updates,
        start: None,
        first: None,
        state: State::Finished,
    };
    if let Some(hidden) = name.strip_prefix('.') {
        let Some((own, state)) = hidden.rsplit_once('.') else { return Ok(None) };
        found.state = match state {
            OPEN | FULL => State::Open,
            PARTIAL | PACKED => State::Partial,
            _ => return Ok(None),
        };
        own.clone_into(&mut found.name);
        (found.kind, found.start) = dated(own).unwrap_or((Kind::Updates, None));
        if matches!(state, FULL | PARTIAL) {
            found.kind = Kind::Routes;
        }
        return Ok(Some(found));
    }
    if let Some((kind, start)) = dated(plain(name)) {
        (found.kind, found.start) = (kind, start);
        if start.is_some() {
            return Ok(Some(found));
        }
    }
    // A compressed file of which nothing can be unpacked is somebody else's, unless it is named.
    let Ok(mut input) = Input::open(path, false) else { return Ok(None) };
    if !input.format().is_ok_and(|format| format == Format::Mrt) {
        return Ok(None);
    }
    records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
        let Piece::Record(record) = piece else { return ControlFlow::Continue(()) };
        found.first = Some(record.time);
        if matches!(record.kind, kind::TABLE_DUMP | kind::TABLE_DUMP_V2) {
            found.kind = Kind::Routes;
        }
        ControlFlow::Break(())
    })?;
    Ok(Some(found))
}

/// What a name without suffix says: kind, and time if it has one.
fn dated(name: &str) -> Option<(Kind, Option<Time>)> {
    let kinds = [("updates", Kind::Updates), ("bview", Kind::Routes), ("rib", Kind::Routes)];
    kinds.into_iter().find_map(|(word, kind)| {
        let at = name.rfind(word)?;
        let begins = at == 0 || matches!(name.as_bytes()[at - 1], b'.' | b'_' | b'-');
        let rest = name[at + word.len()..].strip_prefix('.').filter(|_| begins)?;
        Some((kind, time(rest)))
    })
}

/// `YYYYMMDD.HHMM` or with seconds, as RIS and `RouteViews` have it; seconds since 1970 as
/// `BGPStream`'s caches do. Further parts of an interval are numbered: `-2`.
fn time(text: &str) -> Option<Time> {
    let text = text.split('-').next()?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() == 10 && digits(text) {
        return Some(Time::from_nanos(text.parse::<u64>().ok()? * 1_000_000_000));
    }
    let (date, clock) = text.split_once('.')?;
    if date.len() != 8 || !digits(date) || !matches!(clock.len(), 4 | 6) || !digits(clock) {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let date = [number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?];
    let second = if clock.len() == 6 { number(&clock[4..])? } else { 0 };
    let clock = [number(&clock[..2])?, number(&clock[2..4])?, second];
    Some(Time::from_nanos(moment::seconds(date, clock)? * 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_public_collectors_are_known() {
        let of = |name: &str| {
            let (kind, start) = dated(plain(name))?;
            Some((kind, start.map(|start| start.as_nanos() / 1_000_000_000)))
        };
        let minute = Some(1_709_251_140);
        assert_eq!(of("updates.20240229.2359.gz"), Some((Kind::Updates, minute)));
        assert_eq!(of("bview.20240229.2359.gz"), Some((Kind::Routes, minute)));
        assert_eq!(of("rib.20240229.2359.bz2"), Some((Kind::Routes, minute)));
        assert_eq!(of("updates.20240229.235900-2.zst"), Some((Kind::Updates, minute)));
        let cached = "routeviews.route-views.jinx.updates.1427846400.bz2";
        assert_eq!(of(cached), Some((Kind::Updates, Some(1_427_846_400))));
        assert_eq!(of("updates.mrt"), Some((Kind::Updates, None)));
        assert_eq!((of("attribute.20240229.2359"), of("notes.txt")), (None, None));
    }

    #[test]
    fn months_are_no_part_of_a_collectors_folder() {
        let of = |path: &str| undated(Path::new(path)).display().to_string();
        assert_eq!(of("a/rrc00/2024.02"), "a/rrc00");
        assert_eq!(of("a/jinx/bgpdata/2024.02/RIBS"), "a/jinx");
        assert_eq!(of("a/2024-02"), "a/2024-02");
        assert_eq!(of(""), "");
    }
}
