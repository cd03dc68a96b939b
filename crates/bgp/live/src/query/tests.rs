mod field;
mod mirrors;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base::{Span, Time};
use bgp::mrt::Records;
use collector::input::mrt;
use collector::rib::{Destination, Query, Rib, Route, Scope};
use collector::{MirrorId, PeeringId};

use super::*;
use crate::archive::{self, Compression, GAPS, Layout};
use crate::input::Captures;
use crate::job::{self, Settings};
use crate::live::Source;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name)
}

fn collected(folder: &Path, layout: Layout) -> archive::Options {
    let _ = fs::create_dir_all(folder);
    archive::Options {
        collector: "rc".to_owned(),
        layout,
        interval: Span::from_secs(2),
        compression: Compression::Gzip(1),
        ..archive::Options::default()
    }
}

/// Collects the capture with ADD-PATH into an archive.
fn collect(folder: &Path) {
    let options = collected(folder, Layout::Ris);
    let archive = Some((folder.to_owned(), options));
    let settings = Settings { archive, ..Settings::default() };
    let capture = data("pcap/addpath-extmsg-as4-v6-md5.pcap");
    let source = Source::Captures(Captures::open(&[capture], false, false).unwrap());
    job::packets(settings, vec![source], &AtomicBool::new(false)).unwrap();
}

/// An archive from the router's own dump of the same sessions, with files and tables
/// of two seconds.
fn dump(folder: &Path, layout: Layout) {
    const TABLE: u64 = 2_000_000_000;
    let bytes = fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap();
    let mut archive = archive::Archive::open(folder, collected(folder, layout)).unwrap();
    let mut reader = mrt::Input::new(MirrorId(0), PeeringId(0));
    let mut rib = Rib::new();
    let (mut next, mut last, mut waits) = (u64::MAX, Time::ZERO, 0);
    for record in Records::new(&bytes).flatten() {
        let now = record.time.as_nanos();
        // A busy collector writes the table later; its records then state their instant.
        let is_late = next / TABLE % 2 == 1;
        waits += u64::from(now >= next);
        if waits > if is_late { 2 } else { 0 } {
            let time = Time::from_nanos(next);
            let mut records = Vec::new();
            assert!(rib.begin_snapshot(if is_late { last } else { time }, 0, b"test"));
            while !rib.write_snapshot(1 << 20, &mut records) {}
            let mut snapshot = archive.snapshot(time, Vec::new()).unwrap();
            snapshot.append(&records).unwrap();
            snapshot.finish().unwrap();
            waits = 0;
        }
        if waits == 0 {
            next = (now / TABLE + 1) * TABLE;
        }
        last = record.time;
        reader.record(&record, &mut rib);
        archive.at(record.time).extend_from_slice(record.bytes);
    }
    archive.close().unwrap();
}

fn open(path: &Path) -> Archives {
    Archives::open(&[path.to_owned()]).unwrap()
}

type RouteKey = (Destination, Option<u32>, std::net::IpAddr, Vec<u8>);

fn key_of(route: &Route) -> RouteKey {
    let attributes = routes::sorted(route).into_iter();
    let attributes = attributes.flat_map(|(code, flags, value)| [&[code, flags], value].concat());
    (route.destination.clone(), route.path_id, route.peering.peer, attributes.collect())
}

/// All routes of the capture at an instant, from the router's own dump of all sessions.
fn reference(at: Time, scope: Scope) -> Vec<RouteKey> {
    let bytes = fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap();
    let mut reader = mrt::Input::new(MirrorId(0), PeeringId(0));
    let mut rib = Rib::new();
    for record in Records::new(&bytes).flatten().filter(|record| record.time <= at) {
        reader.record(&record, &mut rib);
    }
    let mut routes: Vec<_> =
        rib.query(&Query { scope, ..Query::default() }).iter().map(key_of).collect();
    routes.sort();
    routes
}

fn instants(archives: &Archives) -> Vec<Time> {
    let starts = archives.shelves[0].files.iter().filter_map(|file| file.start);
    starts.step_by(3).map(|start| start + Span::from_millis(1500)).collect()
}

#[test]
fn matches_routes_of_router_at_instant() {
    let folder = tempfile::tempdir().unwrap();
    dump(folder.path(), Layout::Ris);
    let archives = open(folder.path());
    assert_eq!(archives.shelves.len(), 1);
    let tables = archives.shelves[0].readable(crate::archive::Kind::Routes).count();
    assert!(tables >= 2, "{tables}");
    let (mut some, mut with_table) = (0, 0);
    for at in instants(&archives) {
        for text in ["0.0.0.0/0", "::/0"] {
            let mut question = Question::new(text).unwrap();
            (question.at, question.more) = (Some(at), true);
            let answer = routes(&archives, &question).unwrap();
            let mut found: Vec<_> = answer.found().iter().map(key_of).collect();
            found.sort();
            let all = Scope::MoreSpecific(question.prefix());
            assert_eq!(found.len(), reference(at, all).len(), "{text} at {at:?}");
            for (found, reference) in found.iter().zip(reference(at, all)) {
                assert_eq!(*found, reference, "{text} at {at:?}");
            }
            some += usize::from(!found.is_empty());
            with_table += usize::from(answer.json()["archives"][0]["table"].is_number());
        }
    }
    assert!(some >= 3 && with_table >= 3, "{some} {with_table}");
}

