//! The collector beside real routers: the archive of their cloned sessions has the sent messages,
//! and equals the dumps of the routers.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bgp::mrt::{Body, Records};

use super::bench::{Bench, NETARIUM, requires_labs};

const UPDATE: u8 = 2;
const TYPE: usize = 18;

/// The UPDATEs of each peer, and the number of its sessions.
type Received = BTreeMap<IpAddr, (Vec<Vec<u8>>, usize)>;

fn received(file: &Path) -> Received {
    let bytes = fs::read(file).unwrap();
    let mut received = Received::new();
    for record in Records::new(&bytes) {
        match record.unwrap().parse().unwrap() {
            Body::Message(message) if message.bytes[TYPE] == UPDATE && !message.form.local => {
                let (updates, _) = received.entry(message.session.peer).or_default();
                updates.push(message.bytes.to_vec());
            }
            // BIRD omits the peer of a broken connection.
            Body::StateChange(change) if change.new == 6 => {
                received.entry(change.session.peer).or_default().1 += 1;
            }
            _ => {}
        }
    }
    received
}

/// All files below a folder, for the diagnosis of failures.
fn listed(folder: &Path) -> String {
    let found = std::process::Command::new("find").arg(folder).arg("-ls").output().unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}

fn updates(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(updates(&path));
        } else if path.file_name().unwrap().to_string_lossy().starts_with("updates.") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Concatenates all files of an archive.
fn joined(archive: &Path, to: &Path) {
    let parts = updates(archive);
    assert!(!parts.is_empty(), "{}", listed(archive));
    fs::write(to, parts.iter().flat_map(|part| fs::read(part).unwrap()).collect::<Vec<u8>>())
        .unwrap();
}

/// A number in a line of a speaker; 0 if it is absent.
fn printed(line: &str, name: &str) -> u64 {
    let action: serde_json::Value = serde_json::from_str(line).unwrap();
    action[name].as_u64().unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// Runs the lab with a router and compares `sessions` of each peer. If a router drops unprocessed
/// messages when a session ends, its dump may lack messages that it received.
fn archives_received_messages(router: &str, script: &str, sessions: usize, drops: bool) {
    let (bench, labs) = (Bench::new(), root().join("labs/collector"));
    for folder in ["apps", "files"] {
        for entry in fs::read_dir(labs.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            bench.write(&format!("{folder}/{name}"), &fs::read_to_string(&path).unwrap());
        }
    }
    let out = bench.path().join("out").display().to_string();
    let table = root().join("data/bgp/pcap/full5x577737.pcap.zst").display().to_string();
    let mut set = vec![
        format!("program.router.env.ROUTER={router:?}"),
        format!("program.table.env.TABLE={table:?}"),
        format!("program.speaker.env.SCRIPT={script:?}"),
        "program.speaker.env.PREFIXES=\"10000\"".to_owned(),
        "lab.duration=120 s".to_owned(),
        "lab.tolerance=60 s".to_owned(),
    ];
    for (program, variable, value) in [
        ("table", "TABLES", out.as_str()),
        ("speaker", "TABLES", out.as_str()),
        ("router", "OUT", out.as_str()),
        ("collect", "OUT", out.as_str()),
        ("table", "NETARIUM", NETARIUM),
        ("collect", "NETARIUM", NETARIUM),
    ] {
        set.push(format!("program.{program}.env.{variable}={value:?}"));
    }
    // The devices hold several seconds of this traffic while the data path waits for a CPU.
    for flow in ["east", "west"] {
        set.push(format!("flow.{flow}.rate=10 Mbit/s"));
        set.push(format!("flow.{flow}.duration=12 s"));
    }
    let args: Vec<&str> = set.iter().flat_map(|value| ["--set", value]).collect();
    let lab = fs::read_to_string(labs.join("router.toml")).unwrap();
    let run = bench.run_with(&lab, &args).passed();

    let out = Path::new(&out);
    let whole = out.join("whole.mrt");
    joined(&out.join("archive"), &whole);
    let (theirs, ours) = (received(&out.join("router.mrt")), received(&whole));
    let peers: Vec<IpAddr> = (1..=5).map(|n| format!("10.9.{n}.2").parse().unwrap()).collect();
    for (peer, name) in peers.iter().zip(["p1", "p2", "p3", "p4", "p5"]) {
        let ((dumped, _), (kept, up)) = (&theirs[peer], &ours[peer]);
        assert!(!dumped.is_empty(), "{router} dumped nothing of {peer}");
        let mut all = kept.iter();
        assert!(
            dumped.iter().all(|message| all.any(|other| other == message)),
            "{router}, {peer}: not all of {} UPDATEs are among {}",
            dumped.len(),
            kept.len()
        );
        let counts = (dumped.len(), kept.len());
        assert!(drops || counts.0 == counts.1, "{router}, {peer}: {counts:?}");
        let lines = run.stdout(&format!("speaker.{name}"));
        let sent: u64 = lines.lines().map(|line| printed(line, "bytes")).sum();
        let bytes: usize = kept.iter().map(Vec::len).sum();
        assert_eq!(bytes as u64, sent, "{router}, {peer}");
        // The speaker accepts the OPEN of a router that then rejects the session, for example
        // because it has not seen the end of the previous one. The collector has only the
        // speaker's messages, so this is a session for it.
        let accepted =
            lines.lines().map(|line| printed(line, "accepted")).max().unwrap_or_default();
        let plausible = sessions..=accepted as usize;
        assert!(plausible.contains(up), "{router}, {peer}: {up} of {plausible:?} sessions");
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), peers.iter().collect::<Vec<_>>());
    let printed: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("collected.json")).unwrap()).unwrap();
    for nothing in ["kernel_drops", "missing_bytes", "gaps", "bad_checksums", "troubles"] {
        assert_eq!(printed[nothing], 0, "{nothing}: {}", run.dump());
    }
}

/// The actions of the speakers, each after its time in seconds.
const SCRIPT: &str = "8 announce 10 withdraw 11 reset 12 announce 14 drop 15 announce 17 end";

#[test]
fn archives_sessions_of_bird_exactly() {
    requires_labs!("bird", "python3");
    archives_received_messages("bird", SCRIPT, 3, false);
}

#[test]
fn archives_sessions_of_frr_exactly() {
    requires_labs!("../lib/frr/bgpd", "python3");
    archives_received_messages("frr", SCRIPT, 3, true);
}

#[test]
fn archives_sessions_of_gobgp_exactly() {
    requires_labs!("gobgpd", "python3");
    archives_received_messages("gobgp", "8 announce 11 withdraw 13 announce 18 end", 1, true);
}
