//! Files of an archive.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::Time;
use bgp::mrt::kind;
use jiff::civil::DateTime;

use super::moment;
use crate::archive::{FULL, GAPS, Kind, MANIFEST, OPEN, PACKED, PARTIAL};
use crate::input::{Format, Input, RecordStep, records};
use crate::{Error, Result};

const PACKINGS: [&str; 5] = [".gz", ".bz2", ".zst", ".lz4", ".xz"];

const DEPTH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Finished,
    /// Whole records under a hidden name: being written, or left by a killed collector.
    Open,
    /// A useless hidden file: a partial table or compression.
    Partial,
}

#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Start of the interval, or the instant, by the name.
    pub(crate) start: Option<Time>,
    /// Time of the first record if the name has none, for the order.
    first: Option<Time>,
    pub(crate) state: State,
}

impl Found {
    fn order(&self) -> (Option<Time>, &str) {
        (self.start.or(self.first), &self.name)
    }
}

#[derive(Debug)]
pub(crate) struct ArchiveFolder {
    pub(crate) folder: PathBuf,
    pub(crate) files: Vec<Found>,
    /// The archive has our lists, and all files are queried.
    pub(crate) listed: bool,
}

impl ArchiveFolder {
    pub(super) fn readable(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Found> {
        let files = self.files.iter();
        files.filter(move |file| file.kind == kind && file.state != State::Partial)
    }

    /// Name of the collector, as far as the folder states it.
    pub(super) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Archives, one per collector.
#[derive(Debug)]
pub struct Archives {
    pub(super) shelves: Vec<ArchiveFolder>,
}

impl Archives {
    /// Opens archives in folders, and single files.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let shelves = shelves(paths)?;
        for shelf in &shelves {
            if shelf.files.is_empty() {
                let cause = "there are no archive files here".to_owned();
                return Err(Error::Content { path: shelf.folder.clone(), cause });
            }
        }
        Ok(Self { shelves })
    }
}

/// The archives at `paths`, by folder.
pub(crate) fn shelves(paths: &[PathBuf]) -> Result<Vec<ArchiveFolder>> {
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
            let format = Input::open(path, false).and_then(|mut input| input.format());
            let cause = match format {
                Ok(Format::Capture) => format!(
                    "a capture, not an archive; make one with `netarium collect --read {} --out \
                     DIR`",
                    path.display()
                ),
                Ok(format @ Format::Foreign(_)) => format.refusal().unwrap_or_default(),
                _ => "not an archive file (MRT)".to_owned(),
            };
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
        // Between finishing and the removal of the plain form, both files exist.
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

fn shelf<'a>(shelves: &'a mut Vec<ArchiveFolder>, folder: &Path) -> &'a mut ArchiveFolder {
    let at = shelves.iter().position(|shelf| shelf.folder == folder).unwrap_or_else(|| {
        shelves.push(ArchiveFolder { folder: folder.to_owned(), files: Vec::new(), listed: false });
        shelves.len() - 1
    });
    &mut shelves[at]
}

/// A folder without the parts of the layouts of RIS and `RouteViews`.
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

fn look(
    folder: &Path,
    root: Option<&Path>,
    depth: usize,
    shelves: &mut Vec<ArchiveFolder>,
) -> Result<()> {
    let refused = |e: io::Error| Error::file("read", folder, e);
    let own = is_listed(folder);
    let root = if own { Some(folder) } else { root };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let data = fs::metadata(entry.path());
        // A file that has disappeared was not finished.
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

pub(super) fn plain(name: &str) -> &str {
    PACKINGS.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The kind of a file, by its name or its first record; `None` if it is not of an archive. Names
/// are without hidden prefixes.
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
    // A compressed file that cannot be decompressed is ignored unless it is named.
    let Ok(mut input) = Input::open(path, false) else { return Ok(None) };
    if !input.format().is_ok_and(|format| format == Format::Mrt) {
        return Ok(None);
    }
    records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
        let RecordStep::Record(record) = piece else { return ControlFlow::Continue(()) };
        found.first = Some(record.time);
        if matches!(record.kind, kind::TABLE_DUMP | kind::TABLE_DUMP_V2) {
            found.kind = Kind::Routes;
        }
        ControlFlow::Break(())
    })?;
    Ok(Some(found))
}

/// Kind and time of a name without suffix.
fn dated(name: &str) -> Option<(Kind, Option<Time>)> {
    let kinds = [("updates", Kind::Updates), ("bview", Kind::Routes), ("rib", Kind::Routes)];
    kinds.into_iter().find_map(|(word, kind)| {
        let at = name.rfind(word)?;
        let begins = at == 0 || matches!(name.as_bytes()[at - 1], b'.' | b'_' | b'-');
        let rest = name[at + word.len()..].strip_prefix('.').filter(|_| begins)?;
        Some((kind, time(rest)))
    })
}

/// `YYYYMMDD.HHMM`, or with seconds, as in RIS and `RouteViews`; seconds since 1970 as in caches of
/// `BGPStream`. Further parts of an interval are numbered: `-2`.
fn time(text: &str) -> Option<Time> {
    let text = text.split('-').next()?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() == 10 && digits(text) {
        return Some(Time::from_nanos(text.parse::<u64>().ok()? * 1_000_000_000));
    }
    let pattern = match text.len() {
        13 => "%Y%m%d.%H%M",
        15 => "%Y%m%d.%H%M%S",
        _ => return None,
    };
    let is_plain = text.split('.').all(digits);
    moment::utc(DateTime::strptime(pattern, text).ok().filter(|_| is_plain)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_names_of_public_collectors() {
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
    fn excludes_month_from_collector_folder() {
        let of = |path: &str| undated(Path::new(path)).display().to_string();
        assert_eq!(of("a/rrc00/2024.02"), "a/rrc00");
        assert_eq!(of("a/jinx/bgpdata/2024.02/RIBS"), "a/jinx");
        assert_eq!(of("a/2024-02"), "a/2024-02");
        assert_eq!(of(""), "");
    }
}
