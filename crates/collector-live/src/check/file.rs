//! One file by itself.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use base::Time;
use bgp::mrt::Cause;
use sha2::{Digest, Sha256};

use super::Wrong;
use crate::Result;
use crate::input::{Input, Piece, records, words};
use crate::query::hex;

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) records: u64,
    /// Of whole records.
    pub(super) bytes: u64,
    /// Of the first record, and of the last.
    pub(super) first: Option<Time>,
    pub(super) end: Option<Time>,
    /// The earliest time and the latest.
    pub(super) times: Option<(Time, Time)>,
    /// Of all records.
    pub(super) hashes: HashSet<u64>,
    pub(super) troubles: Vec<(Wrong, String)>,
}

/// Troubles of one file that are told.
const TROUBLES: usize = 10;

impl Content {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut content = Self::default();
        let mut more = 0;
        let mut input = Input::open(path, false)?;
        records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
            let trouble = match piece {
                Piece::Record(record) => {
                    content.record(record.time, record.bytes);
                    return ControlFlow::Continue(());
                }
                Piece::Damage(damage) if damage.cause == Cause::Torn => {
                    (Wrong::Torn, words(&damage))
                }
                Piece::Damage(damage) => (Wrong::Framing, words(&damage)),
                Piece::Broken(error) => (Wrong::Unreadable, error.to_string()),
            };
            if content.troubles.len() < TROUBLES {
                content.troubles.push(trouble);
            } else {
                more += 1;
            }
            ControlFlow::Continue(())
        })?;
        if more > 0 {
            content.troubles.push((Wrong::Framing, format!("and {more} more of these")));
        }
        Ok(content)
    }

    fn record(&mut self, time: Time, bytes: &[u8]) {
        self.records += 1;
        self.bytes += bytes.len() as u64;
        self.first = self.first.or(Some(time));
        self.end = Some(time);
        let (earliest, latest) = self.times.unwrap_or((time, time));
        self.times = Some((earliest.min(time), latest.max(time)));
        self.hashes.insert(HASH_KEY.hash_one(bytes));
    }
}

/// Of all files, whose records are compared. Senders of records must not know it.
static HASH_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Length and SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut block, mut bytes) = (Sha256::new(), vec![0; 1 << 18], 0);
    loop {
        match file.read(&mut block)? {
            0 => break,
            count => {
                hash.update(&block[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok((bytes, hex(&hash.finalize())))
}
