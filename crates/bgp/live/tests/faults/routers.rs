//! BIRD and FRR exchange tables. The archive of a capture of the session, whole or damaged, is
//! compared with the dump that each router wrote: both are equal, or a stated gap covers each
//! missing message; the archive has no message that the dump lacks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::collect::{Outcome, Output, collect, settings, write};
use crate::damage::{Damaged, Plan, damage};
use crate::encapsulate::{Carrier, Format};
use crate::mrt;
use crate::packet::{Original, read};

const BIRD: &str = "10.9.1.1";
const FRR: &str = "10.9.1.2";
const UPDATE: u8 = 2;

fn bird_configuration() -> String {
    let mut text = "router id 10.9.1.1; mrtdump \"bird.mrt\"; protocol device {}\n\
                    protocol static own { ipv4;\n"
        .to_owned();
    for number in 0..6_000 {
        let (high, low) = (number >> 8, number & 255);
        let (community, system) = (number / 3, 1_000 + number / 3 % 500);
        writeln!(
            text,
            "route 20.{high}.{low}.0/24 blackhole {{ \
             bgp_community.add((65000,{community})); bgp_path.prepend({system}); }};"
        )
        .unwrap();
    }
    text + "}\nprotocol bgp frr { local 10.9.1.1 as 65001; neighbor 10.9.1.2 as 65002; multihop;\n\
            mrtdump { messages, states }; connect delay time 1;\n\
            ipv4 { import all; export where proto = \"own\"; }; }\n"
}

fn frr_configuration() -> String {
    let mut text = "dump bgp all-et frr.mrt\nrouter bgp 65002\n bgp router-id 10.9.1.2\n \
                    no bgp ebgp-requires-policy\n no bgp network import-check\n \
                    neighbor 10.9.1.1 remote-as 65001\n \
                    neighbor 10.9.1.1 disable-connected-check\n address-family ipv4 unicast\n"
        .to_owned();
    for number in 0..4_000 {
        let (high, low, map) = (number >> 8, number & 255, number % 40);
        writeln!(text, "  network 30.{high}.{low}.0/24 route-map M{map}").unwrap();
    }
    text += "  neighbor 10.9.1.1 activate\n exit-address-family\n";
    for map in 0..40 {
        writeln!(text, "route-map M{map} permit 10\n set community 65002:{map} 65002:1000")
            .unwrap();
    }
    text
}

/// Runs the routers; returns false if this host cannot.
fn run(folder: &Path) -> bool {
    let test = "routers";
    let programs = ["/usr/sbin/bird", "/usr/lib/frr/bgpd", "/usr/bin/python3", "/usr/bin/nsenter"];
    let skip = |why: &str| {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test}: {why}");
        eprintln!("SKIPPED {test}: {why}");
        false
    };
    if let Some(missing) = programs.iter().find(|program| !Path::new(program).exists()) {
        return skip(&format!("{missing} is not installed"));
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/routers");
    fs::copy(own.join("sniff.py"), folder.join("sniff.py")).unwrap();
    fs::write(folder.join("bird.conf"), bird_configuration()).unwrap();
    fs::write(folder.join("frr.conf"), frr_configuration()).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "--mount-proc", "--pid"]);
    command.args(["--fork", "--kill-child"]);
    let probe =
        Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("no user namespaces");
    }
    let output = command.arg("bash").arg(own.join("lab.sh")).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

fn dumped(file: &Path, peer: &str, local: &str) -> Vec<Vec<u8>> {
    let ends = (peer.parse().unwrap(), local.parse().unwrap());
    let mut all = mrt::messages(&fs::read(file).unwrap());
    let messages = all.remove(&ends).unwrap_or_default();
    messages.into_iter().map(|(_, bytes)| bytes).filter(|bytes| bytes[18] == UPDATE).collect()
}

/// The number of missing UPDATEs, if all of them are stated.
fn compare(dump: &[Vec<u8>], events: &[Output], cut: bool) -> Result<usize, String> {
    let (mut at, mut lost, mut gap) = (0, 0, false);
    for event in events {
        let bytes = match event {
            Output::Message(_, bytes) if bytes[18] == UPDATE => bytes,
            Output::Message(..) => continue,
            Output::Gap(_) => {
                gap = true;
                continue;
            }
        };
        let distance = dump[at..].iter().position(|other| other == bytes);
        let Some(distance) = distance else {
            return Err(format!("an UPDATE behind number {at} was never dumped: {bytes:02x?}"));
        };
        if distance > 0 && !gap {
            return Err(format!("{distance} UPDATEs are missing at {at}, and no gap is stated"));
        }
        lost += distance;
        at += distance + 1;
        gap = false;
    }
    if at < dump.len() && !gap && !cut {
        return Err(format!("{} UPDATEs are missing at the end", dump.len() - at));
    }
    Ok(lost + dump.len() - at)
}

fn from_both_sides(folder: &Path, damaged: &Damaged, what: &str, cut: bool) -> [usize; 2] {
    let views = [(BIRD, FRR, "bird.mrt"), (FRR, BIRD, "frr.mrt")];
    views.map(|(local, peer, file)| {
        let files = write(folder, damaged, Carrier::Ethernet, Format::Pcap, 1);
        let mut settings = settings();
        settings.sessions.routers = vec![local.parse().unwrap()];
        let Outcome { collected, .. } = collect(&files, settings);
        let way = (1, peer.parse().unwrap(), local.parse().unwrap());
        let events = collected.by.get(&way).map(Vec::as_slice).unwrap_or_default();
        let dump = dumped(&folder.join(file), peer, local);
        assert!(dump.len() > 20, "{file}: {}", dump.len());
        let lost =
            compare(&dump, events, cut).unwrap_or_else(|why| panic!("{what}, {file}: {why}"));
        eprintln!("{what}: {lost} of {} UPDATEs of {file} are in stated gaps", dump.len());
        lost
    })
}

fn second_half(original: &Original) -> usize {
    original.packets.len() / 2
}

#[test]
fn matches_dump_of_bird_and_frr_or_states_gap() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !run(folder) {
        return;
    }
    let original = read(&folder.join("capture.pcap"), usize::MAX);
    let without_loss = [
        ("whole", Plan::default()),
        ("reordering", Plan { reorder: 500_000, distance: 12, ..Plan::default() }),
        ("duplicates", Plan { duplicate: 100_000, overlap: 100_000, ..Plan::default() }),
    ];
    for (what, plan) in without_loss {
        let lost = from_both_sides(folder, &damage(&original, &plan), what, false);
        assert_eq!(lost, [0, 0], "{what}");
    }
    for seed in 1..16 {
        for (what, plan) in [
            ("loss 0.02", Plan { loss: 20_000, ..Plan::default() }),
            ("loss 0.3", Plan { loss: 300_000, ..Plan::default() }),
            ("bad checksums 0.02", Plan { wrong: 20_000, ..Plan::default() }),
            ("bad checksums 0.3", Plan { wrong: 300_000, ..Plan::default() }),
            (
                "loss 0.02 and reordering",
                Plan { loss: 20_000, reorder: 300_000, distance: 12, ..Plan::default() },
            ),
        ] {
            let plan = Plan { seed, ..plan };
            from_both_sides(folder, &damage(&original, &plan), what, false);
        }
    }
    let half = second_half(&original);
    let mut first = damage(&original, &Plan::default());
    first.packets.truncate(half);
    from_both_sides(folder, &first, "first half", true);
    let second = damage(&original, &Plan { start: half, ..Plan::default() });
    from_both_sides(folder, &second, "second half", false);
}