#[test]
fn finds_prefix_with_each_scope() {
    let folder = tempfile::tempdir().unwrap();
    dump(folder.path(), Layout::RouteViews);
    let archives = open(folder.path());
    let at = instants(&archives);
    // The instant with the most routes.
    let all = |at: &Time| reference(*at, Scope::All).len();
    let at = *at.iter().max_by_key(|at| all(at)).unwrap();
    let mut question = Question::new("0.0.0.0/0").unwrap();
    (question.at, question.more) = (Some(at), true);
    let every = routes(&archives, &question).unwrap();
    let one = every.found()[0].clone();
    let Destination::Prefix(prefix) = one.destination else { panic!() };
    for (text, more, less) in [
        (prefix.to_string(), false, false),
        (prefix.address().to_string(), false, false),
        (prefix.to_string(), true, true),
        (prefix.address().to_string(), false, true),
    ] {
        let mut question = Question::new(&text).unwrap();
        (question.at, question.more, question.less) = (Some(at), more, less);
        question.peer = Some(one.peering.peer);
        let path = collector::rib::path_text(one.path());
        question.path(&format!("^{path}$")).unwrap();
        let answer = routes(&archives, &question).unwrap();
        assert!(answer.found().iter().any(|route| key_of(route) == key_of(&one)), "{text}");
        assert!(answer.found().iter().all(|route| route.peering.peer == one.peering.peer));
        question.path("_999999_").unwrap();
        assert!(routes(&archives, &question).unwrap().is_empty());
    }
    let table = every.table();
    assert!(table.contains(&prefix.to_string()) && table.contains("next hop"), "{table}");
}

#[test]
fn diff_matches_routes_of_both_instants() {
    let folder = tempfile::tempdir().unwrap();
    dump(folder.path(), Layout::Ris);
    let archives = open(folder.path());
    let instants = instants(&archives);
    let mut changes = 0;
    for pair in instants.windows(2) {
        let mut question = Question::new("0.0.0.0/0").unwrap();
        question.more = true;
        let mut at = |at| {
            question.at = Some(at);
            routes(&archives, &question).unwrap().found().iter().map(key_of).collect::<Vec<_>>()
        };
        let (before, after) = (at(pair[0]), at(pair[1]));
        (question.at, question.diff) = (Some(pair[0]), Some(pair[1]));
        let answer = routes(&archives, &question).unwrap();
        let json = answer.json();
        let count = |what: &str| {
            let all = json["changes"].as_array().unwrap().iter();
            all.filter(|change| change["change"] == what).count()
        };
        let key = |route: &RouteKey| (route.0.clone(), route.1, route.2);
        let only = |one: &[RouteKey], other: &[RouteKey]| {
            let others: std::collections::BTreeSet<_> = other.iter().map(key).collect();
            one.iter().filter(|route| !others.contains(&key(route))).count()
        };
        assert_eq!(count("added"), only(&after, &before));
        assert_eq!(count("removed"), only(&before, &after));
        let both: std::collections::BTreeSet<_> = before.iter().collect();
        let new = after.iter().filter(|route| !both.contains(route)).count();
        assert_eq!(count("changed"), new - only(&after, &before));
        changes += json["changes"].as_array().unwrap().len();
    }
    assert!(changes > 0);
}

#[test]
fn queries_archives_without_lists() {
    let archives = open(&data("mrt/ris.rrc06.updates.1427846400.gz"));
    let all = peers(&archives, None).unwrap();
    let json = all.json();
    let peers = json["collectors"][0]["peers"].as_array().unwrap();
    assert!(!peers.is_empty());
    let announced: u64 = peers.iter().filter_map(|peer| peer["announced"].as_u64()).sum();
    assert!(announced > 100, "{announced}");
    assert!(peers[0]["inferred"].is_null());
    assert!(all.table().contains("no integrity account"));
    let gaps = gaps(&archives, None).unwrap();
    assert!(gaps.table().contains("cannot be distinguished"), "{}", gaps.table());
    let question = Question::new("0.0.0.0/0").unwrap();
    let notes: Vec<String> = routes(&archives, &question).unwrap().notes().collect();
    assert!(notes.iter().any(|note| note.contains("no table of routes")), "{notes:?}");
}

