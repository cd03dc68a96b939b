//! Missing data by hour: distinguishes a neighbour without messages from a collector without
//! captured packets.

mod show;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;

use base::Time;
use collector::{MirrorId, Peering};
use serde_json::Value;

use super::census::each;
use super::files::{ArchiveFolder, State};
use super::moment::moment_text;
use super::{Archives, moment};
use crate::archive::{GAPS, Kind, Loss, read_ledger};
use crate::job::retention::{ACCOUNT, CURRENT};
use crate::{Error, Result};

/// Causes of gaps in streams, as in the account.
const CAUSES: [&str; 9] = [
    "mirror",
    "unknown",
    "capture",
    "start",
    "undecodable",
    "unconfirmed",
    "guessed",
    "cut",
    "end",
];
/// Number of the archived ones among them.
const ARCHIVED: std::ops::Range<usize> = 4..7;

/// An hour of a peering, by the accounts of all collectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hour {
    verdict: String,
    blind_seconds: u64,
    up_seconds: f64,
    updates: u64,
    keepalives: u64,
    bytes: u64,
    /// By cause: number, missing bytes, bytes outside of messages.
    gaps: [[u64; 3]; 9],
    resyncs: u64,
    undecodable: u64,
    inferred: u64,
    reread: u64,
    down_seconds: u64,
}

/// Key of an hour: hour, neighbour, AS, router, mirror.
type Key = (String, IpAddr, u32, IpAddr, u32);

#[derive(Debug, Default)]
pub(super) struct Account {
    hours: BTreeMap<Key, Hour>,
    bad_lines: u64,
}

/// Totals of the account for a peering.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) inferred: u64,
    pub(super) reread: u64,
    pub(super) blind_seconds: u64,
    pub(super) gaps: u64,
}

impl Account {
    /// The account beside an archive's files; `None` if there is none.
    pub(super) fn read(shelf: &ArchiveFolder, peer: Option<IpAddr>) -> Result<Option<Self>> {
        let mut account = Self::default();
        let mut found = false;
        if !shelf.listed {
            return Ok(None);
        }
        for name in [ACCOUNT, CURRENT] {
            let path = shelf.folder.join(name);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::file("read", &path, e)),
            };
            found = true;
            for line in text.lines() {
                let value = serde_json::from_str::<Value>(line).ok();
                match value.as_ref().and_then(|value| Some((key(value)?, hour(value)?))) {
                    Some((key, _)) if peer.is_some_and(|peer| peer != key.1) => {}
                    Some((key, hour)) => account.hours.entry(key).or_default().add(&hour),
                    None => account.bad_lines += 1,
                }
            }
        }
        Ok(found.then_some(account))
    }

    pub(super) fn of(&self, peering: &Peering) -> Sum {
        let hours = self.hours.iter().filter(|((_, peer, asn, local, mirror), _)| {
            (*peer, *asn) == (peering.peer, peering.peer_as.0)
                && (peering.mirror == MirrorId::NONE || *mirror == peering.mirror.0)
                && (peering.local.is_unspecified() || *local == peering.local)
        });
        let mut sum = Sum::default();
        for (_, hour) in hours {
            sum.inferred += hour.inferred;
            sum.reread += hour.reread;
            sum.blind_seconds += hour.blind_seconds;
            sum.gaps += hour.gaps.iter().map(|gaps| gaps[0]).sum::<u64>();
        }
        sum
    }

    /// Subtracts time without a collector from the observed time.
    fn down(&mut self, losses: &[Loss]) {
        const HOUR: u64 = 3600;
        for loss in losses {
            let Loss::Down { since_us, until_us, .. } = loss else { continue };
            let (since, until) = (since_us / 1_000_000, until_us.div_ceil(1_000_000));
            for ((name, ..), hour) in &mut self.hours {
                let Some(start) = moment::moment(name) else { continue };
                let start = start.as_nanos() / 1_000_000_000;
                let (from, to) = (since.max(start), until.min(start + HOUR));
                if from < to {
                    hour.down_seconds += to - from;
                    if matches!(&*hour.verdict, "whole" | "quiet") {
                        "holes".clone_into(&mut hour.verdict);
                    }
                }
            }
        }
    }
}

