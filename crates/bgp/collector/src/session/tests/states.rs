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
    // The router does not process late messages, which start no session.
    script.say(3.1, 0, LOW, &update(4, 1, &PREFIX)).say(3.1, 0, LOW, &message(3, &[6, 2]));
    script.close(3.2, 0, LOW, Close::Reset).end(3.2, 0).expect(&["3.1 p0 Peer NOTIFICATION"]);
    assert_eq!(script.0.late_messages(), 1);
    let (peering, _) = script.0.peerings().next().unwrap();
    assert!(peering.certain && peering.from_peer.four_octet_as);
    assert_eq!((peering.peer_as, peering.local_as, peering.session), (Asn(1), Asn(9), 0));
    script.establish(10.0, 3, 1);
    assert_eq!(script.0.peerings().next().unwrap().0.session, 1);
}

/// The peer does not use the encoding of the OPENs.
#[test]
fn reports_undecodable_updates_of_session_with_both_opens() {
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
    for second in 2..200 {
        script.say(second.into(), 0, LOW, &update(2, 1, &PREFIX)).expect(&[
            &format!("{second} p0 Peer UPDATE"),
            &format!("{second} p0 gap Peer Undecodable 0 34"),
        ]);
    }
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
        script.establish(1.0, 0, 1).output();
        let line = format!("5 p0 Established > Idle {reason}");
        script.close(5.0, 0, LOW, close).close(5.0, 0, HIGH, close).expect(&[&line]);
    }
    // The session is replaced long after the hold time: it ended when the hold time expired.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
    let line = "91.4 p0 Established > Idle HoldTimeExpired";
    script.close(500.0, 0, LOW, Close::Replaced).expect(&[line]);
    // The end of the input ends no session.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
    script.close(5.0, 0, LOW, Close::Ended).end(5.0, 0).expect(&[]);
}

#[test]
fn reports_gap_of_end_without_messages() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).hole(2.0, 0, HIGH, 700).say(3.0, 0, LOW, &open4(1)).output();
    script.hole(4.0, 0, HIGH, 50).close(5.0, 0, HIGH, Close::Ended).end(5.0, 0);
    script.expect(&["4 p0 gap Local Unknown 750 0"]);
}

#[test]
fn ignores_loser_of_collision() {
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
    // Another connection loses a collision against the established session.
    script.meet(2.0, 2, 1, Some(LOW)).say(2.1, 2, LOW, &open4(1)).say(2.2, 2, HIGH, &open4(9));
    script.say(2.3, 2, HIGH, &message(3, &[6, 7])).end(2.3, 2).expect(&[
        "2.1 p0 Peer OPEN",
        "2.2 p0 Local OPEN",
        "2.3 p0 Local NOTIFICATION",
    ]);
}

#[test]
fn reports_collision_if_loser_was_ahead() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, Some(LOW)).meet(1.0, 1, 1, Some(HIGH));
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9)).output();
    script.say(1.3, 1, LOW, &open4(1)).close(1.4, 0, LOW, Close::Reset);
    script.expect(&["1.3 p0 Peer OPEN", "1.4 p0 OpenConfirm > OpenSent Collision"]);
}

/// An end confirms both connections before it closes one of them.
#[test]
fn keeps_winner_of_collision_with_keepalives_on_both_connections() {
    for winner in [0, 1] {
        let mut script = Script::configured();
        script.meet(1.0, 0, 1, Some(LOW)).meet(1.0, 1, 1, Some(HIGH));
        for (time, id) in [(1.1, 0), (1.2, 1)] {
            script.say(time, id, LOW, &open4(1)).say(time + 0.05, id, HIGH, &open4(9));
        }
        script.say(1.3, 0, LOW, &keepalive()).say(1.35, 1, LOW, &keepalive());
        script.say(1.4, winner, HIGH, &keepalive()).close(1.5, 1 - winner, HIGH, Close::Finished);
        script.say(2.0, winner, LOW, &update(4, 1, &PREFIX));
        let output = script.output();
        assert!(output.contains("OpenConfirm > Established"), "{output}");
        assert!(output.ends_with("2 p0 Peer UPDATE\n"), "{output}");
        assert_eq!(script.0.peerings().next().unwrap().1, crate::State::Established);
    }
}

