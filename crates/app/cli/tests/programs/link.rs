//! Commands behind one emulated link.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::bench::{
    Bench, NETARIUM, PING_TOLERANCE_MS, Running, count, enclosed, installed, number, processes,
    requires_labs, shortest_ping, skip, until,
};
use super::rootless;

/// A peer that sends nothing.
const SILENT: &[&str] = &["--to", "exec sleep 1000"];

fn link(bench: &Bench, options: &[&str], command: &[&str]) -> Output {
    let args = [&["link"], options, &["--"], command].concat();
    Running::spawn(&mut bench.command(&args)).output()
}

/// The output of a link whose summary goes to a file, and the summary.
fn summary(bench: &Bench, options: &[&str], command: &[&str]) -> (Output, Value) {
    let options = [options, &["--json", "--output", "summary"]].concat();
    let output = link(bench, &options, command);
    let text = fs::read_to_string(bench.path().join("summary"));
    let text = text.unwrap_or_else(|e| panic!("{e}: {}", err(&output)));
    (output, serde_json::from_str(&text).unwrap())
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An address of this machine other than loopback, if links can have an uplink here.
fn uplink(test: &str) -> Option<IpAddr> {
    if !enclosed(test) || !installed(test, &["pasta", "nc", "python3"]) {
        return None;
    }
    if fs::File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        skip(test, "pasta cannot open /dev/net/tun");
        return None;
    }
    // The source address of packets to the outside; no packet is sent.
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let own = own.map(|own| own.ip()).ok().filter(|own| !own.is_loopback());
    if own.is_none() {
        skip(test, "this machine has no network");
    }
    own
}

#[test]
fn command_inherits_streams_folder_and_environment() {
    requires_labs!();
    let bench = Bench::new();
    let script = "cat; pwd; echo $SECRET_OF_CALLER; id -u; hostname; : > made; \
                  echo complaint >&2; exit 7";
    let args = [&["link"], SILENT, &["--", "sh", "-c", script]].concat();
    let mut command = bench.command(&args);
    command.env("SECRET_OF_CALLER", "kept").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    let output_of = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output().unwrap();
        out(&output)
    };
    let dir = fs::canonicalize(bench.path()).unwrap();
    let (user, host) = (output_of("id", &["-u"]), output_of("hostname", &[]));
    let expected = format!("input\n{}\nkept\n{user}{host}", dir.display());
    assert_eq!(out(&output), expected, "{}", err(&output));
    assert!(err(&output).contains("complaint\n"), "{}", err(&output));
    assert!(err(&output).contains("up (here → peer)"), "{}", err(&output));
    assert!(bench.path().join("made").exists());
    assert!(!bench.path().join("runs").exists());
}

#[test]
fn returns_exit_codes_of_shell() {
    requires_labs!();
    let bench = Bench::new();
    let cases: [(&[&str], i32); 3] =
        [(&["sh", "-c", "kill -9 $$"], 137), (&["no-such-command"], 127), (&["/etc"], 126)];
    for (command, code) in cases {
        let output = link(&bench, SILENT, command);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{command:?}");
    }
}