impl Hour {
    /// Merges the account of two consecutive collectors for one hour.
    fn add(&mut self, other: &Self) {
        self.verdict = both(&self.verdict, &other.verdict).to_owned();
        self.blind_seconds += other.blind_seconds;
        self.up_seconds += other.up_seconds;
        self.updates += other.updates;
        self.keepalives += other.keepalives;
        self.bytes += other.bytes;
        for (own, other) in self.gaps.iter_mut().zip(&other.gaps) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self.resyncs += other.resyncs;
        self.undecodable += other.undecodable;
        self.inferred += other.inferred;
        self.reread += other.reread;
    }

    fn is_whole(&self) -> bool {
        !matches!(&*self.verdict, "holes" | "blind")
            && self.undecodable == 0
            && self.down_seconds == 0
    }
}

/// The verdict for an hour with two parts.
fn both<'a>(one: &'a str, other: &'a str) -> &'a str {
    match (one, other) {
        ("", verdict) | (verdict, "") => verdict,
        (one, other) if one == other => one,
        ("holes" | "blind", _) | (_, "holes" | "blind") => "holes",
        ("whole", _) | (_, "whole") => "whole",
        ("quiet", _) | (_, "quiet") => "quiet",
        (one, _) => one,
    }
}

fn key(value: &Value) -> Option<Key> {
    let text = |name: &str| value.get(name)?.as_str();
    Some((
        text("hour")?.to_owned(),
        text("peer")?.parse().ok()?,
        value.get("peer_as")?.as_u64()?.try_into().ok()?,
        text("local")?.parse().ok()?,
        // Lines without a mirror are from before mirrors were recorded.
        value.get("mirror").map_or(Some(0), Value::as_u64)?.try_into().ok()?,
    ))
}

fn hour(value: &Value) -> Option<Hour> {
    let count = |path: &str| value.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let gaps = CAUSES.map(|cause| {
        ["count", "missing", "skipped"].map(|of| count(&format!("/gaps/{cause}/{of}")))
    });
    Some(Hour {
        verdict: value.get("verdict")?.as_str()?.to_owned(),
        blind_seconds: count("/blind_seconds"),
        up_seconds: value.get("up_seconds").and_then(Value::as_f64).unwrap_or(0.0),
        updates: count("/from_peer/update"),
        keepalives: count("/from_peer/keepalive"),
        bytes: count("/from_peer/bytes"),
        gaps,
        resyncs: count("/resyncs"),
        undecodable: count("/undecodable"),
        inferred: count("/inferred"),
        reread: count("/reread"),
        down_seconds: 0,
    })
}

/// The losses in the archive's list. Missing bytes while the capture dropped packets count as lost
/// by the capture.
pub(super) fn losses(shelf: &ArchiveFolder) -> Result<Vec<Loss>> {
    if !shelf.listed {
        return Ok(Vec::new());
    }
    let mut losses: Vec<Loss> = read_ledger(&shelf.folder.join(GAPS))?;
    let drops = losses.iter().filter(|loss| matches!(loss, Loss::Captured { packets: 1.., .. }));
    let mut drops: Vec<(u64, u64)> =
        drops.filter_map(|loss| times(loss).0.zip(times(loss).1)).collect();
    drops.sort_unstable();
    for loss in &mut losses {
        if let Loss::Stream { since_us, until_us, cause, .. } = loss
            && matches!(&**cause, "mirror" | "unknown")
            && drops.iter().any(|(since, until)| since <= until_us && *since_us <= *until)
        {
            "capture".clone_into(cause);
        }
    }
    Ok(losses)
}

/// Start and end of a loss, in microseconds since 1970.
pub(super) fn times(loss: &Loss) -> (Option<u64>, Option<u64>) {
    match loss {
        Loss::TornTail { since_us, .. } => (*since_us, None),
        Loss::Down { since_us, until_us, .. }
        | Loss::NotWritten { since_us, until_us, .. }
        | Loss::ClockStep { since_us, until_us }
        | Loss::Captured { since_us, until_us, .. }
        | Loss::Stream { since_us, until_us, .. } => (Some(*since_us), Some(*until_us)),
        Loss::UnfinishedRoutes { .. } => (None, None),
    }
}