/// The peer's OPEN, and the end of the connection, were not captured.
#[test]
fn ends_session_that_was_not_established_before_the_next() {
    for opener in [LOW, HIGH] {
        let mut script = Script::configured();
        script.meet(1.0, 0, 1, Some(LOW)).say(1.1, 0, HIGH, &open4(9)).output();
        script.hole(2.0, 0, LOW, 40).meet(50.0, 1, 1, Some(opener));
        script.say(50.1, 1, LOW, &open4(1)).say(50.2, 1, HIGH, &open4(9));
        script.say(50.3, 1, HIGH, &keepalive()).say(50.4, 1, LOW, &keepalive());
        let begun = if opener == LOW { "Active" } else { "Connect" };
        script.expect(&[
            "2 p0 gap Peer Unknown 40 0",
            "50.1 p0 OpenSent > Idle Replaced",
            &format!("50.1 p0 Idle > {begun} Seen"),
            "50.1 p0 Peer OPEN",
            &format!("50.1 p0 {begun} > OpenSent Seen"),
            "50.2 p0 Local OPEN",
            "50.2 p0 OpenSent > OpenConfirm Seen",
            "50.3 p0 Local KEEPALIVE",
            "50.4 p0 Peer KEEPALIVE",
            "50.4 p0 OpenConfirm > Established Seen",
        ]);
        assert_eq!(script.0.peerings().next().unwrap().0.session, 1);
    }
}

#[test]
fn replaces_session_by_second_established_connection() {
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
    script.meet(50.0, 1, 1, Some(LOW)).say(50.1, 1, LOW, &open4(1));
    // Bytes of the old connection that were held because of a gap.
    script.hole(3.0, 0, LOW, 30).say(50.05, 0, LOW, &update(4, 1, &PREFIX));
    script.say(50.2, 1, HIGH, &open4(9)).expect(&[]);
    script.say(50.3, 1, HIGH, &keepalive()).say(50.4, 1, LOW, &keepalive()).expect(&[
        "3 p0 gap Peer Unknown 30 0",
        "50.05 p0 Peer UPDATE",
        "50.1 p0 Established > Idle Replaced",
        "50.1 p0 Idle > Active Seen",
        "50.1 p0 Peer OPEN",
        "50.1 p0 Active > OpenSent Seen",
        "50.2 p0 Local OPEN",
        "50.2 p0 OpenSent > OpenConfirm Seen",
        "50.3 p0 Local KEEPALIVE",
        "50.4 p0 Peer KEEPALIVE",
        "50.4 p0 OpenConfirm > Established Seen",
    ]);
    script.close(51.0, 0, LOW, Close::Reset).expect(&[]);
    assert_eq!(script.0.peerings().next().unwrap().0.session, 1);
}

#[test]
fn keeps_session_if_second_connection_is_rejected() {
    // A NOTIFICATION, the end of the connection, or neither within the maximum wait.
    for end in 0..3 {
        let mut script = Script::configured();
        script.establish(1.0, 0, 1).output();
        script.meet(50.0, 1, 1, Some(LOW)).say(50.1, 1, LOW, &open4(1)).expect(&[]);
        script.say(50.2, 0, LOW, &update(4, 1, &PREFIX)).expect(&[]);
        let mut lines = vec!["50.1 p0 Peer OPEN", "50.2 p0 Peer UPDATE"];
        match end {
            0 => {
                script.say(50.3, 1, HIGH, &message(3, &[6, 7]));
                lines.push("50.3 p0 Local NOTIFICATION");
            }
            1 => drop(script.close(50.3, 1, HIGH, Close::Finished)),
            _ => script.0.advance(at(80.2)),
        }
        script.expect(&lines);
        script.say(81.0, 0, LOW, &update(4, 1, &PREFIX)).expect(&["81 p0 Peer UPDATE"]);
    }
}

#[test]
fn reset_of_other_connection_after_end_of_input_ends_no_session() {
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
    script.meet(2.0, 1, 1, Some(LOW)).say(2.1, 1, LOW, &open4(1));
    script.close(3.0, 0, LOW, Close::Ended).end(3.0, 0).close(2.2, 1, HIGH, Close::Reset);
    script.expect(&["2.1 p0 Peer OPEN"]);
    assert_eq!(script.0.peerings().next().unwrap().1, crate::State::Established);
}

