use std::fs;
use std::path::Path;

use super::*;
use crate::input::{Captures, Progress};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/bgp/pcap/addpath-extmsg-as4-v6-md5.pcap");

fn written(folder: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => written(&entry.path()),
        Ok(data) if entry.path().extension().is_some_and(|end| end == "open") => data.len(),
        _ => 0,
    };
    fs::read_dir(folder).unwrap().flatten().map(of).sum()
}

#[test]
fn capture_without_readable_bgp_is_incomplete() {
    let field = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/bgp/field/26-other-port");
    let missing = |name: &str, ports: Vec<u16>| {
        let captures = Captures::open(&[Path::new(field).join(name)], false, false).unwrap();
        let mut settings = Settings::default();
        settings.pipeline.decapsulate.ports = ports;
        settings.pipeline.sessions.routers = vec!["192.0.2.1".parse().unwrap()];
        let stop = AtomicBool::new(false);
        packets(settings, vec![Source::Captures(captures)], &stop).unwrap().missing()
    };
    let other = missing("port1179.pcap", vec![179]);
    assert!(other[0].ends_with("BGP segments of port 1179 (read them with --port 1179)"));
    assert_eq!(missing("port1179.pcap", vec![1179]), Vec::<String>::new());
    let all = "20 packets without readable BGP (20 packets of other protocols)";
    assert_eq!(missing("no-tcp.pcap", vec![179]), [all]);
}

/// A capture of one session and both directions: the router may be the end that sends the routes.
#[test]
fn capture_without_evidence_of_router_is_incomplete() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/bgp/field/26-other-port");
    let path = Path::new(path).join("port1179.pcap");
    for (routers, expected) in [
        (
            vec![],
            vec!["1 BGP session whose router's end was guessed (state it with --router ADDRESS)"],
        ),
        (vec!["192.0.2.1"], vec![]),
        (vec!["192.0.2.2"], vec![]),
    ] {
        let captures = Captures::open(std::slice::from_ref(&path), false, false).unwrap();
        let mut settings = Settings::default();
        settings.pipeline.decapsulate.ports = vec![1179];
        let routers: Vec<_> = routers.into_iter().map(|one| one.parse().unwrap()).collect();
        settings.pipeline.sessions.routers = routers;
        let source = vec![Source::Captures(captures)];
        let summary = packets(settings, source, &AtomicBool::new(false)).unwrap();
        assert_eq!(summary.missing(), expected);
    }
}

#[test]
fn flushes_records_under_continuous_load() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Some((folder.path().to_owned(), archive::Options::default()));
    let mut job = Job::new(Settings { archive, ..Settings::default() }).unwrap();
    job.live = true;
    let mut captures = Captures::open(&[CAPTURE.into()], false, false).unwrap();
    let each = &mut |item: Item<'_>| job.item(item);
    while captures.step(Duration::ZERO, each).unwrap() == Progress::More {}
    assert_eq!(written(folder.path()), 0, "the batch is too small for a separate write");
    job.pause(Clock::Unknown);
    assert!(written(folder.path()) > 1_000);
}
