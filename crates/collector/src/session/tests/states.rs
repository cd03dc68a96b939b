//! States, collision, hold time, perspective.

use std::net::IpAddr;

use super::*;

#[test]
fn a_session_from_syn_to_notification() {
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).expect(&[
        "1 p0 Idle > Active Seen",
        "1.1 p0 Peer OPEN",
        "1.1 p0 Active > OpenSent Seen",
        "1.2 p0 Local OPEN",
        "1.2 p0 OpenSent > OpenConfirm Seen",
        "1.3 p0 Local KEEPALIVE",
        "1.4 p0 Peer KEEPALIVE",
        "1.4 p0 OpenConfirm > Established Seen",
    ]);
    script.say(2.0, 0, LOW, &update(4, 1, &PREFIX)).expect(&["2 p0 Peer UPDATE"]);
    script
        .say(3.0, 0, HIGH, &message(3, &[6, 2]))
        .close(3.0, 0, HIGH, Close::Finished)
        .expect(&["3 p0 Local NOTIFICATION", "3 p0 Established > Idle Notification(Local, 6, 2)"]);
    // What was still on its way is told, and makes no session.
    script.say(3.1, 0, LOW, &update(4, 1, &PREFIX)).close(3.2, 0, LOW, Close::Reset);
    script.end(3.2, 0).expect(&["3.1 p0 Peer UPDATE"]);
    let (peering, _) = script.0.peerings().next().unwrap();
    assert!(peering.certain && peering.from_peer.four_octet_as);
    assert_eq!((peering.peer_as, peering.local_as, peering.session), (Asn(1), Asn(9), 0));
    script.establish(10.0, 3, 1);
    assert_eq!(script.0.peerings().next().unwrap().0.session, 1);
}

#[test]
fn ends_without_notification() {
    for (close, reason) in [
        (Close::Finished, "Finished"),
        (Close::Reset, "Reset"),
        (Close::Replaced, "Replaced"),
        (Close::Evicted, "Forgotten"),
    ] {
        let mut script = Script::configured();
        script.establish(1.0, 0, 1).told();
        let line = format!("5 p0 Established > Idle {reason}");
        script.close(5.0, 0, LOW, close).close(5.0, 0, HIGH, close).expect(&[&line]);
    }
    // Taken over long after the hold time: that is when it ended.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).told();
    let line = "91.4 p0 Established > Idle HoldTimeExpired";
    script.close(500.0, 0, LOW, Close::Replaced).expect(&[line]);
    // The end of the input says nothing.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).told();
    script.close(5.0, 0, LOW, Close::Ended).end(5.0, 0).expect(&[]);
}

#[test]
fn what_is_missing_of_an_end_without_messages_is_told() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).hole(2.0, 0, HIGH, 700).say(3.0, 0, LOW, &open4(1)).told();
    script.hole(4.0, 0, HIGH, 50).close(5.0, 0, HIGH, Close::Ended).end(5.0, 0);
    script.expect(&["4 p0 gap Local Unknown 750 0"]);
}

#[test]
fn of_two_connections_the_loser_goes_in_silence() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).connect(
        1.05,
        1,
        ["10.0.0.1:179", "10.0.0.9:33000"],
        Some(HIGH),
    );
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 1, HIGH, &open4(9)).say(1.3, 1, LOW, &open4(1));
    script.say(1.4, 0, HIGH, &message(3, &[6, 7])).close(1.4, 0, HIGH, Close::Finished);
    script.say(1.5, 1, HIGH, &keepalive()).say(1.6, 1, LOW, &keepalive());
    script.expect(&[
        "1 p0 Idle > Active Seen",
        "1.1 p0 Peer OPEN",
        "1.1 p0 Active > OpenSent Seen",
        "1.2 p0 Local OPEN",
        "1.3 p0 Peer OPEN",
        "1.3 p0 OpenSent > OpenConfirm Seen",
        "1.4 p0 Local NOTIFICATION",
        "1.5 p0 Local KEEPALIVE",
        "1.6 p0 Peer KEEPALIVE",
        "1.6 p0 OpenConfirm > Established Seen",
    ]);
    let facts = script.0.peerings().next().unwrap().0;
    assert!(facts.certain && facts.session == 0);
    // One more that loses against an established session.
    script.meet(2.0, 2, 1, Some(LOW)).say(2.1, 2, LOW, &open4(1)).say(2.2, 2, HIGH, &open4(9));
    script.say(2.3, 2, HIGH, &message(3, &[6, 7])).end(2.3, 2).expect(&[
        "2.1 p0 Peer OPEN",
        "2.2 p0 Local OPEN",
        "2.3 p0 Local NOTIFICATION",
    ]);
}

