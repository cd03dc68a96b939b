//! Sessions of which at most one OPEN was captured.

use super::*;
use crate::Confidence;

/// A prefix with a path identifier.
const WITH_ID: [u8; 8] = [0, 0, 0, 1, 24, 10, 0, 1];
/// Two prefixes of 24 bits, as long as one with a path identifier.
const TWO: [u8; 8] = [24, 10, 0, 1, 24, 10, 0, 2];

/// An OPEN with four-octet AS numbers, which offers to send path identifiers of IPv4 unicast.
fn offers_paths(asn: u32) -> Vec<u8> {
    open(asn, &[Capability::FourOctetAs(Asn(asn)), Capability::AddPath(&[[0, 1, 1, 2]])])
}

/// The output for UPDATEs of neighbour 1, after its `open` if there is one.
fn infer(open: Option<&[u8]>, updates: &[Vec<u8>]) -> String {
    let mut script = Script::configured();
    script.0.sink_mut().bare = true;
    script.meet(1.0, 0, 1, open.map(|_| LOW));
    if let Some(open) = open {
        script.say(1.0, 0, LOW, open).say(1.0, 0, LOW, &keepalive());
    }
    script.output();
    for (second, update) in (2..).zip(updates) {
        script.say(f64::from(second), 0, LOW, update);
    }
    script.output().replace("gap Peer Start 0 0\n", "").replace("Idle > Established Inferred\n", "")
}

#[test]
fn infers_and_reports_encoding() {
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
            "an identifier that is not a length",
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
fn holds_messages_until_encoding_is_known() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None);
    // Even numbers of prefixes of 24 bits fit both encodings; the first odd number decides.
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
fn limits_held_messages() {
    let ambiguous = update(4, 7018, &TWO);
    // The waiting time of held messages expires.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &ambiguous);
    assert!(script.0.next_wake().unwrap() <= at(32.0));
    for second in 3..40 {
        script.0.advance(at(f64::from(second)));
    }
    let output = script.output();
    assert!(
        output.contains("Likely four true paths false otherwise 0\n2 p0 Peer UPDATE"),
        "{output}"
    );
    // Limits of messages, bytes, and total bytes.
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
        let output = script.output();
        assert_eq!(output.matches("UPDATE").count(), 3, "{output}");
    }
    // The end of the input, and of the session.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &ambiguous).close(3.0, 0, LOW, Close::Reset);
    let output = script.output();
    assert!(output.ends_with("2 p0 Peer UPDATE\n3 p0 Established > Idle Reset\n"), "{output}");
}

#[test]
fn reports_refuted_reading() {
    // The first messages fit both encodings, and the wrong one wins: identifiers of 24 <<
    // 24 and more.
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None);
    let odd = [0, 0, 0, 24, 24, 10, 0, 1];
    for second in 0..4 {
        script.say(2.0 + f64::from(second), 0, LOW, &update(4, 7018, &odd));
    }
    let output = script.output();
    assert!(output.contains("paths true otherwise 0"), "{output}");
    // Then a table without identifiers.
    for second in 0..6 {
        script.say(10.0 + f64::from(second), 0, LOW, &update(4, 7018, &PREFIX));
    }
    let output = script.output();
    let refuted = output.lines().find(|line| line.contains("otherwise")).unwrap();
    assert!(refuted.contains("Proved four true paths false otherwise 6"), "{output}");
    // Earlier unreadable messages are reported as well.
    assert_eq!(output.matches("Undecodable").count(), 2, "{output}");
    assert_eq!(output.matches("UPDATE").count(), 6, "{output}");
}

#[test]
fn uses_parameters_of_earlier_run() {
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
    // A second run that starts within the session infers the encoding without holding messages.
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
    // A new session without the capability cannot have path identifiers.
    script.close(101.0, 0, LOW, Close::Reset).end(101.0, 0).meet(102.0, 1, 1, Some(LOW));
    script.say(102.0, 1, LOW, &open4(1)).say(102.0, 1, LOW, &keepalive());
    script.say(103.0, 1, LOW, &update(4, 1, &TWO));
    let output = script.output();
    assert!(output.contains("Proved four true paths false otherwise 0"), "{output}");
}

#[test]
fn reports_unreadable_updates_if_enabled() {
    let routers = vec!["10.0.0.9".parse().unwrap()];
    let mut script = Script::new(Settings { routers, check: true, ..Settings::default() });
    script.establish(1.0, 0, 1).output();
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
fn infers_extended_messages_from_length() {
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
