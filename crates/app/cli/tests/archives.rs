//! Tests of BGP archives: `collect show`, `collect convert`, `collect check`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

fn netarium(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETARIUM_")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").current_dir(dir).args(args).output().unwrap()
}

fn collect(dir: &Path, args: &[&str]) -> Output {
    netarium(dir, &[&["collect"], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The path of a file in `data/bgp`.
fn data(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp");
    folder.join(file).display().to_string()
}

fn capture() -> String {
    data("pcap/addpath-extmsg-as4-v6-md5.pcap")
}

/// A folder with an archive of the capture.
fn archive() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let output = collect(dir.path(), &["--read", &capture(), "--out", "archive"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    dir
}

#[test]
fn show_peers_lists_the_peers_of_an_archive() {
    let dir = archive();
    let output = collect(dir.path(), &["show", "peers", "archive"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(table.contains("announced") && table.contains("fd09:1::2"), "{table}");
    let peers = object(&collect(dir.path(), &["show", "peers", "archive", "--json"]));
    assert_eq!(peers["schema"], "netarium.peers/1");
    assert!(peers.to_string().contains("/unicast\""), "families have names: {peers}");
    let gaps = object(&collect(dir.path(), &["show", "gaps", "archive", "--json"]));
    assert_eq!(gaps["schema"], "netarium.gaps/1");
    assert_eq!(gaps["collectors"][0]["accounted"], true);
}

/// The records of a pcap file: a header of 16 bytes, and the packet.
fn records(capture: &[u8]) -> Vec<&[u8]> {
    let (mut records, mut rest) = (Vec::new(), &capture[24..]);
    while !rest.is_empty() {
        let length = u32::from_le_bytes(*rest[8..].first_chunk().unwrap()) as usize;
        let (record, other) = rest.split_at(16 + length);
        records.push(record);
        rest = other;
    }
    records
}

/// The capture without its longest packet.
fn damaged(dir: &Path) -> String {
    let bytes = fs::read(capture()).unwrap();
    let mut records = records(&bytes);
    let longest = (0..records.len()).max_by_key(|at| records[*at].len()).unwrap();
    records.remove(longest);
    let path = dir.join("damaged.pcap");
    fs::write(&path, [&bytes[..24], &records.concat()].concat()).unwrap();
    path.display().to_string()
}

#[test]
fn reports_missing_data_in_last_line_and_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let last = |output: &Output| text(&output.stderr).lines().last().unwrap().to_owned();
    let whole = collect(dir.path(), &["--read", &capture(), "--out", "whole", "--strict"]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert!(last(&whole).ends_with("; complete: nothing is missing"), "{}", last(&whole));
    let damaged = damaged(dir.path());
    for (strict, status) in [(vec![], 0), (vec!["--strict"], 1)] {
        let args = [&["--read", damaged.as_str(), "--out", "damaged"], &strict[..]].concat();
        let output = collect(dir.path(), &args);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        let line = last(&output);
        let parts = ["; incomplete: 1 gap, ", " bytes missing", "show gaps damaged"];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        fs::remove_dir_all(dir.path().join("damaged")).unwrap();
    }
}

/// The routes of one session may be those of the router.
#[test]
fn capture_of_one_session_is_complete_only_with_router() {
    let dir = tempfile::tempdir().unwrap();
    let file = data("field/26-other-port/port1179.pcap");
    let read = ["--read", &file, "--port", "1179", "--strict", "--out"];
    let guess = collect(dir.path(), &[&read[..], &["guess"]].concat());
    assert_eq!(guess.status.code(), Some(1));
    let what = "incomplete: 1 BGP session whose router's end was guessed (state it with --router";
    let printed = text(&guess.stderr);
    assert!(printed.lines().last().unwrap().contains(what), "{printed}");
    let whole = collect(dir.path(), &[&read[..], &["whole", "--router", "192.0.2.1"]].concat());
    assert_eq!(whole.status.code(), Some(0));
    for (router, is_guess) in [(&[][..], true), (&["--router", "192.0.2.1"], false)] {
        let convert = ["convert", &file, "out.mrt", "--port", "1179"];
        let output = collect(dir.path(), &[&convert[..], router].concat());
        let printed = text(&output.stderr);
        let warning = "the router's end of a session was guessed";
        assert_eq!(
            (output.status.success(), printed.contains(warning)),
            (true, is_guess),
            "{printed}"
        );
    }
}

#[test]
fn shows_routes_at_given_time() {
    let dir = archive();
    let ask = |args: &[&str]| collect(dir.path(), &[&["show", "rib"], args].concat());
    let output = ask(&["0.0.0.0/0", "archive", "--more", "--json"]);
    assert_eq!(object(&output)["schema"], "netarium.rib/1");
    let output = ask(&["10.0.0.0/8", "archive", "--at", "1999-01-01 00:00"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("0 routes"));
    assert!(text(&output.stderr).contains("no records before"), "{}", text(&output.stderr));
    for (args, wanted) in [
        (&["10.0.0.0/33", "archive"][..], "invalid prefix"),
        (&["10.0.0.1/8", "archive"], "10.0.0.0/8"),
        (&["10.0.0.0/8", "archive", "--at", "noon"], "2026-11-21T12:00:00Z"),
        (&["10.0.0.0/8", "archive", "--path", "("], "pattern"),
        (&["10.0.0.0/8", "archive", "--community", "x"], "64500:1"),
        (&["10.0.0.0/8", "archive", "--at", "1500000000", "--diff", "1400000000"], "earlier"),
        (&["10.0.0.0/8", "nothing"], "nothing"),
        (&["10.0.0.0/8", "."], ""),
    ] {
        let output = ask(args);
        let printed = text(&output.stderr);
        let is_answer = args == ["10.0.0.0/8", "."];
        assert_eq!(output.status.code(), Some(if is_answer { 0 } else { 2 }), "{args:?} {printed}");
        assert!(printed.contains(wanted), "{args:?} {printed}");
    }
}

#[test]
fn converts_formats_to_files_and_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let convert = |args: &[&str]| collect(dir.path(), &[&["convert"], args].concat());
    let output = convert(&[&capture(), "a.mrt.gz"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = convert(&["a.mrt.gz", "-", "--to", "bgpdump"]);
    assert!(text(&lines.stdout).starts_with("BGP4MP_ET|"), "{}", text(&lines.stdout));
    let mut child = Command::new(env!("CARGO_BIN_EXE_netarium"));
    child.args(["collect", "convert", "-", "-", "--to", "bgpdump"]).current_dir(dir.path());
    child.stdin(fs::File::open(dir.path().join("a.mrt.gz")).unwrap()).stderr(Stdio::null());
    assert_eq!(text(&child.output().unwrap().stdout), text(&lines.stdout));
    let json = convert(&["a.mrt.gz", "-", "--to", "json", "--json"]).stdout;
    assert!(text(&json).starts_with("{\"time\":"), "{}", text(&json));
    let output = convert(&["a.mrt.gz", "b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--to"));
    fs::write(dir.path().join("text"), "hello").unwrap();
    assert_eq!(convert(&["text", "c.mrt"]).status.code(), Some(2));
    assert!(!dir.path().join("c.mrt").exists());
    // The intact part of a damaged input is converted, but the result is not trustworthy.
    let whole = fs::read(dir.path().join("a.mrt.gz")).unwrap();
    fs::write(dir.path().join("half.gz"), &whole[..whole.len() / 2]).unwrap();
    let output = convert(&["half.gz", "half.mrt", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(object(&output)["schema"], "netarium.convert/1");
}

#[test]
fn checks_archives() {
    let dir = archive();
    let output = collect(dir.path(), &["check", "archive"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let found = object(&collect(dir.path(), &["check", "archive", "--json"]));
    assert_eq!(
        (&found["schema"], &found["ok"]),
        (&"netarium.archive-check/1".into(), &true.into())
    );
    let manifest = fs::read_to_string(dir.path().join("archive/netarium/MANIFEST")).unwrap();
    let entry: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    let file = dir.path().join("archive/netarium").join(entry["file"].as_str().unwrap());
    fs::remove_file(&file).unwrap();
    let output = collect(dir.path(), &["check", "archive"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("absent"), "{}", text(&output.stdout));
}

/// Names and contents of an archive's files.
fn files_of(archive: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![archive.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains("updates.") {
                files.insert(path.strip_prefix(archive).unwrap().into(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Types and peers of BMP messages, by their headers alone.
fn bmp_messages(mut stream: &[u8]) -> Vec<(u8, IpAddr)> {
    let mut messages = Vec::new();
    while !stream.is_empty() {
        let length = u32::from_be_bytes(*stream[1..].first_chunk().unwrap()) as usize;
        let (message, rest) = stream.split_at(length);
        assert_eq!(message[0], 3, "version of RFC 7854");
        // Types up to 3 have a per-peer header, with an IPv4 address in its last 4 of 16 bytes.
        let octets = message.get(28..32).filter(|_| message[5] <= 3).unwrap_or(&[0; 4]);
        let peer = Ipv4Addr::from(*octets.first_chunk().unwrap());
        messages.push((message[5], peer.into()));
        stream = rest;
    }
    messages
}

#[test]
fn bmp_station_receives_all_of_a_file_before_the_command_exits() {
    const ROUTE_MONITORING: u8 = 0;
    const PEER_DOWN: u8 = 2;
    const PEER_UP: u8 = 3;
    const INITIATION: u8 = 4;
    const TERMINATION: u8 = 5;
    let dir = tempfile::tempdir().unwrap();
    let station = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = station.local_addr().unwrap().to_string();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = station.accept().unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let file = data("field/24-cut-then-down/one-lost-peer-closes.pcap");
    let args = ["--read", &file, "--router", "192.0.2.1", "--bmp", &address, "--strict"];
    let output = collect(dir.path(), &args);
    let errors = text(&output.stderr);
    // One packet is missing in the file; nothing is missing at the station.
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(!errors.contains("warning"), "{errors}");
    let messages = bmp_messages(&reader.join().unwrap());
    let kinds = |peer: &str| {
        let peer: IpAddr = peer.parse().unwrap();
        let own = messages.iter().filter(|(_, of)| *of == peer);
        own.map(|(kind, _)| *kind).collect::<Vec<_>>()
    };
    let routes = [ROUTE_MONITORING; 5];
    assert_eq!(kinds("192.0.2.2"), [&[PEER_UP][..], &routes, &[PEER_DOWN]].concat());
    assert_eq!(kinds("192.0.2.3"), [PEER_UP], "the session is up at the end of the file");
    assert_eq!(kinds("0.0.0.0"), [INITIATION, TERMINATION]);
    let ends = [messages.first(), messages.last()].map(|message| message.unwrap().0);
    assert_eq!(ends, [INITIATION, TERMINATION]);
}

/// Neither a pipe without a writer nor one without data delays the end.
#[test]
fn sigterm_ends_collection_from_silent_pipes() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    for input in ["fifo", "-"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
        // The address shows that signals are handled.
        command.args(["collect", "--read", input, "--serve", "127.0.0.1:0"]);
        if geteuid().is_root() {
            // Another user could not enter the test's folder.
            command.args(["--user", "root"]);
        }
        command.env("NO_COLOR", "1").current_dir(dir.path()).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut collector = command.spawn().unwrap();
        // The writer of standard input stays open and silent.
        let _writer = collector.stdin.take();
        let mut lines = BufReader::new(collector.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("serving at")));
        kill_process(Pid::from_child(&collector), Signal::TERM).unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(collector.wait().unwrap().code(), Some(130), "{input}: {rest:?}");
    }
}

#[test]
fn half_open_requests_do_not_stop_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let how = ["--rotate", "5 s", "--snapshot", "10 s", "--compress", "none"];
    let reference =
        collect(dir.path(), &[&["--read", &capture(), "--out", "reference"], &how[..]].concat());
    assert_eq!(reference.status.code(), Some(0), "{}", text(&reference.stderr));

    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 96; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_netarium")]);
    command.args(["collect", "--read", "-", "--out", "archive", "--serve", "127.0.0.1:0"]);
    command.args(how).env("NO_COLOR", "1").current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut collector = command.spawn().unwrap();
    let mut lines = BufReader::new(collector.stderr.take().unwrap()).lines();
    let address = lines
        .find_map(|line| {
            let line = line.unwrap();
            Some(line.split_once("http://")?.1.split_once('/')?.0.to_owned())
        })
        .unwrap();
    let clients: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut client = TcpStream::connect(&address).unwrap();
            // A replaced connection may already be closed.
            let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
            client
        })
        .collect();
    // The response to a whole request shows that all were accepted and replaced.
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    collector.stdin.take().unwrap().write_all(&fs::read(capture()).unwrap()).unwrap();
    let errors: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(collector.wait().unwrap().code(), Some(0), "{errors:?}");
    drop(clients);
    let (archived, wanted) =
        (files_of(&dir.path().join("archive")), files_of(&dir.path().join("reference")));
    assert!(wanted.len() > 2, "{:?}", wanted.keys());
    assert_eq!(archived, wanted);
}

#[test]
fn accepts_zero_as_snapshot_interval_and_explains_wrong_units() {
    let dir = tempfile::tempdir().unwrap();
    let run = |time: &str| {
        collect(dir.path(), &["--read", &capture(), "--out", "archive", "--snapshot", time])
    };
    assert_eq!(run("0").status.code(), Some(0));
    for (time, wanted) in [("5m", "`5 min`"), ("5", "needs a unit"), ("5 days", "min, h")] {
        let output = run(time);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("--snapshot") && message.contains(wanted), "{message}");
    }
}

/// A capture of the same session on VLAN 10 and VLAN 20; on VLAN 20 it ends early.
fn two_mirrors(dir: &Path) {
    let bytes = fs::read(capture()).unwrap();
    let packets = records(&bytes);
    let mut out = bytes[..24].to_vec();
    for (at, packet) in packets.iter().enumerate() {
        let (time, data) = (&packet[..8], &packet[16..]);
        for vlan in [10, 20] {
            if vlan == 20 && at > packets.len() * 3 / 4 {
                continue;
            }
            let tagged = [&data[..12], &[0x81, 0, 0, vlan], &data[12..]].concat();
            out.extend_from_slice(time);
            for _ in 0..2 {
                out.extend((tagged.len() as u32).to_le_bytes());
            }
            out.extend(tagged);
        }
    }
    fs::write(dir.join("two.pcap"), out).unwrap();
}

/// Peers of `show peers`: address, mirror, its name, state, UPDATEs, routes.
fn peers_of(dir: &Path, archive: &str) -> Vec<(String, u64, String, String, u64, u64)> {
    let answer = object(&collect(dir, &["show", "peers", archive, "--json"]));
    let word = |peer: &Value, name: &str| peer[name].as_str().unwrap_or("-").to_owned();
    let peers = answer["collectors"][0]["peers"].as_array().unwrap();
    let mut peers: Vec<_> = peers
        .iter()
        .map(|peer| {
            (
                word(peer, "peer"),
                peer["mirror"].as_u64().unwrap(),
                word(peer, "mirror_name"),
                word(peer, "state"),
                peer["messages"]["update"].as_u64().unwrap(),
                peer["routes"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    peers.sort();
    peers
}

#[test]
fn separates_equal_sessions_of_two_mirrors() {
    let dir = tempfile::tempdir().unwrap();
    two_mirrors(dir.path());
    let single = collect(dir.path(), &["--read", &capture(), "--out", "single"]);
    assert_eq!(single.status.code(), Some(0));
    let double = ["--read", "two.pcap", "--out", "two", "--snapshot", "1 min"];
    assert_eq!(collect(dir.path(), &double).status.code(), Some(0));
    let (one, two) = (peers_of(dir.path(), "single"), peers_of(dir.path(), "two"));
    assert_eq!(two.len(), 2 * one.len(), "{two:?}");
    // The first mirror shows the same sessions as the capture without VLANs.
    let named: Vec<_> = two.iter().filter(|peer| peer.2 == "interface 0, VLAN 10").collect();
    assert_eq!(named.len(), one.len(), "{two:?}");
    for (one, two) in one.iter().zip(&named) {
        assert_eq!((&one.0, &one.3, one.4), (&two.0, &two.3, two.4));
    }
    for peers in two.chunks(2) {
        assert_eq!(peers[0].0, peers[1].0);
        assert_eq!((peers[0].1, peers[1].1), (1, 2));
        assert!(peers[1].4 <= peers[0].4, "{peers:?}");
    }
    // Read again: converted to another archive, and via packets.
    let files: Vec<PathBuf> = files_of(&dir.path().join("two")).into_keys().collect();
    let mut replay = vec!["--read".to_owned()];
    replay.extend(files.iter().map(|file| format!("two/{}", file.display())));
    replay.extend(["--out".to_owned(), "again".to_owned()]);
    let words: Vec<&str> = replay.iter().map(String::as_str).collect();
    assert_eq!(collect(dir.path(), &words).status.code(), Some(0));
    let again = peers_of(dir.path(), "again");
    let content = |peers: &[(String, u64, String, String, u64, u64)]| -> Vec<_> {
        peers.iter().map(|peer| (peer.0.clone(), peer.1, peer.3.clone(), peer.4)).collect()
    };
    assert_eq!(content(&again), content(&two));
    let convert = collect(dir.path(), &["convert", "two.pcap", "packets.pcap"]);
    assert_eq!(convert.status.code(), Some(0), "{}", text(&convert.stderr));
    let read = ["--read", "packets.pcap", "--out", "packets"];
    assert_eq!(collect(dir.path(), &read).status.code(), Some(0));
    let packets = peers_of(dir.path(), "packets");
    let updates = |peers: &[(String, u64, String, String, u64, u64)]| -> Vec<_> {
        peers.iter().map(|peer| (peer.0.clone(), peer.1, peer.4)).collect()
    };
    assert_eq!(updates(&packets), updates(&two));
    // A second run in which VLAN 20 comes first keeps the numbers.
    let numbers = fs::read_to_string(dir.path().join("two/netarium/MIRRORS")).unwrap();
    assert_eq!(numbers.lines().count(), 2, "{numbers}");
    // While both mirrors show the sessions, their routes are equal.
    let peers = object(&collect(dir.path(), &["show", "peers", "two", "--json"]));
    let peers = peers["collectors"][0]["peers"].as_array().unwrap();
    let last = peers.iter().filter(|peer| peer["mirror"] == 2).map(|peer| &peer["last"]);
    let at = last.map(|last| last.as_f64().unwrap() as u64).min().unwrap().to_string();
    let [one, two] = ["single", "two"].map(|archive| routes_of(dir.path(), archive, &at));
    let of = |name: &str| -> Vec<_> {
        two.iter().filter(|route| route.1 == name).map(|route| &route.2).collect()
    };
    let prefixes: Vec<_> = one.iter().map(|route| &route.2).collect();
    assert!(!one.is_empty() && two.len() == 2 * one.len(), "{} {}", one.len(), two.len());
    assert!(of("interface 0, VLAN 10") == prefixes, "mirror 1 has other routes");
    assert!(of("interface 0, VLAN 20") == prefixes, "mirror 2 has other routes");
    assert!(two.iter().all(|route| route.1 == format!("interface 0, VLAN {}", 10 * route.0)));
}

/// Routes of `show rib` at a time: mirror, its name, and prefix, path identifier and peer.
fn routes_of(dir: &Path, archive: &str, at: &str) -> Vec<(u64, String, String)> {
    let mut routes = Vec::new();
    for all in ["0.0.0.0/0", "::/0"] {
        let how = ["show", "rib", all, archive, "--more", "--json", "--at", at];
        let answer = object(&collect(dir, &how));
        routes.extend(answer["routes"].as_array().unwrap().iter().map(|route| {
            let peering = &route["peering"];
            let name = peering["mirror_name"].as_str().unwrap_or("-").to_owned();
            let route = format!("{} {} {}", route["prefix"], route["path_id"], peering["peer"]);
            (peering["mirror"].as_u64().unwrap(), name, route)
        }));
    }
    routes.sort();
    routes
}