#[test]
fn infers_state_of_session_met_in_the_middle() {
    let mut script = Script::configured();
    script.meet(1.0, 0, 1, None).say(2.0, 0, LOW, &keepalive()).expect(&[
        "2 p0 gap Peer Start 0 0",
        "2 p0 Idle > Established Inferred",
        "2 p0 Peer KEEPALIVE",
    ]);
    let hole = Hole { skipped: 7, acknowledged: true, resynchronised: true, ..gap(3.0, 100) };
    script.0.hole(ConnectionId(0), LOW, &hole);
    script.0.hole(ConnectionId(0), LOW, &Hole { acknowledged: false, ..hole });
    // A gap before the first message of the other end is reported with that message.
    script.0.hole(ConnectionId(0), HIGH, &Hole { acknowledged: false, missing: 0, ..hole });
    script.say(4.0, 0, HIGH, &keepalive()).expect(&[
        "3 p0 gap Peer Mirror 100 7",
        "3 p0 gap Peer Unknown 100 7",
        "3 p0 gap Local Start 0 7",
        "4 p0 Local KEEPALIVE",
    ]);
}

#[test]
fn ends_silent_session_only_if_mirror_is_alive() {
    // Two sessions with a hold time of 90 s, one falls silent.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).establish(1.0, 1, 2).output();
    for round in 1..6 {
        script.say(1.4 + 30.0 * f64::from(round), 1, LOW, &keepalive());
    }
    let output = script.output();
    assert!(output.contains("91.4 p0 Established > Idle HoldTimeExpired"), "{output}");
    assert!(!output.contains("p1 Established"), "{output}");

    // Both fall silent: the mirror is blind.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).establish(1.0, 1, 2).output();
    for second in 2..2000 {
        script.0.advance(at(f64::from(second)));
    }
    script.expect(&[]);

    // The only session of a mirror times out after three hold times.
    let mut script = Script::configured();
    script.establish(1.0, 0, 1).output();
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

/// A clock that is set forward and back by hours ends no live session.
#[test]
fn timejump() {
    let mut script = Script::configured();
    script.establish(100_000.0, 0, 1).establish(100_000.0, 1, 2).output();
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
    let output = script.output();
    assert!(output.lines().all(|line| line.ends_with("KEEPALIVE")), "{output}");
}

#[test]
fn finds_router_by_known_parameters() {
    let router =
        |script: &Script, at: usize| -> IpAddr { script.0.peerings().nth(at).unwrap().0.local };
    let (one, nine): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
    // Both ends sent messages: the router is the listening end.
    let mut script = Script::new(Settings::default());
    script.establish(1.0, 0, 1).0.finish();
    assert_eq!(router(&script, 0), nine);
    // With another configuration.
    let mut script = Script::new(Settings {
        routers: vec![one],
        systems: vec![(one, Asn(77))],
        ..Settings::default()
    });
    script.meet(1.0, 0, 1, None).say(1.0, 0, HIGH, &keepalive());
    assert_eq!(router(&script, 0), one);
    assert_eq!(script.0.peerings().next().unwrap().0.local_as, Asn(77));
    // One end sent messages: the router is the other end, whatever the ports, after one second.
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
    // The router is the end of several peerings, although it is not the one with port 179.
    script.connect(2.0, 1, ["10.0.0.1:3000", "10.0.0.5:179"], Some(LOW));
    script.say(2.0, 1, HIGH, &open4(5));
    assert_eq!(router(&script, 1), one);
}

#[test]
fn ignores_connections_without_bgp() {
    let mut script = Script::new(Settings::default());
    for id in 0..1000 {
        script.meet(1.0, id, 1, Some(LOW)).close(2.0, id, LOW, Close::Reset).end(2.0, id);
    }
    script.expect(&[]);
    assert_eq!(script.0.peerings().count(), 0);
}

#[test]
fn limits_number_of_peerings() {
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
    let output = script.output();
    // Idle peerings were removed first.
    assert!(!output.contains("Forgotten"), "{output}");
    for id in 40..60 {
        let ends = [format!("10.0.0.9:{}", 5000 + id), format!("10.0.1.{id}:179")];
        script.connect(50.0, id, [&ends[0], &ends[1]], None);
        script.say(50.0 + f64::from(id), id, HIGH, &keepalive());
        script.say(51.0 + f64::from(id), 0, LOW, &keepalive());
    }
    let output = script.output();
    // Then the silent one, not the active one.
    assert!(output.contains("p1 Established > Idle Forgotten"), "{output}");
    assert!(output.contains("p1 is forgotten") && !output.contains("p0 is forgotten"), "{output}");
    assert!(!output.contains("p0 Established > Idle Forgotten"), "{output}");
    assert_eq!(script.0.peerings().count(), 16);
}
