//! Numbers and names of mirrors, saved beside the archive, so that the interface index of records
//! identifies the same mirror in each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use collector::MirrorId;
use collector::decapsulate::Mirror;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::archive::{Ledger, read_ledger};

/// The file, one mirror with sessions per line.
pub(crate) const MIRRORS: &str = "MIRRORS";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    mirror: u32,
    name: String,
}

/// Mirrors by number, from the list in `folder`; the first line of a number is valid.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<u32, String>> {
    let lines = read_ledger::<Line>(&folder.join(MIRRORS))?;
    // Of equal keys, the last one remains.
    Ok(lines.into_iter().rev().map(|line| (line.mirror, line.name)).collect())
}

pub(super) struct Names {
    ledger: Ledger,
    listed: BTreeMap<u32, String>,
}

impl Names {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let ledger = Ledger::open(folder.join(MIRRORS))?;
        Ok(Self { ledger, listed: read(folder)? })
    }

    pub(super) fn known(&self) -> Vec<(MirrorId, String)> {
        self.listed.iter().map(|(number, name)| (MirrorId(*number), name.clone())).collect()
    }

    /// Adds the mirrors of `met` that are not listed.
    pub(super) fn add(&mut self, met: &[MirrorId], mirrors: &[Mirror]) -> Result<()> {
        let met: BTreeSet<_> = met.iter().collect();
        let lines: Vec<Line> = met
            .into_iter()
            .filter(|mirror| !self.listed.contains_key(&mirror.0))
            .filter_map(|mirror| {
                let name = mirrors.get(mirror.index()?)?.name.clone();
                Some(Line { mirror: mirror.0, name })
            })
            .collect();
        if !lines.is_empty() {
            self.ledger.append_all(&lines)?;
            self.listed.extend(lines.into_iter().map(|line| (line.mirror, line.name)));
        }
        Ok(())
    }
}
