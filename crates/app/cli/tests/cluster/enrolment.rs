//! `netarium cluster invite` and `netarium agent --invitation`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use super::loopback::Loopback;

/// Starts an invitation; returns its text.
fn invite(cluster: &Loopback, arguments: &[&str]) -> (Child, String) {
    let mut command = cluster.bench.command(&["cluster", "invite", "--dir", "pki", "--json"]);
    command.args(["--listen", "127.0.0.1:0"]).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    (child, value["invitation"].as_str().unwrap().to_owned())
}

/// The exit code and the output of an enrolment that fails.
fn refused(cluster: &Loopback, invitation: &str) -> (i32, String) {
    let dir = cluster.bench.path().join("refused");
    let mut command = cluster.bench.command(&["cluster", "enrol", invitation, "--credentials"]);
    let output = command.arg(&dir).output().unwrap();
    assert!(!dir.exists(), "credentials without an enrolment");
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn agent_enrols_once_with_code() {
    let mut cluster = Loopback::new();
    let first = cluster.start("m1", None);
    let (mut waiting, invitation) = invite(&cluster, &[]);
    let mut wrong = invitation.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    let (code, text) = refused(&cluster, &wrong);
    assert!(code == 4 && text.contains("the code is wrong"), "{code} {text}");
    let credentials = cluster.bench.path().join("m3");
    let arguments: [&Path; 4] =
        ["--credentials".as_ref(), &credentials, "--invitation".as_ref(), invitation.as_ref()];
    cluster.start_with("m3", Some(first), &arguments);
    assert!(waiting.wait().unwrap().success());
    cluster.await_pair(first);
    let (code, text) = refused(&cluster, &invitation);
    assert!(code == 4 && text.contains("cannot enrol"), "{code} {text}");
}

#[test]
fn open_invitation_rejects_taken_name() {
    let cluster = Loopback::new();
    let (mut waiting, invitation) = invite(&cluster, &["--expires", "300 s"]);
    let dir = cluster.bench.path().join("taken");
    let mut command = cluster.bench.command(&["cluster", "enrol", &invitation, "--name", "m1"]);
    let output = command.arg("--credentials").arg(&dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let _ = waiting.kill();
    let _ = waiting.wait();
    assert!(output.status.code() == Some(4) && !dir.exists(), "{text}");
    assert!(text.contains("there is a certificate of agent m1 already"), "{text}");
}

#[test]
fn invitation_expires() {
    let cluster = Loopback::new();
    let (mut waiting, invitation) = invite(&cluster, &["--expires", "1 ms"]);
    let status = waiting.wait().unwrap();
    assert_eq!(status.code(), Some(4));
    let (code, text) = refused(&cluster, &invitation);
    assert!(code == 4 && text.contains("cannot enrol"), "{code} {text}");
}

#[test]
fn agent_without_credentials_does_not_start() {
    let cluster = Loopback::new();
    let mut command = cluster.bench.command(&["agent", "--listen", "127.0.0.1:0"]);
    let output = command.args(["--credentials", "none"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("netarium cluster init"), "{text}");
}
