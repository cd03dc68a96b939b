use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bgp::MessageType;
use bgp::mrt::{Body, Records};

use super::*;
use crate::Error;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name)
}

fn run(from: &Path, into: &Path, target: Target) -> Result<Summary> {
    convert(from, into, target, pipeline::Settings::default(), &AtomicBool::new(false))
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut input = Input::open(path, false).unwrap();
    let mut bytes = Vec::new();
    loop {
        bytes.extend_from_slice(input.unread());
        input.consume(input.unread().len());
        if input.fill(1, std::time::Duration::from_millis(50)).unwrap() == crate::input::Fill::End {
            return bytes;
        }
    }
}

fn updates(mrt: &[u8]) -> Vec<(std::net::IpAddr, Vec<u8>)> {
    let mut peers: Vec<(std::net::IpAddr, Vec<u8>)> = Vec::new();
    for record in Records::new(mrt) {
        let Ok(Body::Message(message)) = record.unwrap().parse() else { continue };
        if message.message().is_none_or(|one| one.kind() != MessageType::UPDATE) {
            continue;
        }
        let peer = message.session.peer;
        let at = peers.iter().position(|(known, _)| *known == peer).unwrap_or_else(|| {
            peers.push((peer, Vec::new()));
            peers.len() - 1
        });
        peers[at].1.extend_from_slice(message.bytes);
    }
    peers.sort();
    peers
}

#[test]
fn reports_capture_without_readable_bgp() {
    let folder = tempfile::tempdir().unwrap();
    let from = data("field/26-other-port/port1179.pcap");
    let summary = run(&from, &folder.path().join("a.mrt"), Target::Mrt).unwrap();
    assert!(summary.troubles[0].ends_with("(read them with --port 1179)"), "{summary:?}");
    let mut settings = pipeline::Settings::default();
    settings.decapsulate.ports = vec![1179];
    settings.sessions.routers = vec!["192.0.2.1".parse().unwrap()];
    let into = folder.path().join("b.mrt");
    let summary = convert(&from, &into, Target::Mrt, settings, &AtomicBool::new(false)).unwrap();
    assert_eq!((summary.trouble_count, summary.gaps), (0, 0));
    assert_eq!(updates(&fs::read(&into).unwrap()).len(), 1);
}

#[test]
fn derives_format_from_file_name() {
    let of = |name: &str| Target::of_name(Path::new(name));
    assert_eq!(of("a/b.mrt"), Some(Target::Mrt));
    assert_eq!(of("updates.20260101.0000.gz"), Some(Target::Mrt));
    assert_eq!(of("rib.20260101.0000.bz2"), Some(Target::Mrt));
    assert_eq!(of("x.JSON.zst"), Some(Target::Json));
    assert_eq!(of("x.jsonl"), Some(Target::Json));
    assert_eq!(of("x.txt.gz"), Some(Target::Bgpdump));
    assert_eq!((of("x.pcap"), of("x.pcapng")), (Some(Target::Pcap), Some(Target::Pcapng)));
    assert_eq!((of("-"), of("x"), of("x.gz"), of("..")), (None, None, None, None));
}

#[test]
fn converts_captures_to_archives_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let capture = data("pcap/addpath-extmsg-as4-v6-md5.pcap");
    run(&capture, &at("first.mrt.gz"), Target::Mrt).unwrap();
    let first = unpacked(&at("first.mrt.gz"));
    let truth = updates(&fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap());
    assert_eq!(updates(&first), truth);
    for (name, target) in [("again.pcap", Target::Pcap), ("again.pcapng", Target::Pcapng)] {
        run(&at("first.mrt.gz"), &at(name), target).unwrap();
        let summary = run(&at(name), &at("second.mrt"), Target::Mrt).unwrap();
        assert_eq!((summary.trouble_count, summary.gaps), (0, 0), "{summary:?}");
        assert_eq!(updates(&fs::read(at("second.mrt")).unwrap()), truth);
    }
}

#[test]
fn exports_captured_messages_as_bmp() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let capture = data("pcap/addpath-extmsg-as4-v6-md5.pcap");
    run(&capture, &at("out.bmp.bz2"), Target::Bmp).unwrap();
    let summary = run(&at("out.bmp.bz2"), &at("out.mrt"), Target::Mrt).unwrap();
    assert_eq!(summary.trouble_count, 0, "{summary:?}");
    let truth = updates(&fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap());
    assert_eq!(updates(&fs::read(at("out.mrt")).unwrap()), truth);
}

#[test]
fn prints_lines_of_bgpdump() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.txt");
    let path = data("mrt/routeviews.route-views.jinx.updates.1427846400.bz2");
    run(&path, &ours, Target::Bgpdump).unwrap();
    let ours = fs::read(&ours).unwrap();
    assert!(ours.starts_with(b"BGP4MP|1427846"), "{:?}", &ours[..40]);
    let Ok(theirs) = Command::new("bgpdump").arg("-m").arg(&path).output() else { return };
    assert!(ours == theirs.stdout);
}

#[test]
fn names_output_only_when_complete() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let names = || fs::read_dir(folder.path()).unwrap().count();
    for (text, cause) in [("neither of them", "neither a capture"), ("{}", "JSON Lines are")] {
        fs::write(at("text"), text).unwrap();
        let refused = run(&at("text"), &at("x.mrt"), Target::Mrt);
        assert!(
            matches!(&refused, Err(Error::Content { cause: why, .. }) if why.starts_with(cause))
        );
    }
    assert!(run(&at("nothing"), &at("x.mrt"), Target::Mrt).is_err());
    assert!(run(&at("text"), &at("no/folder/x.mrt"), Target::Mrt).is_err());
    assert_eq!(names(), 1);
    // The previous file remains until the new one is complete.
    fs::write(at("x.mrt"), "before").unwrap();
    let capture = data("pcap/addpath-extmsg-as4-v6-md5.pcap");
    let stopped = AtomicBool::new(true);
    let settings = pipeline::Settings::default;
    let summary = convert(&capture, &at("x.mrt"), Target::Mrt, settings(), &stopped).unwrap();
    assert!(summary.stopped);
    assert_eq!((names(), fs::read(at("x.mrt")).unwrap()), (2, b"before".to_vec()));
    run(&capture, &at("x.mrt"), Target::Mrt).unwrap();
    assert_eq!(names(), 2);
    assert!(fs::read(at("x.mrt")).unwrap().len() > 1000);
}

#[test]
fn reports_damage_and_converts_rest() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap();
    fs::write(at("torn.mrt"), &whole[..whole.len() - 7]).unwrap();
    let summary = run(&at("torn.mrt"), &at("out.mrt"), Target::Mrt).unwrap();
    assert_eq!(summary.trouble_count, 1);
    assert!(summary.troubles[0].contains("cut off"), "{:?}", summary.troubles);
    let out = fs::read(at("out.mrt")).unwrap();
    assert!(whole.starts_with(&out) && out.len() > whole.len() / 2);
    run(&at("torn.mrt"), &at("out.mrt.gz"), Target::Mrt).unwrap();
    let packed = fs::read(at("out.mrt.gz")).unwrap();
    fs::write(at("torn.mrt.gz"), &packed[..packed.len() / 2]).unwrap();
    let summary = run(&at("torn.mrt.gz"), &at("half.mrt"), Target::Mrt).unwrap();
    assert!(summary.trouble_count >= 1 && summary.read > 10, "{summary:?}");
    assert!(out.starts_with(&fs::read(at("half.mrt")).unwrap()));
}
