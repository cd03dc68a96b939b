//! Two mirrors that show sessions with equal addresses, AS and BGP identifiers.

use bgp::{Asn, Message, Negotiated};
use collector::{Event, Peering, Sender, Sink};

use super::*;
use crate::Writer;
use crate::archive::TABLES;

fn session(mirror: u32) -> Peering {
    let negotiated = Negotiated { four_octet_as: true, ..Negotiated::default() };
    Peering {
        peer_as: Asn(65001),
        peer_id: 7,
        local_as: Asn(65000),
        local_id: 9,
        from_peer: negotiated,
        from_local: negotiated,
        certain: true,
        ..Peering::new(
            PeeringId(mirror),
            MirrorId(mirror),
            [10, 0, 0, 1].into(),
            [10, 0, 0, 9].into(),
        )
    }
}

fn update(body: &[u8]) -> Vec<u8> {
    let mut bytes = bgp::MARKER.to_vec();
    bytes.extend((19 + body.len() as u16).to_be_bytes());
    bytes.push(2);
    bytes.extend_from_slice(body);
    bytes
}

/// Announces 192.0.2.0/24 with the next hop 10.0.0.`hop`.
fn announcement(hop: u8) -> Vec<u8> {
    let path = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe9];
    let hop = [0x40, 3, 4, 10, 0, 0, hop];
    update(&[&[0, 0, 0, 20], &path[..], &hop, &[24, 192, 0, 2]].concat())
}

fn withdrawal() -> Vec<u8> {
    update(&[0, 4, 24, 192, 0, 2, 0, 0])
}

const fn at(seconds: u64) -> Time {
    Time::from_nanos((1_700_000_000 + seconds) * 1_000_000_000)
}

/// Each mirror announces the prefix, a table follows, and mirror 2 withdraws the prefix.
fn archive_of_two_mirrors(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let archive = archive::Archive::open(folder, collected(folder, Layout::Ris)).unwrap();
    let mut writer = Writer::new(archive, collector::archive::Settings::default());
    let mut rib = Rib::new();
    let tell = |writer: &mut Writer, rib: &mut Rib, seconds, mirror, bytes: &[u8]| {
        let message = Message::split(bytes).unwrap();
        let event = Event::Message { time: at(seconds), from: Sender::Peer, message };
        writer.event(&session(mirror), &event);
        rib.event(&session(mirror), &event);
    };
    tell(&mut writer, &mut rib, 0, 1, &announcement(1));
    tell(&mut writer, &mut rib, 0, 2, &announcement(2));
    assert!(rib.begin_snapshot(at(4), 0, b"rc"));
    let mirrors: Vec<u32> = rib.snapshot_mirrors().map(|mirror| mirror.0).collect();
    assert_eq!(mirrors, [1, 2]);
    let mut table = Vec::new();
    while !rib.write_snapshot(1 << 20, &mut table) {}
    let mut snapshot = writer.archive().snapshot(at(4), mirrors).unwrap();
    snapshot.append(&table).unwrap();
    snapshot.finish().unwrap();
    tell(&mut writer, &mut rib, 10, 2, &withdrawal());
    tell(&mut writer, &mut rib, 20, 1, &announcement(3));
    writer.close().unwrap();
    let names = "{\"mirror\":1,\"name\":\"VLAN 10\"}\n{\"mirror\":2,\"name\":\"VLAN 20\"}\n";
    fs::write(folder.join("rc/MIRRORS"), names).unwrap();
}

/// Mirror, its name and the next hop of each route to the prefix.
fn found(answer: &Routes) -> Vec<(u64, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let answer = answer.json();
    let routes = answer["routes"].as_array().unwrap().iter().map(|route| {
        let peering = &route["peering"];
        let mirror = peering["mirror"].as_u64().unwrap();
        (mirror, text(&peering["mirror_name"]), text(&route["next_hop"]))
    });
    let mut routes: Vec<_> = routes.collect();
    routes.sort();
    routes
}

fn ask(archives: &Archives, seconds: u64) -> Routes {
    let mut question = Question::new("192.0.2.0/24").unwrap();
    question.at = Some(at(seconds));
    routes(archives, &question).unwrap()
}

#[test]
fn names_mirror_of_each_route() {
    let folder = tempfile::tempdir().unwrap();
    archive_of_two_mirrors(folder.path());
    let archives = open(folder.path());
    let route = |mirror, name: &str, hop: &str| (mirror, name.to_owned(), hop.to_owned());
    let before = ask(&archives, 5);
    assert!(before.json()["archives"][0]["table"].is_number());
    let both = [route(1, "VLAN 10", "10.0.0.1"), route(2, "VLAN 20", "10.0.0.2")];
    assert_eq!(found(&before), both);
    let text = before.table();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("  AS  mirror  since"), "{text}");
    assert!(lines[1..].contains(&"mirror 2: VLAN 20"), "{text}");
    assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
    let after = ask(&archives, 15);
    assert_eq!(found(&after), both[..1]);
    assert!(!after.table().contains("mirror"), "{}", after.table());
    assert_eq!(after.notes().find(|note| note.contains("mirrors")), None);
    // An idle session is the same session, although only the list has the name of its mirror.
    let mut question = Question::new("192.0.2.0/24").unwrap();
    (question.at, question.diff) = (Some(at(5)), Some(at(25)));
    let changes = routes(&archives, &question).unwrap().json()["changes"].clone();
    let kinds: Vec<_> = changes.as_array().unwrap().iter().map(|one| &one["change"]).collect();
    assert_eq!(kinds, ["changed", "removed"], "{changes}");
}

#[test]
fn keeps_mirrors_of_two_archives_apart() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["one", "two"].map(|name| folder.path().join(name));
    for path in &both {
        archive_of_two_mirrors(path);
    }
    let found = found(&ask(&Archives::open(&both).unwrap(), 5));
    let mirrors: Vec<_> = found.iter().map(|(mirror, name, _)| (*mirror, &**name)).collect();
    let wanted = [(1, "VLAN 10"), (1, "VLAN 10"), (2, "VLAN 20"), (2, "VLAN 20")];
    assert_eq!(mirrors, wanted);
}

#[test]
fn reports_ambiguous_table_without_mirror_list() {
    let folder = tempfile::tempdir().unwrap();
    archive_of_two_mirrors(folder.path());
    fs::remove_file(folder.path().join("rc").join(TABLES)).unwrap();
    let answer = ask(&open(folder.path()), 15);
    let notes: Vec<_> = answer.notes().filter(|note| note.contains("no list states")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
}
