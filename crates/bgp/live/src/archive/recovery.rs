//! Recovers the files of a killed collector. Each step is repeatable after another kill.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use base::Time;

use super::finish::{
    self, FULL, OPEN, PACKED, PARTIAL, Sealed, Shared, finished_path, lock, partial_path,
    plain_path,
};
use super::layout::Kind;
use super::ledger::{Entry, Loss, micros};
use super::scan;
use crate::{Error, Result};

#[derive(Default)]
pub(super) struct Recovery {
    /// Plain files, truncated to whole records, in the order of their names.
    pub plain: Vec<Sealed>,
    pub losses: Vec<Loss>,
    pub last: Option<Time>,
    pub stopped: bool,
}

const DEPTH: usize = 8;

pub(super) fn recover(shared: &Shared) -> Result<Recovery> {
    let mut found = Found::default();
    look(&shared.folder, "", DEPTH, &mut found)?;
    let mut recovery = Recovery { stopped: found.plain.is_empty(), ..Recovery::default() };
    let listed = lock(&shared.manifest).lines::<Entry>()?;
    // Files without records, as after a kill, contain no information on the time before.
    let mut updates = listed.iter().rev().filter(|entry| entry.kind == Kind::Updates);
    recovery.last = updates.find_map(|entry| entry.last_us).map(from_micros);
    let listed: HashSet<&str> = listed.iter().map(|entry| entry.file.as_str()).collect();
    for path in &found.packed {
        finish::remove(path)?;
    }
    let stated: HashSet<Loss> = lock(&shared.gaps).lines::<Loss>()?.into_iter().collect();
    let mut lost = |loss: Loss| {
        if !stated.contains(&loss) {
            finish::state(shared, std::slice::from_ref(&loss))?;
        }
        recovery.losses.push(loss);
        Result::Ok(())
    };
    for name in found.partial {
        lost(Loss::UnfinishedRoutes { file: name.clone() })?;
        finish::remove(&partial_path(&shared.folder, &name))?;
    }
    for (name, kind) in found.plain {
        let sealed = cut(shared, name, kind, &mut lost)?;
        if kind == Kind::Updates {
            recovery.last = recovery.last.max(sealed.extent.last);
        }
        let Some(path) = finished_path(&shared.folder, &sealed.name) else {
            recovery.plain.push(sealed);
            continue;
        };
        let file = path.strip_prefix(&shared.folder).unwrap_or(&path).to_string_lossy();
        if listed.contains(&*file) {
            finish::remove(&plain_path(&shared.folder, &sealed.name, kind))?;
        } else {
            finish::complete(shared, &sealed, &path, None)?;
        }
    }
    Ok(recovery)
}

/// Truncates a plain file to its whole records. The loss is stated first: a kill in between leaves
/// the torn tail, which is stated again.
fn cut(
    shared: &Shared,
    name: String,
    kind: Kind,
    lost: &mut impl FnMut(Loss) -> Result<()>,
) -> Result<Sealed> {
    let path = plain_path(&shared.folder, &name, kind);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    let mut file = opened.map_err(|e| Error::file("open", &path, e))?;
    let scanned = scan::file(&mut file);
    let (extent, total) = scanned.map_err(|e| Error::file("read", &path, e))?;
    if extent.bytes < total {
        lost(Loss::TornTail {
            file: name.clone(),
            at: extent.bytes,
            bytes: total - extent.bytes,
            since_us: extent.last.map(micros),
        })?;
        let cut = file.set_len(extent.bytes).and_then(|()| file.sync_all());
        cut.map_err(|e| Error::file("cut", &path, e))?;
    }
    Ok(Sealed { name, kind, extent, mirrors: Vec::new() })
}

fn from_micros(micros: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1_000))
}

#[derive(Default)]
struct Found {
    plain: Vec<(String, Kind)>,
    partial: Vec<String>,
    packed: Vec<PathBuf>,
}

/// Searches hidden files of the archive below `folder`, whose own name is `prefix`.
fn look(folder: &Path, prefix: &str, depth: usize, found: &mut Found) -> Result<()> {
    let refused = |e| Error::file("read", folder, e);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        entries.push((name, entry.file_type().map_err(refused)?.is_dir()));
    }
    entries.sort_unstable();
    for (name, is_folder) in entries {
        if is_folder && !name.starts_with('.') && depth > 0 {
            look(&folder.join(&name), &format!("{prefix}{name}/"), depth - 1, found)?;
            continue;
        }
        let Some(hidden) = name.strip_prefix('.') else { continue };
        match hidden.rsplit_once('.') {
            _ if is_folder => {}
            Some((own, OPEN)) => found.plain.push((format!("{prefix}{own}"), Kind::Updates)),
            Some((own, FULL)) => found.plain.push((format!("{prefix}{own}"), Kind::Routes)),
            Some((own, PARTIAL)) => found.partial.push(format!("{prefix}{own}")),
            Some((_, PACKED)) => found.packed.push(folder.join(&name)),
            _ => {}
        }
    }
    Ok(())
}
