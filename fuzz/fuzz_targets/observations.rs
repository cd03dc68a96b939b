//! Observations of a lab's pieces, which come from other machines, read and merged.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use lab::plan::Plan;
use libfuzzer_sys::fuzz_target;
use outcome::merge::{Joined, Pieces, merge};
use outcome::observation::{FILE, KIND, Observation, ObservationReader};
use record::RunFolder;

/// Two hosts at a router, and a flow.
const LAB: &str = "[node.r]\nkind = \"router\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"r\", \"a\"]\n[[link]]\nends = [\"r\", \"b\"]\n\
    [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
    [[program]]\nnode = \"a\"\nrun = \"true\"\n";

static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let mut lab = lab::parse("pair.toml", LAB, Path::new(".")).expect("it is a lab");
    lab.plans.swap_remove(0)
});

/// A file with frames of these contents: what is fuzzed is what is in them.
fn file(frames: &[u8]) -> Vec<u8> {
    let mut file = KIND.magic.to_vec();
    file.extend(KIND.version.to_le_bytes());
    for frame in frames.chunks(4096) {
        let sum = frame.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend(sum.to_le_bytes());
        file.extend(frame);
    }
    file
}

fuzz_target!(|data: &[u8]| {
    let plan = &*PLAN;
    let Some((kind, data)) = data.split_first() else { return };
    let bytes = if kind % 2 == 0 { file(data) } else { data.to_vec() };
    if let Ok(mut reader) = ObservationReader::new(bytes.as_slice(), Path::new("f"), plan) {
        while let Ok(Some(observation)) = reader.next_observation() {
            if let Observation::Counters(counters) = &observation {
                assert!(counters.links.iter().all(|row| (row.position as usize) < 4));
            }
        }
    }
    // Merging makes files: every so often is enough.
    if kind % 64 != 0 {
        return;
    }
    let parent = tempfile::tempdir().expect("a folder can be made");
    let piece = parent.path().join("piece");
    std::fs::create_dir(&piece).expect("a folder can be made");
    std::fs::write(piece.join(FILE), &bytes).expect("a file can be written");
    let into = RunFolder::create(parent.path(), "merged").expect("a folder can be made");
    let joined = Joined { folder: Some(piece), ..Joined::default() };
    let pieces = Pieces { members: vec![joined.clone(), joined], ..Pieces::default() };
    let record = merge(plan, &pieces, record::RunRecord::default(), &into);
    assert!(record.is_ok(), "{record:?}");
});