#[test]
fn a_loser_that_had_come_further_is_a_collision() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).meet(1.0, 1, 1, Some(LOW));
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9)).say(1.3, 1, LOW, &open4(1));
    script.told();
    script.close(1.4, 0, LOW, Close::Reset).expect(&["1.4 p0 OpenConfirm > OpenSent Collision"]);
}

#[test]
fn a_second_established_connection_ends_the_first() {
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).told();
    script.establish(50.0, 1, 1).expect(&[
        "50.1 p0 Peer OPEN",
        "50.2 p0 Local OPEN",
        "50.3 p0 Local KEEPALIVE",
        "50.4 p0 Peer KEEPALIVE",
        "50.4 p0 Established > Idle Replaced",
        "50.4 p0 Idle > OpenConfirm Seen",
        "50.4 p0 OpenConfirm > Established Seen",
    ]);
    script.close(51.0, 0, LOW, Close::Reset).expect(&[]);
    assert_eq!(script.0.peerings().next().unwrap().0.session, 1);
}

#[test]
fn what_is_met_in_the_middle_is_inferred() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &keepalive()).expect(&[
        "2 p0 gap Peer Start 0 0",
        "2 p0 Idle > Established Inferred",
        "2 p0 Peer KEEPALIVE",
    ]);
    let hole = Hole {
        time: at(3.0),
        since: at(2.0),
        missing: 100,
        unconfirmed: 0,
        skipped: 7,
        acknowledged: true,
        resynchronised: true,
    };
    script.0.hole(ConnectionId(0), LOW, &hole);
    script.0.hole(ConnectionId(0), LOW, &Hole { acknowledged: false, ..hole });
    // Before the first message of the other end: told with it.
    script.0.hole(ConnectionId(0), HIGH, &Hole { acknowledged: false, missing: 0, ..hole });
    script.say(4.0, 0, HIGH, &keepalive()).expect(&[
        "3 p0 gap Peer Mirror 100 7",
        "3 p0 gap Peer Unknown 100 7",
        "3 p0 gap Local Start 0 7",
        "4 p0 Local KEEPALIVE",
    ]);
}

#[test]
fn silence_ends_a_session_only_if_the_mirror_sees() {
    // Two sessions with a hold time of 90 s, one falls silent.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).establish(1.0, 1, 2).told();
    for round in 1..6 {
        script.say(1.4 + 30.0 * f64::from(round), 1, LOW, &keepalive());
    }
    let told = script.told();
    assert!(told.contains("91.4 p0 Established > Idle HoldTimeExpired"), "{told}");
    assert!(!told.contains("p1 Established"), "{told}");

    // Both fall silent: the mirror is blind.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).establish(1.0, 1, 2).told();
    for second in 2..2000 {
        script.0.advance(at(f64::from(second)));
    }
    script.expect(&[]);

    // A session that is alone is given three hold times.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).told();
    for second in 2..270 {
        script.0.advance(at(f64::from(second)));
    }
    script.expect(&[]);
    for second in 270..400 {
        script.0.advance(at(f64::from(second)));
    }
    script.expect(&["91.4 p0 Established > Idle HoldTimeExpired"]);
    assert_eq!(script.0.next_wake(), None);
}

/// A clock that is set hours forward and back while all sessions live ends none.
#[test]
fn timejump() {
    let mut script = Script::configured();
    script.establish(100_000.0, 0, 1).establish(100_000.0, 1, 2).told();
    let mut offset = 0.0;
    for round in 1..200 {
        let now = 100_000.0 + 30.0 * f64::from(round);
        if round % 20 == 0 {
            offset += 10_800.0;
        } else if round % 20 == 10 {
            offset -= 14_000.0;
        }
        script.say(now + offset, 0, LOW, &keepalive());
        script.0.advance(at(now + offset + 14.0));
        script.say(now + offset + 15.0, 1, LOW, &keepalive());
    }
    let told = script.told();
    assert!(told.lines().all(|line| line.ends_with("KEEPALIVE")), "{told}");
}

