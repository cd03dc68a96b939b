//! The delay between the last packet of a record and the time when an archive's open file has it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bgp::mrt::Records;

use crate::{Outcome, print};

/// Interval at which the file is polled. The printed ages are too large by up to this time.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// Max time in ns until the file appears.
const FILE_TIMEOUT: u64 = 30_000_000_000;

/// Follows the first open file in `folder` until it is finished. Prints the age of records when
/// they appeared (their times are the kernel's timestamps of the packets that completed them), and how
/// late this process polled, which depends on the machine.
pub(super) fn watch(folder: &Path) -> Outcome {
    let begin = sys::clock::monotonic();
    let path = loop {
        if let Some(path) = find(folder) {
            break path;
        }
        if sys::clock::monotonic() - begin > FILE_TIMEOUT {
            return Err("no open file within 30 s".into());
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let mut file = File::open(&path)?;
    let (mut stamps, mut late, mut size) = (Vec::new(), Vec::new(), 0);
    let mut polled = sys::clock::monotonic();
    for turn in 0_u64.. {
        let now = sys::clock::realtime();
        let length = file.metadata()?.len();
        if length > size {
            stamps.push((now, length));
            size = length;
        }
        // The check of the name costs more than that of the size.
        if turn % 100 == 0 && !path.exists() {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
        let before = std::mem::replace(&mut polled, sys::clock::monotonic());
        late.push((polled - before).saturating_sub(POLL_INTERVAL.as_nanos() as u64));
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let mut ages = ages(&bytes, &stamps)?;
    let count = ages.len();
    let late = figures(&mut late);
    print(&format!("{{\"records\":{count},\"age\":{},\"late\":{late}}}", figures(&mut ages)));
    Ok(())
}

/// A hidden file whose name ends with `.open`.
fn find(folder: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path) {
                return Some(found);
            }
        } else if path.extension().is_some_and(|end| end == "open") {
            return Some(path);
        }
    }
    None
}

/// For each record, the time from its timestamp to the first poll at which the file had all of it.
fn ages(bytes: &[u8], stamps: &[(u64, u64)]) -> Result<Vec<u64>, super::Failure> {
    let (mut end, mut stamps, mut ages) = (0, stamps.iter().peekable(), Vec::new());
    for record in Records::new(bytes) {
        let record = record.map_err(|damage| format!("{damage:?}"))?;
        end += record.bytes.len() as u64;
        while stamps.next_if(|(_, size)| *size < end).is_some() {}
        let (seen, _) = stamps.peek().ok_or("a record appeared after the last poll")?;
        ages.push(seen.saturating_sub(record.time.as_nanos()));
    }
    Ok(ages)
}

fn figures(values: &mut [u64]) -> String {
    values.sort_unstable();
    let at = |share: f64| {
        values.get((values.len() as f64 * share) as usize).or(values.last()).copied().unwrap_or(0)
    };
    format!("{{\"p50_ns\":{},\"p99_ns\":{},\"max_ns\":{}}}", at(0.5), at(0.99), at(1.0))
}