pub(super) fn words(loss: &Loss) -> String {
    let time = |micros: u64| moment_text(Time::from_nanos(micros.saturating_mul(1000)));
    let what = match loss {
        Loss::TornTail { file, at, bytes, .. } => {
            format!("the collector crashed: {bytes} bytes after byte {at} of {file} were discarded")
        }
        Loss::Down { stopped: true, .. } => "no collector ran".to_owned(),
        Loss::Down { .. } => "the collector crashed; its last records may be lost".to_owned(),
        Loss::NotWritten { records, bytes, cause, .. } => {
            format!("{records} records of {bytes} bytes were not written: {cause}")
        }
        Loss::ClockStep { .. } => "the capture's clock was stepped".to_owned(),
        Loss::Captured { interface, packets, .. } => {
            format!("the capture lost {packets} packets at interface {interface}")
        }
        Loss::Stream { mirror, peer, peer_as, from, cause, missing, skipped, .. } => {
            let mirror = if *mirror > 1 { format!(" at mirror {mirror}") } else { String::new() };
            let whose = if from == "peer" { "from" } else { "to" };
            let why = match &**cause {
                "mirror" => "the router received them, but their clones were lost",
                "unknown" => "not acknowledged; the router may have received them",
                "capture" => "the capture lost packets",
                "start" => "the capture began in the middle of the session",
                "cut" => "the capture cut their packets off; record whole packets (snap length)",
                "end" => "the capture ended within a message",
                "guessed" => "the router's end was guessed; state it with --router",
                "undecodable" => "they cannot be decoded, but are archived",
                other => other,
            };
            format!(
                "{whose} {peer} (AS {peer_as}){mirror}: {missing} bytes were not captured, \
                 {skipped} belong to no complete message: {why}"
            )
        }
        Loss::UnfinishedRoutes { file } => format!("the table {file} was not completed"),
    };
    match times(loss) {
        (Some(since), Some(until)) if until > since => {
            format!("{} to {}: {what}", time(since), time(until))
        }
        (Some(since), _) => format!("{}: {what}", time(since)),
        (None, _) => what,
    }
}

#[derive(Debug)]
pub struct Gaps {
    collectors: Vec<Collector>,
}

#[derive(Debug)]
struct Collector {
    folder: String,
    account: Option<Account>,
    losses: Vec<Loss>,
    absent: Vec<(Time, Time)>,
    troubles: Vec<String>,
}

/// Missing data of archives, of all peers or of `peer`.
pub fn gaps(archives: &Archives, peer: Option<IpAddr>) -> Result<Gaps> {
    let collector = |shelf: &ArchiveFolder| {
        let mut account = Account::read(shelf, peer)?;
        let mut losses = losses(shelf)?;
        losses.retain(|loss| match loss {
            Loss::Stream { peer: of, .. } => peer.is_none_or(|peer| peer == *of),
            _ => true,
        });
        if let Some(account) = &mut account {
            account.down(&losses);
        }
        let mut troubles = Vec::new();
        // `check` verifies the files of this collector; other files are verified here.
        if !shelf.listed {
            for file in shelf.readable(Kind::Updates) {
                each(file, &mut troubles, &mut |_| {})?;
            }
        }
        let unstated = |(since, until): &(Time, Time)| {
            let (since, until) = (since.as_nanos() / 1000, until.as_nanos() / 1000);
            !losses.iter().any(|loss| match loss {
                Loss::Down { since_us, until_us, .. } | Loss::ClockStep { since_us, until_us } => {
                    *since_us <= since && until <= *until_us
                }
                _ => false,
            })
        };
        let absent = absent(shelf).into_iter().filter(unstated).collect();
        let folder = shelf.folder.display().to_string();
        Ok(Collector { folder, account, losses, absent, troubles })
    };
    let collectors = archives.shelves.iter().map(collector).collect::<Result<_>>()?;
    Ok(Gaps { collectors })
}

/// Unusually long intervals between two files, which usually start at equal distances.
fn absent(shelf: &ArchiveFolder) -> Vec<(Time, Time)> {
    let updates = shelf.readable(Kind::Updates).filter(|file| file.state == State::Finished);
    let mut starts: Vec<u64> = updates.filter_map(|file| file.start).map(Time::as_nanos).collect();
    starts.dedup();
    let mut steps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_unstable();
    // The most common distance; of several the shortest.
    let runs = steps.chunk_by(|one, other| one == other);
    let usual = runs.map(|run| (run.len(), u64::MAX - run[0])).max();
    let Some(usual) = usual.map(|(_, rest)| u64::MAX - rest) else { return Vec::new() };
    let pairs = starts.windows(2).filter(|pair| pair[1] - pair[0] > usual);
    pairs.map(|pair| (Time::from_nanos(pair[0] + usual), Time::from_nanos(pair[1]))).collect()
}