#[test]
fn a_router_is_found_by_what_is_known() {
    let router =
        |script: &Script, at: usize| -> IpAddr { script.0.peerings().nth(at).unwrap().0.local };
    let (one, nine): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
    // Both speak: the end that listens.
    let mut script = Script::new(Settings::default());
    script.establish(1.0, 0, 1).0.finish();
    assert_eq!(router(&script, 0), nine);
    // Configured otherwise.
    let mut script = Script::new(Settings {
        routers: vec![one],
        systems: vec![(one, Asn(77))],
        ..Settings::default()
    });
    script.meet(1.0, 0, 1, None).say(1.0, 0, HIGH, &keepalive());
    assert_eq!(router(&script, 0), one);
    assert_eq!(script.0.peerings().next().unwrap().0.local_as, Asn(77));
    // One end speaks: the other one, whatever the ports, after a second.
    let mut script = Script::new(Settings::default());
    script.meet(1.0, 0, 1, Some(LOW)).say(1.1, 0, HIGH, &open4(9)).expect(&[]);
    script.say(1.2, 0, HIGH, &keepalive()).expect(&[]);
    script.0.advance(at(2.2));
    assert_eq!(router(&script, 0), one);
    script.expect(&[
        "1 p0 Idle > Connect Seen",
        "1.1 p0 Peer OPEN",
        "1.1 p0 Connect > OpenSent Seen",
        "1.2 p0 Peer KEEPALIVE",
        "1.2 p0 OpenSent > OpenConfirm Seen",
        "1.2 p0 OpenConfirm > Established Seen",
    ]);
    // An end of several peerings, though it is not the one with port 179.
    script.connect(2.0, 1, ["10.0.0.1:3000", "10.0.0.5:179"], Some(LOW));
    script.say(2.0, 1, HIGH, &open4(5));
    assert_eq!(router(&script, 1), one);
}

#[test]
fn what_is_no_bgp_leaves_nothing() {
    let mut script = Script::new(Settings::default());
    for id in 0..1000 {
        script.meet(1.0, id, 1, Some(LOW)).close(2.0, id, LOW, Close::Reset).end(2.0, id);
    }
    script.expect(&[]);
    assert_eq!(script.0.peerings().count(), 0);
}

#[test]
fn peerings_have_a_limit() {
    let mut script = Script::new(Settings {
        peerings: 16,
        routers: vec!["10.0.0.9".parse().unwrap()],
        ..Settings::default()
    });
    script.establish(1.0, 0, 1).establish(1.0, 1, 2);
    for id in 2..40 {
        let ends = [format!("10.0.0.9:{}", 5000 + id), format!("10.0.1.{id}:179")];
        script.connect(2.0, id, [&ends[0], &ends[1]], None);
        script.say(2.0 + f64::from(id), id, HIGH, &message(3, &[6, 2]));
        script.say(3.0 + f64::from(id), 0, LOW, &keepalive());
    }
    assert_eq!(script.0.peerings().count(), 16);
    let told = script.told();
    // Idle ones went first.
    assert!(!told.contains("Forgotten"), "{told}");
    for id in 40..60 {
        let ends = [format!("10.0.0.9:{}", 5000 + id), format!("10.0.1.{id}:179")];
        script.connect(50.0, id, [&ends[0], &ends[1]], None);
        script.say(50.0 + f64::from(id), id, HIGH, &keepalive());
        script.say(51.0 + f64::from(id), 0, LOW, &keepalive());
    }
    let told = script.told();
    // Then the silent one, not the one that speaks.
    assert!(told.contains("p1 Established > Idle Forgotten"), "{told}");
    assert!(told.contains("p1 is forgotten") && !told.contains("p0 is forgotten"), "{told}");
    assert!(!told.contains("p0 Established > Idle Forgotten"), "{told}");
    assert_eq!(script.0.peerings().count(), 16);
}