#[test]
fn delays_and_counts_ping() {
    requires_labs!("ping");
    let bench = Bench::new();
    let options = [SILENT, &["--delay", "20 ms", "--up", "delay=25 ms"]].concat();
    let (output, summary) =
        summary(&bench, &options, &["ping", "-n", "-c", "3", "-i", "0.2", "peer"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    let printed = out(&output);
    assert!(shortest_ping(&printed) >= 45.0 - PING_TOLERANCE_MS, "{printed}");
    assert_eq!(summary["schema"], "netarium.link/1");
    assert_eq!(summary["exit_status"], 0);
    for (at, direction) in ["up", "down"].into_iter().enumerate() {
        let counts = &summary["links"][at];
        assert_eq!(counts["direction"], direction, "{summary}");
        assert!(count(&counts["sent_packets"]) >= 3, "{summary}");
        // 56 B of data, headers of ICMP and IP, and 38 B of Ethernet.
        assert!(count(&counts["sent_bytes"]) >= 3 * (56 + 28 + 38), "{summary}");
    }
    assert!(summary["verdict"]["trusted"].is_boolean(), "{summary}");
}

#[test]
fn total_loss_drops_all_packets() {
    requires_labs!("ping");
    let bench = Bench::new();
    let options = [SILENT, &["--loss", "100 %"]].concat();
    let command = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "peer"];
    let (output, summary) = summary(&bench, &options, &command);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(out(&output).contains(" 0 received"), "{}", out(&output));
    assert!(count(&summary["links"][0]["drops"]["loss"]) >= 2, "{summary}");
}

#[test]
fn command_reaches_the_program_at_the_other_end() {
    requires_labs!("nc");
    let bench = Bench::new();
    let options = ["--rate", "50 Mbit/s", "--queue", "unlimited", "--ready", "port 80"];
    let options = [&options[..], &["--to", "seq 1 20000 | nc -N -l 80"]].concat();
    let (output, summary) = summary(&bench, &options, &["nc", "-d", "peer", "80"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output).lines().count(), 20_000);
    assert!(count(&summary["links"][1]["sent_bytes"]) > 100_000, "{summary}");
    assert!(number(&summary["links"][1]["utilisation"]) > 0.0, "{summary}");
    assert_eq!(summary["programs"][0]["name"], "peer");
}

#[test]
fn connects_to_host_network_without_program() {
    let test = "connects_to_host_network_without_program";
    let Some(own) = uplink(test) else { return };
    let bench = Bench::new();
    // The loopback address has the name `outside`; the machine's other addresses are unchanged.
    for (address, name) in [(IpAddr::from([127, 0, 0, 1]), "outside"), (own, &own.to_string())] {
        let server = TcpListener::bind((address, 0)).unwrap();
        let port = server.local_addr().unwrap().port().to_string();
        let accept = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            stream.write_all(b"from the machine\n").unwrap();
        });
        let (output, summary) = summary(&bench, &["--delay", "5 ms"], &["nc", "-d", name, &port]);
        assert_eq!(out(&output), "from the machine\n", "{name}: {}", err(&output));
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(count(&summary["links"][1]["sent_packets"]) >= 2, "{summary}");
        accept.join().unwrap();
    }
}

const CONNECT: &str = "
import socket, sys, time
start = time.monotonic()
socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(time.monotonic() - start)
";

#[test]
fn nested_links_add_delays() {
    let test = "nested_links_add_delays";
    let Some(own) = uplink(test) else { return };
    let bench = Bench::new();
    let server = TcpListener::bind((own, 0)).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let (own, inner) = (own.to_string(), [NETARIUM, "link", "--delay", "15 ms", "--"]);
    let command = [&inner[..], &["python3", "-c", CONNECT, &own, &port]].concat();
    let output = link(&bench, &["--delay", "10 ms"], &command);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let took: f64 = out(&output).trim().parse().unwrap_or_else(|e| panic!("{e}: {}", err(&output)));
    assert!(took >= 0.050, "{took} s");
    assert_eq!(err(&output).matches("up (here → outside)").count(), 2, "{}", err(&output));
}

