//! Sessions of which one OPEN or none was seen.

use super::*;
use crate::Confidence;

/// With a path identifier.
const WITH_ID: [u8; 8] = [0, 0, 0, 1, 24, 10, 0, 1];
/// Two prefixes of 24 bits: as long as one with an identifier.
const TWO: [u8; 8] = [24, 10, 0, 1, 24, 10, 0, 2];

/// Four octets, and path identifiers of IPv4 unicast sent.
fn offers_paths(asn: u32) -> Vec<u8> {
    open(asn, &[Capability::FourOctetAs(Asn(asn)), Capability::AddPath(&[[0, 1, 1, 2]])])
}

/// What the UPDATEs of neighbour 1 bring about, behind its `open` if there is one.
fn infer(open: Option<&[u8]>, updates: &[Vec<u8>]) -> String {
    let mut script = Script::configured();
    script.0.sink_mut().bare = true;
    script.meet(1.0, 0, 1, open.map(|_| LOW));
    if let Some(open) = open {
        script.say(1.0, 0, LOW, open).say(1.0, 0, LOW, &keepalive());
    }
    script.told();
    for (second, update) in (2..).zip(updates) {
        script.say(f64::from(second), 0, LOW, update);
    }
    script.told().replace("gap Peer Start 0 0\n", "").replace("Idle > Established Inferred\n", "")
}

#[test]
fn readings_are_found_and_told() {
    type Row<'a> = (&'a str, Option<&'a [u8]>, &'a [Vec<u8>], &'a str);
    let (two, four) = (|nlri: &[u8]| update(2, 7018, nlri), |nlri: &[u8]| update(4, 7018, nlri));
    let (old, new, paths) = (open(1, &[]), open4(1), offers_paths(1));
    let nothing = message(2, &[0, 0, 0, 0]);
    let table: [Row<'_>; 9] = [
        ("two octets are all it can", Some(&old), &[two(&PREFIX)], "Proved four false paths false"),
        ("two octets after all", Some(&new), &[two(&TWO)], "Proved four false paths false"),
        ("four octets", Some(&new), &[four(&TWO)], "Proved four true paths false"),
        ("four octets, one prefix", None, &[four(&PREFIX)], "Proved four true paths false"),
        ("identifiers", Some(&paths), &[four(&WITH_ID)], "Likely four true paths true"),
        ("none though offered", Some(&paths), &[four(&PREFIX)], "Proved four true paths false"),
        ("identifiers, no OPEN", None, &[two(&WITH_ID)], "Likely four false paths true"),
        (
            "an identifier that is no length",
            None,
            &[four(&[200, 0, 0, 1, 24, 10, 0, 1])],
            "Proved four true paths true",
        ),
        ("an End-of-RIB needs nothing", None, &[nothing], "Assumed four true paths false"),
    ];
    for (what, open, updates, reading) in table {
        let lines = format!("{reading} otherwise 0\n{}", "Peer UPDATE\n".repeat(updates.len()));
        assert_eq!(infer(open, updates), lines, "{what}");
    }
}

#[test]
fn messages_wait_until_they_can_be_read() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None);
    // Even numbers of prefixes of 24 bits fit both readings; the first odd number tells.
    for second in 0..3 {
        script.say(f64::from(second) + 2.0, 0, LOW, &update(4, 7018, &TWO));
    }
    script.say(5.0, 0, LOW, &keepalive()).say(5.5, 0, HIGH, &keepalive());
    script.expect(&["2 p0 gap Peer Start 0 0", "2 p0 Idle > Established Inferred"]);
    script.say(6.0, 0, LOW, &update(4, 7018, &PREFIX)).expect(&[
        "6 p0 Proved four true paths false otherwise 0",
        "2 p0 Peer UPDATE",
        "3 p0 Peer UPDATE",
        "4 p0 Peer UPDATE",
        "5 p0 Peer KEEPALIVE",
        "5.5 p0 gap Local Start 0 0",
        "5.5 p0 Local KEEPALIVE",
        "6 p0 Peer UPDATE",
    ]);
}

#[test]
fn waiting_has_its_limits() {
    let ambiguous = update(4, 7018, &TWO);
    // Time.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &ambiguous);
    assert!(script.0.next_wake().unwrap() <= at(32.0));
    for second in 3..40 {
        script.0.advance(at(f64::from(second)));
    }
    let told = script.told();
    assert!(told.contains("Likely four true paths false otherwise 0\n2 p0 Peer UPDATE"), "{told}");
    // Messages, bytes, bytes of all.
    let limits: [fn(&mut Settings); 3] = [
        |settings| settings.wait_messages = 3,
        |settings| settings.wait_bytes = 100,
        |settings| settings.wait_bytes_in_all = 100,
    ];
    for limit in limits {
        let routers = vec!["10.0.0.9".parse().unwrap()];
        let mut settings = Settings { routers, ..Settings::default() };
        limit(&mut settings);
        let mut script = Script::new(settings);
        script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &ambiguous).say(2.0, 0, LOW, &ambiguous);
        script.say(2.0, 0, LOW, &ambiguous);
        let told = script.told();
        assert_eq!(told.matches("UPDATE").count(), 3, "{told}");
    }
    // The end of the input, and of the session.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &ambiguous).close(3.0, 0, LOW, Close::Reset);
    let told = script.told();
    assert!(told.ends_with("2 p0 Peer UPDATE\n3 p0 Established > Idle Reset\n"), "{told}");
}