#[test]
fn matches_peer_counters_of_router() {
    let folder = tempfile::tempdir().unwrap();
    collect(folder.path());
    let archives = open(folder.path());
    let json = peers(&archives, None).unwrap().json();
    let peers_found = json["collectors"][0]["peers"].as_array().unwrap();
    let sum = |name: &str| peers_found.iter().filter_map(|peer| peer[name].as_u64()).sum::<u64>();
    let reference = open(&data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt"));
    let other = peers(&reference, None).unwrap().json();
    let other = other["collectors"][0]["peers"].as_array().unwrap().clone();
    let reference = |name: &str| other.iter().filter_map(|peer| peer[name].as_u64()).sum::<u64>();
    assert!(sum("announced") > 10_000);
    assert_eq!(sum("announced"), reference("announced"));
    assert_eq!(sum("withdrawn"), reference("withdrawn"));
    assert_eq!(json["collectors"][0]["accounted"], true);
    let peer = peers_found[0]["peer"].as_str().unwrap().parse().unwrap();
    let one = peers(&archives, Some(peer)).unwrap();
    assert_eq!(one.json()["collectors"][0]["peers"].as_array().unwrap().len(), 1);
}

#[test]
fn distinguishes_quiet_from_blind() {
    let folder = tempfile::tempdir().unwrap();
    collect(folder.path());
    let rc = folder.path().join("rc");
    let line = |hour: &str, verdict: &str, count: u64| {
        format!(
            "{{\"hour\":\"{hour}\",\"peer\":\"192.0.2.1\",\"peer_as\":64500,\
             \"local\":\"192.0.2.2\",\"verdict\":\"{verdict}\",\"blind_seconds\":{count},\
             \"gaps\":{{\"mirror\":{{\"count\":{count},\"missing\":100,\"skipped\":3}}}}}}\n"
        )
    };
    let noon = "2026-11-21T12:00Z";
    let lines = [
        line("2026-11-21T11:00Z", "quiet", 0),
        line(noon, "whole", 0),
        line(noon, "blind", 7),
        line("2026-11-21T13:00Z", "whole", 0),
    ];
    fs::write(rc.join("INTEGRITY"), lines.concat() + "half a li").unwrap();
    let start = moment("2026-11-21T13:10:00Z").unwrap().as_nanos() / 1000;
    let down = format!(
        "{{\"loss\":\"down\",\"since_us\":{start},\"until_us\":{},\"stopped\":false}}\n",
        start + 60_000_000
    );
    fs::write(rc.join(GAPS), down).unwrap();
    let archives = open(folder.path());
    let gaps = gaps(&archives, None).unwrap();
    let json = gaps.json();
    let collector = &json["collectors"][0];
    let hours = collector["hours"].as_array().unwrap();
    let verdicts: Vec<&str> = hours.iter().map(|hour| hour["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["quiet", "holes", "holes"]);
    assert_eq!(hours[1]["gaps"]["mirror"]["count"], 7);
    assert_eq!(hours[1]["gaps"]["mirror"]["missing"], 200);
    assert_eq!(hours[2]["collector_down_seconds"], 60);
    assert_eq!(collector["bad_lines"], 1);
    let table = gaps.table();
    assert!(!table.contains("2026-11-21T11:00Z") && table.contains(noon), "{table}");
    assert!(table.contains("the collector crashed") && table.contains("1 quiet"), "{table}");
}

#[test]
fn reports_missing_files() {
    let folder = tempfile::tempdir().unwrap();
    for minute in [0, 5, 10, 25, 30] {
        fs::write(folder.path().join(format!("updates.20261121.12{minute:02}")), "").unwrap();
    }
    let gaps = gaps(&open(folder.path()), None).unwrap();
    let absent = gaps.json()["collectors"][0]["absent"].clone();
    let at = |text: &str| moment(text).unwrap().as_nanos() as f64 / 1e9;
    let (since, until) = (at("2026-11-21 12:15"), at("2026-11-21 12:25"));
    assert_eq!(absent, serde_json::json!([{ "since": since, "until": until }]));
}

#[test]
fn rejects_invalid_questions() {
    for wrong in ["", "x", "10.0.0.0/33", "10.0.0.0/x", "10.0.0.1/8", "2001:db8::/129", "/8"] {
        let error = Question::new(wrong).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
    let mut question = Question::new("2001:db8::1").unwrap();
    assert!(question.path("(").is_err());
    for wrong in ["", "1", "65536:1", "1:2:3:4", "a:b"] {
        assert!(question.community(wrong).is_err(), "{wrong}");
    }
    assert!(question.community("64500:1").is_ok() && question.community("64500:1:2").is_ok());
    let folder = tempfile::tempdir().unwrap();
    assert!(Archives::open(&[folder.path().to_owned()]).is_err());
    assert!(Archives::open(&[folder.path().join("nothing")]).is_err());
}
