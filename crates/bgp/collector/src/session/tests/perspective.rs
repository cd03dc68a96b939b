//! Determines which end is the router without configuration.

use super::*;

/// Connects 10.0.0.`low` and 10.0.0.9, which listens unless `reversed`.
fn connect(script: &mut Script, id: u32, low: u8, reversed: bool) {
    let (one, other) = if reversed { (179, 40_000) } else { (40_000, 179) };
    let opener = if reversed { HIGH } else { LOW };
    let ends = [format!("10.0.0.{low}:{one}"), format!("10.0.0.9:{other}")];
    script.connect(1.0, id, [&ends[0], &ends[1]], Some(opener));
}

fn unconfigured() -> Script {
    let mut script = Script::new(Settings::default());
    script.0.sink_mut().bare = true;
    script
}

fn route() -> Vec<u8> {
    update(4, 7018, &PREFIX)
}

/// Number of delivered UPDATEs by presumed sender: `[Peer, Local]`.
fn updates(output: &str) -> [usize; 2] {
    ["Peer UPDATE", "Local UPDATE"].map(|line| output.matches(line).count())
}

/// The router's own messages come first, as after reordering; then its neighbour sends
/// a whole table.
#[test]
fn identifies_neighbour_by_routes() {
    for neighbour in [LOW, HIGH] {
        for reversed in [false, true] {
            let (mut script, router) = (unconfigured(), neighbour.other());
            connect(&mut script, 0, 1, reversed);
            let end_of_rib = message(2, &[0, 0, 0, 0]);
            script.say(1.1, 0, router, &open4(9)).say(1.2, 0, router, &keepalive());
            script.say(1.2, 0, router, &end_of_rib).say(1.2, 0, router, &end_of_rib);
            script.say(1.3, 0, neighbour, &open4(1)).say(1.3, 0, neighbour, &keepalive());
            for _ in 0..600 {
                script.say(1.4, 0, neighbour, &route());
            }
            script.0.finish();
            let output = script.output();
            assert_eq!(updates(&output), [600, 2], "{neighbour:?} {reversed}");
            let gaps = [output.matches("gap").count(), output.matches("Local Guessed 0 0").count()];
            assert_eq!(gaps, [1, 1], "{output}");
        }
    }
}

/// One session, both directions, routes of one end: it may be the router.
#[test]
fn reports_guess_that_nothing_confirmed() {
    let of = |routers: &[&str], ends: &[End], sessions: u8| {
        let routers = routers.iter().map(|one| one.parse().unwrap()).collect();
        let mut script = Script::new(Settings { routers, ..Settings::default() });
        script.0.sink_mut().bare = true;
        let ids = 0..u32::from(sessions);
        for id in ids.clone() {
            connect(&mut script, id, 1 + id as u8, false);
        }
        for (time, end, bytes) in [(1.1, LOW, open4(1)), (1.1, HIGH, open4(9))] {
            for id in ids.clone() {
                script.say(time, id, end, &bytes);
            }
        }
        for time in [2.0, 50.0] {
            for (id, end) in ids.clone().flat_map(|id| ends.iter().map(move |end| (id, *end))) {
                script.say(time, id, end, &keepalive()).say(time, id, end, &route());
            }
        }
        script.0.finish();
        script.output().matches("gap Local Guessed").count()
    };
    for sender in [LOW, HIGH] {
        assert_eq!(of(&[], &[sender], 1), 1, "{sender:?}");
        assert_eq!(of(&["10.0.0.9"], &[sender], 1), 0, "{sender:?}");
        // The end of several sessions is the router.
        assert_eq!(of(&[], &[sender], 2), 0, "{sender:?}");
    }
    assert_eq!(of(&[], &[], 1), 0, "no routes");
    assert_eq!(of(&[], &[LOW, HIGH], 1), 1);
}

/// Two sessions without a common address; the router has the same identifier in both.
#[test]
fn common_identifier_confirms_guess() {
    let of = |routers: [u32; 2], peers: [u32; 2]| {
        let mut script = unconfigured();
        for (id, (router, peer)) in (0..).zip(routers.into_iter().zip(peers)) {
            let ends = [1, 9].map(|host| format!("10.0.{id}.{host}:179"));
            script.connect(1.0, id, [&ends[0], &ends[1]], Some(LOW));
            script.say(1.1, id, LOW, &open4(peer)).say(1.1, id, HIGH, &open4(router));
            script.say(2.0, id, LOW, &keepalive()).say(2.0, id, HIGH, &keepalive());
            script.say(2.0, id, LOW, &route());
        }
        script.0.finish();
        script.output().matches("gap Local Guessed 0 0").count()
    };
    assert_eq!(of([9, 9], [1, 2]), 0);
    assert_eq!(of([9, 8], [1, 2]), 2);
    assert_eq!(of([9, 8], [1, 1]), 2);
    assert_eq!(of([9, 9], [1, 1]), 2);
}

#[test]
fn reports_guess_if_input_ends_early() {
    let mut script = unconfigured();
    connect(&mut script, 0, 1, false);
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9));
    script.say(1.3, 0, LOW, &keepalive()).say(1.3, 0, HIGH, &keepalive());
    script.say(1.4, 0, LOW, &route()).say(1.4, 0, LOW, &route()).say(1.5, 0, HIGH, &route());
    script.0.finish();
    let output = script.output();
    assert_eq!(updates(&output), [2, 1], "{output}");
    assert!(output.contains("gap Local Guessed 0 0"), "{output}");
}

