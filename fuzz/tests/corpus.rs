//! Each fuzz target holds for the inputs of its corpus, which contains all that failed once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::thread;

use fuzz::{TARGETS, Target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of memory that no input may exceed.
const MAX_MEMORY: u64 = 2 << 30;

/// The name of the thread is in the message of a panic or a stack overflow.
fn holds(name: &str, target: Target, input: Vec<u8>) -> bool {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || target(&input)).unwrap().join().is_ok()
}

#[test]
fn targets_hold_for_their_corpora() {
    let limit = Rlimit { current: Some(MAX_MEMORY), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, limit).unwrap();
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut failed = Vec::new();
    for &(name, target) in TARGETS {
        if !holds(&format!("{name}, the empty input"), target, Vec::new()) {
            failed.push(format!("{name}, the empty input"));
        }
        let Ok(corpus) = fs::read_dir(corpora.join(name)) else { continue };
        for file in corpus {
            let file = file.unwrap().path();
            let place = format!("fuzz/corpus/{name}/{}", file.file_name().unwrap().display());
            if !holds(&place, target, fs::read(file).unwrap()) {
                failed.push(place);
            }
        }
    }
    assert!(failed.is_empty(), "failed:\n  {}", failed.join("\n  "));
}

#[test]
fn each_corpus_has_a_target() {
    let corpora = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap();
    for corpus in corpora {
        let name = corpus.unwrap().file_name();
        assert!(TARGETS.iter().any(|target| name == *target.0), "no target {}", name.display());
    }
}
