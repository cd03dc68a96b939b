//! Checks one file.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use base::Time;
use bgp::mrt::Cause;

use super::Wrong;
use crate::Result;
use crate::input::{Input, RecordStep, records, words};

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) first: Option<Time>,
    pub(super) end: Option<Time>,
    pub(super) times: Option<(Time, Time)>,
    pub(super) hashes: HashSet<u64>,
    pub(super) troubles: Vec<(Wrong, String)>,
}

const TROUBLES: usize = 10;

impl Content {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut content = Self::default();
        let mut more = 0;
        let mut input = Input::open(path, false)?;
        records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
            let trouble = match piece {
                RecordStep::Record(record) => {
                    content.record(record.time, record.bytes);
                    return ControlFlow::Continue(());
                }
                RecordStep::Damage(damage) if damage.cause == Cause::Torn => {
                    (Wrong::Torn, words(&damage))
                }
                RecordStep::Damage(damage) => (Wrong::Framing, words(&damage)),
                RecordStep::Broken(error) => (Wrong::Unreadable, error.to_string()),
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

/// Key of the hashes of all files' records, which are compared. It is random, so that senders of
/// records cannot predict it.
static HASH_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