#[test]
fn reverses_guess_contradicted_by_routes() {
    let mut script = unconfigured();
    connect(&mut script, 0, 1, true);
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9));
    script.say(1.3, 0, LOW, &keepalive()).say(1.3, 0, HIGH, &keepalive());
    // 10.0.0.1 listens, and no routes are sent for a long time.
    script.0.advance(at(40.0));
    assert_eq!(script.output().matches("Peer OPEN").count(), 1);
    assert_eq!(script.0.peerings().next().unwrap().0.peer.to_string(), "10.0.0.9");
    for _ in 0..3 {
        script.say(41.0, 0, LOW, &route());
    }
    let output = script.output();
    assert!(output.contains("Established > Idle Forgotten\np0 is forgotten\n"), "{output}");
    let (_, after) = output.split_once("p0 is forgotten").unwrap();
    assert_eq!((after.matches("Peer OPEN").count(), updates(after)), (1, [3, 0]), "{after}");
    assert!(after.contains("> Established Seen"), "{after}");
    assert_eq!(script.0.peerings().map(|(one, _)| one.id.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn reverses_guess_contradicted_by_other_peerings() {
    let mut script = unconfigured();
    // The router sends its whole table to a customer, which sends a single route.
    connect(&mut script, 0, 1, false);
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9));
    script.say(1.3, 0, LOW, &keepalive()).say(1.3, 0, HIGH, &keepalive());
    for _ in 0..20 {
        script.say(1.4, 0, HIGH, &route());
    }
    script.say(1.5, 0, LOW, &route());
    script.0.advance(at(10.0));
    assert_eq!(updates(&script.output()), [20, 1]);
    connect(&mut script, 1, 2, false);
    script.say(11.0, 1, LOW, &open4(2));
    let output = script.output();
    let (_, after) = output.split_once("p0 is forgotten").unwrap();
    assert_eq!(updates(after), [1, 20], "{output}");
    let facts: Vec<_> = script.0.peerings().map(|(one, _)| one.local.to_string()).collect();
    assert_eq!(facts, ["10.0.0.9", "10.0.0.9"]);
}

/// The messages before are no longer retained: later ones have the other view.
#[test]
fn reverses_guess_after_retention() {
    for is_ended in [false, true] {
        let settings = Settings { wait_messages: 500, wait_bytes: 20_000, ..Settings::default() };
        let mut script = Script::new(settings);
        script.0.sink_mut().bare = true;
        // Only the router's direction, of a session with a customer, is captured.
        connect(&mut script, 0, 1, false);
        script.say(1.1, 0, HIGH, &open4(9)).say(1.2, 0, HIGH, &keepalive());
        for _ in 0..2_000 {
            script.say(1.4, 0, HIGH, &route());
        }
        assert_eq!(updates(&script.output()), [2_000, 0]);
        if is_ended {
            script.close(5.0, 0, HIGH, Close::Finished).end(5.0, 0);
        }
        connect(&mut script, 1, 2, false);
        script.say(11.0, 1, HIGH, &open4(9));
        let output = script.output();
        let bytes = 2_000 * route().len();
        let (_, after) = output.split_once("p0 is forgotten").unwrap();
        assert!(after.contains(&format!("gap Local Guessed 0 {bytes}")), "{output}");
        if is_ended {
            connect(&mut script, 0, 1, false);
            script.say(12.0, 0, HIGH, &open4(9));
        }
        script.say(12.0, 0, HIGH, &keepalive()).say(12.0, 0, HIGH, &route());
        script.0.finish();
        let output = script.output();
        assert_eq!(updates(&output), [0, 1], "{output}");
        assert!(output.contains("> Established"), "{output}");
        assert!(script.0.guesses.is_empty());
        let local: Vec<_> = script.0.peerings().map(|(one, _)| one.local.to_string()).collect();
        assert_eq!(local, ["10.0.0.9", "10.0.0.9"]);
        assert_eq!(script.0.peerings().find(|(one, _)| one.id.0 != 1).unwrap().0.local_as, Asn(9));
    }
}

#[test]
fn reports_guess_that_omits_routes() {
    let mut script = unconfigured();
    connect(&mut script, 0, 1, false);
    script.say(1.1, 0, LOW, &open4(1)).say(1.2, 0, HIGH, &open4(9));
    script.say(1.3, 0, LOW, &keepalive()).say(1.3, 0, HIGH, &keepalive());
    script.say(1.4, 0, LOW, &route()).say(1.4, 0, LOW, &route());
    script.0.advance(at(10.0));
    assert!(!script.output().contains("Guessed"));
    script.say(11.0, 0, HIGH, &route()).say(12.0, 0, HIGH, &route());
    assert_eq!(script.output().matches("gap Local Guessed").count(), 1);
    // It is certain when there is another peering of the router.
    let mut script = unconfigured();
    connect(&mut script, 0, 1, false);
    connect(&mut script, 1, 2, false);
    for (time, end, bytes) in [(1.1, LOW, open4(1)), (1.4, LOW, route()), (11.0, HIGH, route())] {
        script.say(time, 0, end, &bytes).say(time, 1, end, &bytes);
    }
    assert!(!script.output().contains("Guessed"));
}

#[test]
fn limits_events_kept_for_guess() {
    let settings = Settings { wait_messages: 500, wait_bytes: 20_000, ..Settings::default() };
    let mut script = Script::new(settings);
    script.0.sink_mut().bare = true;
    connect(&mut script, 0, 1, false);
    for _ in 0..2_000 {
        script.say(1.4, 0, LOW, &route());
        assert!(script.0.slots[0].raw_bytes <= 20_000 + route().len());
    }
    assert!(script.0.slots[0].kept.is_none() && script.0.guesses.len() == 1);
    assert_eq!(updates(&script.output()), [2_000, 0]);
}