#[test]
fn what_is_refuted_is_told() {
    // The first messages fit both, and an odd reading wins: identifiers of 24 << 24 and more.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None);
    let odd = [0, 0, 0, 24, 24, 10, 0, 1];
    for second in 0..4 {
        script.say(2.0 + f64::from(second), 0, LOW, &update(4, 7018, &odd));
    }
    let told = script.told();
    assert!(told.contains("paths true otherwise 0"), "{told}");
    // Then a table without identifiers.
    for second in 0..6 {
        script.say(10.0 + f64::from(second), 0, LOW, &update(4, 7018, &PREFIX));
    }
    let told = script.told();
    let refuted = told.lines().find(|line| line.contains("otherwise")).unwrap();
    assert!(refuted.contains("Proved four true paths false otherwise 6"), "{told}");
    // What could not be read before that is told as well.
    assert_eq!(told.matches("Undecodable").count(), 2, "{told}");
    assert_eq!(told.matches("UPDATE").count(), 6, "{told}");
}

#[test]
fn what_was_learned_is_used() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).say(1.0, 0, LOW, &offers_paths(1));
    script.say(
        1.0,
        0,
        HIGH,
        &open(9, &[Capability::FourOctetAs(Asn(9)), Capability::AddPath(&[[0, 1, 1, 1]])]),
    );
    script.say(1.0, 0, LOW, &keepalive());
    let learned: Vec<Learned> = script.0.learned().collect();
    assert_eq!((learned.len(), learned[0].confidence), (1, Confidence::Proved));
    assert!(learned[0].from_peer.add_path.contains(Family::IPV4_UNICAST));
    assert!(learned[0].from_local.add_path.is_empty());
    // Another run meets the session in the middle: it waits for nothing, and is right.
    let mut script = Script::new(Settings::default());
    script.0.learn(learned[0]);
    script.meet(100.0, 0, 1, None).say(100.0, 0, LOW, &update(4, 1, &TWO)).expect(&[
        "100 p0 gap Peer Start 0 0",
        "100 p0 Idle > Established Inferred",
        "100 p0 Likely four true paths true otherwise 0",
        "100 p0 Peer UPDATE",
    ]);
    let facts = *script.0.peerings().next().unwrap().0;
    assert_eq!((facts.peer_as, facts.local_as, facts.certain), (Asn(1), Asn(9), false));
    // A new session that does not offer them any more cannot have them.
    script.close(101.0, 0, LOW, Close::Reset).end(101.0, 0).meet(102.0, 1, 1, Some(LOW));
    script.say(102.0, 1, LOW, &open4(1)).say(102.0, 1, LOW, &keepalive());
    script.say(103.0, 1, LOW, &update(4, 1, &TWO));
    let told = script.told();
    assert!(told.contains("Proved four true paths false otherwise 0"), "{told}");
}

#[test]
fn unreadable_updates_are_told_if_asked() {
    let routers = vec!["10.0.0.9".parse().unwrap()];
    let mut script = Script::new(Settings { routers, check: true, ..Settings::default() });
    script.establish(1.0, 0, 1).told();
    script.say(2.0, 0, LOW, &update(4, 1, &PREFIX)).say(3.0, 0, LOW, &update(4, 1, &[33, 0]));
    script.say(4.0, 0, LOW, &update(2, 1, &PREFIX)).say(5.0, 0, LOW, &message(2, &[9])).expect(&[
        "2 p0 Peer UPDATE",
        "3 p0 Peer UPDATE",
        "3 p0 gap Peer Undecodable 0 34",
        "4 p0 Peer UPDATE",
        "4 p0 gap Peer Undecodable 0 34",
        "5 p0 Peer UPDATE",
        "5 p0 gap Peer Undecodable 0 20",
    ]);
}

#[test]
fn long_messages_prove_extended_ones() {
    let mut script = Script::configured();
    let mut nlri = Vec::new();
    for third in 0..1100_u32 {
        nlri.extend([24, 10, (third >> 8) as u8, third as u8]);
    }
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &update(4, 7018, &PREFIX));
    assert!(!script.0.peerings().next().unwrap().0.from_peer.extended_message);
    script.say(3.0, 0, LOW, &update(4, 7018, &nlri));
    assert!(script.0.peerings().next().unwrap().0.from_peer.extended_message);
}
