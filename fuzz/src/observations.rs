//! Observations of a lab's shards, which come from other machines, read and merged.

use std::path::Path;
use std::sync::LazyLock;

use lab::plan::Plan;
use run::RunFolder;
use run::merge::{AgentRun, ClusterRun, merge};
use run::observation::{FILE, KIND, Observation, ObservationReader};

/// Two hosts at a router, and a flow.
const LAB: &str = "[node.r]\nkind = \"router\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"r\", \"a\"]\n[[link]]\nends = [\"r\", \"b\"]\n\
    [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
    [[program]]\nnode = \"a\"\nrun = \"true\"\n";

static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let mut lab = lab::parse("pair.toml", LAB, Path::new(".")).expect("it is a lab");
    lab.plans.swap_remove(0)
});

/// A file with frames of these contents: the contents are fuzzed.
fn file(frames: &[u8]) -> Vec<u8> {
    let mut file = KIND.magic.to_vec();
    file.extend(KIND.version.to_le_bytes());
    for frame in frames.chunks(4096) {
        let sum = base::fnv::hash(frame);
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend(sum.to_le_bytes());
        file.extend(frame);
    }
    file
}

pub(crate) fn target(data: &[u8]) {
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
    // Merging is slow because it makes files: only a part of the inputs is merged.
    if kind % 64 != 0 {
        return;
    }
    let parent = tempfile::tempdir().expect("a folder can be made");
    let piece = parent.path().join("piece");
    std::fs::create_dir(&piece).expect("a folder can be made");
    std::fs::write(piece.join(FILE), &bytes).expect("a file can be written");
    let into = RunFolder::create(parent.path(), "merged").expect("a folder can be made");
    let joined = AgentRun { folder: Some(piece), ..AgentRun::default() };
    let pieces = ClusterRun { agents: vec![joined.clone(), joined], ..ClusterRun::default() };
    let record = merge(plan, &pieces, run::RunRecord::default(), &into);
    assert!(record.is_ok(), "{record:?}");
}
