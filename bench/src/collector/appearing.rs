//! How long after its last packet a record can be read from the archive's open file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bgp::mrt::Records;

use crate::{Outcome, print};

/// Between two looks at the file. What is printed is too large by as much.
const PAUSE: Duration = Duration::from_micros(100);
/// How long there may be no file.
const PATIENCE: u64 = 30_000_000_000;

/// Follows the first open file in `folder` until it is finished; prints how old records were when
/// they appeared (their own times are the kernel's stamps of the packets that completed them), and
/// how late this process was to look, which is the machine's doing.
pub(super) fn watch(folder: &Path) -> Outcome {
    let begin = sys::clock::monotonic();
    let path = loop {
        if let Some(path) = find(folder) {
            break path;
        }
        if sys::clock::monotonic() - begin > PATIENCE {
            return Err("no file is being written".into());
        }
        std::thread::sleep(PAUSE);
    };
    let mut file = File::open(&path)?;
    let (mut stamps, mut late, mut size) = (Vec::new(), Vec::new(), 0);
    let mut looked = sys::clock::monotonic();
    for turn in 0_u64.. {
        let now = sys::clock::realtime();
        let length = file.metadata()?.len();
        if length > size {
            stamps.push((now, length));
            size = length;
        }
        // A name costs more to look up than a size.
        if turn % 100 == 0 && !path.exists() {
            break;
        }
        std::thread::sleep(PAUSE);
        let before = std::mem::replace(&mut looked, sys::clock::monotonic());
        late.push((looked - before).saturating_sub(PAUSE.as_nanos() as u64));
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

/// For each record the time from its stamp to the first look at which the file had all of it.
fn ages(bytes: &[u8], stamps: &[(u64, u64)]) -> Result<Vec<u64>, super::Failure> {
    let (mut end, mut stamps, mut ages) = (0, stamps.iter().peekable(), Vec::new());
    for record in Records::new(bytes) {
        let record = record.map_err(|damage| format!("{damage:?}"))?;
        end += record.bytes.len() as u64;
        while stamps.next_if(|(_, size)| *size < end).is_some() {}
        let (seen, _) = stamps.peek().ok_or("a record came after the last look")?;
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
