use std::collections::BTreeMap;
use std::path::Path;

use super::*;

const TEST_TIMEOUT: Duration = Duration::from_secs(50);

fn shell(supervisor: &mut Supervisor, script: &str, hold: bool) -> usize {
    supervisor.start(Command::new("/bin/sh").args(["-c", script]), hold).unwrap()
}

/// Waits until `until` is true of the events so far.
fn wait_until(supervisor: &mut Supervisor, until: impl Fn(&[String]) -> bool) -> Vec<String> {
    let since = Instant::now();
    let mut seen = Vec::new();
    while !until(&seen) {
        assert!(since.elapsed() < TEST_TIMEOUT, "{seen:?}");
        for event in supervisor.wait(Duration::from_millis(20)).unwrap() {
            seen.push(match event {
                Event::Ready(number) => format!("{number} ready"),
                Event::Output(number, line) => format!("{number} output {line}"),
                Event::Log(number, line) => format!("{number} log {line}"),
                Event::Ended(number, status) => format!("{number} {status}"),
            });
        }
    }
    seen
}

fn ended(count: usize) -> impl Fn(&[String]) -> bool {
    move |seen| seen.iter().filter(|event| event.contains("exit status")).count() == count
}

const READY: &str = "printf x >&0; dd bs=1 count=1 <&0 2>/dev/null >/dev/null; ";

#[test]
fn reports_output_before_end() {
    let mut supervisor = Supervisor::new();
    shell(&mut supervisor, "echo one; printf two; echo three >&2; exit 9", false);
    let seen = wait_until(&mut supervisor, ended(1));
    let lines: BTreeMap<&str, usize> =
        seen.iter().enumerate().map(|(at, event)| (&**event, at)).collect();
    let end = lines["0 exit status: 9"];
    assert_eq!(end, 3);
    assert!(lines["0 output one"] < lines["0 output two"] && lines.contains_key("0 log three"));
    assert!(!supervisor.is_running());
}

#[test]
fn held_child_begins_when_ready() {
    let mut supervisor = Supervisor::new();
    shell(&mut supervisor, &format!("{READY} exit 9"), true);
    let seen = wait_until(&mut supervisor, ended(1));
    assert_eq!(seen, ["0 ready", "0 exit status: 9"]);
}

#[test]
fn children_begin_together_when_all_are_ready() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done; {READY}", file.display());
    let mut supervisor = Supervisor::together();
    shell(&mut supervisor, READY, true);
    shell(&mut supervisor, &wait, true);
    shell(&mut supervisor, "exit 3", true);
    wait_until(&mut supervisor, |seen| {
        seen.contains(&"0 ready".to_owned()) && seen.contains(&"2 exit status: 3".to_owned())
    });
    supervisor.wait(Duration::from_millis(100)).unwrap();
    assert!(supervisor.begun().is_none() && supervisor.running().count() == 2);
    std::fs::write(file, "").unwrap();
    wait_until(&mut supervisor, ended(2));
    assert!(supervisor.begun().is_some());
}

#[test]
fn sends_stop_request_once() {
    let dir = tempfile::tempdir().unwrap();
    let signals = dir.path().join("signals");
    let script = format!(
        "n=0; trap 'n=$((n+1)); echo $n > {}' TERM; echo; until [ $n -gt 0 ]; do sleep 0.02; done; \
         sleep 0.2; sleep 0.2; exit 130",
        signals.display()
    );
    let mut supervisor = Supervisor::new();
    shell(&mut supervisor, &script, false);
    wait_until(&mut supervisor, |seen| !seen.is_empty());
    supervisor.stop(1);
    supervisor.stop(1);
    wait_until(&mut supervisor, ended(1));
    assert_eq!(std::fs::read_to_string(signals).unwrap(), "1\n");
}

#[test]
fn held_child_reads_end_of_file_when_stopped() {
    let mut supervisor = Supervisor::together();
    shell(&mut supervisor, "cat >/dev/null; exit 7", true);
    supervisor.stop(1);
    assert_eq!(wait_until(&mut supervisor, ended(1)), ["0 exit status: 7"]);
}

#[test]
fn drop_stops_children() {
    let since = Instant::now();
    let mut supervisor = Supervisor::new();
    shell(&mut supervisor, "exec sleep 60", false);
    let pid = supervisor.pid(0);
    drop(supervisor);
    assert!(since.elapsed() < TEST_TIMEOUT);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn child_that_does_not_end_is_killed_after_timeout() {
    let (mut process, control) =
        spawn_with_control(Command::new("/bin/sh").args(["-c", "exec sleep 60"])).unwrap();
    drop(control);
    let since = Instant::now();
    wait_or_kill(&mut process, Duration::from_millis(50));
    assert!(since.elapsed() < TEST_TIMEOUT);
    assert!(process.try_wait().unwrap().is_some());
}