#[test]
fn errors_name_the_option() {
    let bench = Bench::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--rate", "10"], &["--rate: ", "Mbit/s"]),
        (&["--delay", "20"], &["--delay: ", "ms"]),
        (&["--loss", "0.01"], &["--loss: ", "1 %"]),
        (&["--up", "rate=10 Mbit/s,latency=5 ms"], &["--up latency: ", "delay"]),
        (&["--down", "fast"], &["--down: `fast` is not KEY=VALUE"]),
        (&["--trace", "missing.trace"], &["--trace: ", "missing.trace"]),
        (&["--rate", "1 Mbit/s", "--trace", "x"], &["--trace: ", "exclude"]),
        (&["--duration", "1 parsec"], &["--duration: ", "parsec"]),
        (&["--to", "no-such-program-here"], &["--to: ", "no-such-program-here"]),
        (&["--queue", "{ kind = \"cake\" }"], &["--queue: ", "cake"]),
    ];
    for (options, expected) in cases {
        let output = link(&bench, options, &["true"]);
        let printed = err(&output);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {printed}");
        assert_eq!(out(&output), "", "{options:?}");
        for text in *expected {
            assert!(printed.contains(text), "{options:?}: {printed}");
        }
    }
    let output = link(&bench, &["--rate", "10", "--json"], &["true"]);
    let object: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(object["errors"][0]["option"], "--rate", "{object}");
    assert_eq!(out(&output), "");
}

fn is_empty_of_links(dir: &Path) -> bool {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().all(|name| !name.to_string_lossy().starts_with("netarium-link"))
}

#[test]
fn forwards_signals_and_leaves_no_processes() {
    requires_labs!();
    for (number, signal) in ["-TERM", "-INT"].into_iter().enumerate() {
        let bench = Bench::new();
        let marker = format!("8{}{number}.25", std::process::id());
        let script = format!(
            "trap 'echo got; exit 3' TERM INT; setsid sleep {marker} & \
             while :; do sleep 0.05; done"
        );
        let peer = format!("exec sleep {marker}");
        let mut command = bench.command(&["link", "--to", &peer, "--", "sh", "-c", &script]);
        command.env("TMPDIR", bench.path());
        let running = Running::spawn(&mut command);
        // The shell, its child, the peer and its init.
        until("the command and the peer to run", || {
            (processes(&format!("sleep\0{marker}")).len() >= 2).then_some(())
        });
        running.signal(signal);
        let output = running.output();
        assert_eq!(output.status.code(), Some(3), "{signal}: {}", err(&output));
        assert_eq!(out(&output), "got\n", "{signal}");
        assert!(processes(&marker).is_empty(), "{signal}");
        assert!(is_empty_of_links(bench.path()), "{signal}");
    }
}

#[test]
fn killed_link_leaves_no_processes() {
    requires_labs!();
    let bench = Bench::new();
    let marker = format!("9{}.25", std::process::id());
    let peer = format!("exec sleep {marker}");
    let running =
        Running::spawn(&mut bench.command(&["link", "--to", &peer, "--", "sleep", &marker]));
    until("the command and the peer to run", || {
        (processes(&format!("sleep\0{marker}")).len() >= 2).then_some(())
    });
    running.signal("-KILL");
    assert_eq!(running.output().status.code(), None);
    until("the command and the peer to end", || processes(&marker).is_empty().then_some(()));
}

#[test]
fn duration_ends_the_command() {
    requires_labs!();
    let bench = Bench::new();
    let options = [SILENT, &["--duration", "500 ms", "--runs", "kept"]].concat();
    let output = link(&bench, &options, &["sleep", "1000"]);
    assert_eq!(output.status.code(), Some(143), "{}", err(&output));
    let folders = fs::read_dir(bench.path().join("kept")).unwrap();
    let folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let record = fs::read_to_string(folders[0].join("run.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["status"], "finished", "{record}");
}

#[test]
fn command_runs_as_unprivileged_caller() {
    let Some(bench) = rootless::user_bench("command_runs_as_unprivileged_caller") else { return };
    let script = "id -u; id -g; echo text > made; ping -n -c 1 peer > printed || cat printed >&2";
    let args = [&["link"], SILENT, &["--", "sh", "-c", script]].concat();
    let mut command = rootless::as_user(&bench, &args).unwrap();
    let output = Running::spawn(&mut command).output();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let user = rootless::UNUSED_USER_ID;
    assert_eq!(out(&output), format!("{user}\n{user}\n"), "{}", err(&output));
    let made = fs::metadata(bench.path().join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), user);
}
