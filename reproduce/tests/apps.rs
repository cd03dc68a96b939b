//! The programs of the labs, tried without a network.

use std::path::Path;
use std::process::Command;

fn self_test(program: &str) {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs/splaynet/apps");
    let mut python = Command::new("python3");
    let python = python.arg("-B").arg(apps.join(program)).arg("--self-test");
    let output = python.output().expect("python3 is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    assert_eq!(output.stdout, b"ok\n", "{program}");
}

#[test]
fn chord_finds_owners_on_the_ring() {
    self_test("chord.py");
}

#[test]
fn trees_reach_all_and_have_no_inner_node_in_common() {
    self_test("multicast.py");
}

#[test]
fn generations_decode_and_edges_carry_what_theory_says() {
    self_test("butterfly.py");
}
