//! Programs that fill a disk, or write without limit.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::bench::{Bench, NETARIUM, Run, Running, requires_labs};
use super::cell::{self, requires_cell};

fn lab(program: &str) -> String {
    format!(
        "[lab]\nname = \"filling\"\nduration = \"60 s\"\n[node.a]\n[node.b]\n\
         [[link]]\nends = [\"a\", \"b\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\nrate = \"1 Mbit/s\"\n\
         [[program]]\nname = \"p\"\nnode = \"a\"\n{program}\n"
    )
}

/// Runs a lab with run folders on a disk of this size; returns the records on that disk.
fn run_on(bench: &Bench, size: &str, lab: &str) -> (Run, Value) {
    bench.write("lab.toml", lab);
    let script = format!(
        "mkdir small; mount -t tmpfs -o size={size} tmpfs small
         trap 'mkdir kept; cp small/*/run.json kept' EXIT
         \"$@\" || exit $?"
    );
    let mut command: Command = cell::unshared(&script);
    command.args([NETARIUM, "run", "lab.toml", "--json", "--runs", "small"]);
    bench.prepare(&mut command);
    let run = Running::spawn(&mut command).finish();
    (run, record(&bench.path().join("kept")))
}

fn record(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap()
}

#[test]
fn full_disk_fails_run_with_reason() {
    requires_cell!();
    for program in ["run = \"cat /dev/zero\"", "run = \"cat /dev/zero > small/file; sleep 60\""] {
        let bench = Bench::new();
        let (run, record) = run_on(&bench, "3m", &lab(program));
        assert_eq!(run.code, Some(4), "{program}: {}", run.dump());
        assert_eq!(record["status"], "failed", "{program}: {record:#}");
        assert_eq!(record["exit_code"], 4, "{program}: {record:#}");
        assert_eq!(record["failure"]["kind"], "disk_full", "{program}: {record:#}");
        assert!(run.records[0].to_string().contains("no space left"), "{program}");
    }
}

#[test]
fn output_beyond_the_limit_is_discarded_and_reported() {
    requires_labs!();
    let bench = Bench::new();
    let program =
        "run = \"head -c 300000 /dev/zero; head -c 10 /dev/zero >&2\"\noutput = \"100 kB\"";
    let run = bench.run(&lab(program));
    assert!(matches!(run.code, Some(0 | 3)), "{}", run.dump());
    let record = run.record();
    assert_eq!(record["programs"][0]["discarded_output_bytes"], 200_010, "{record:#}");
    let warnings = record["warnings"].to_string();
    assert!(
        warnings.contains("program p") && warnings.contains("the limit is 100 kB"),
        "{warnings}"
    );
    let stdout = run.folder().join("programs/p/stdout");
    assert_eq!(stdout.metadata().unwrap().len(), 100_000);
    let log = std::fs::read_to_string(run.folder().join("log.jsonl")).unwrap();
    assert!(log.contains("output limit of 100 kB reached"), "{log}");
}
