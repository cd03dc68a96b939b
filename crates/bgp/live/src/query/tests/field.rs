//! Queries of archives of captures after public reports on other tools (`data/bgp/field`).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bgp::MessageType;
use collector::{Event, Peering};

use super::*;
use crate::archive::Loss;
use crate::feed::{Feed, feed, feed_with_removals};
use crate::job::Summary;

/// Collects a capture as `netarium collect --read FILE --router 192.0.2.1 --snapshot 0`.
fn collect(name: &str) -> tempfile::TempDir {
    collect_to(name, Vec::new()).0
}

fn collect_to(name: &str, feeds: Vec<Feed>) -> (tempfile::TempDir, Summary) {
    collect_with(name, |settings| {
        (settings.routes, settings.feeds) = (!feeds.is_empty(), feeds);
    })
}

fn collect_with(name: &str, set: impl FnOnce(&mut Settings)) -> (tempfile::TempDir, Summary) {
    collect_files(&[name], set)
}

fn collect_files(names: &[&str], set: impl FnOnce(&mut Settings)) -> (tempfile::TempDir, Summary) {
    let folder = tempfile::tempdir().unwrap();
    let options = archive::Options {
        interval: Span::from_secs(86_400),
        compression: Compression::None,
        ..collected(folder.path(), Layout::Ris)
    };
    let archive = Some((folder.path().to_owned(), options));
    let mut settings = Settings { archive, ..Settings::default() };
    settings.pipeline.sessions.routers = vec!["192.0.2.1".parse().unwrap()];
    set(&mut settings);
    let captures: Vec<_> = names.iter().map(|name| data("field").join(name)).collect();
    let source = Source::Captures(Captures::open(&captures, false, false).unwrap());
    let summary = job::packets(settings, vec![source], &AtomicBool::new(false)).unwrap();
    (folder, summary)
}

/// The routes of the first peer at `seconds` after the start of the captures.
fn routes_at(folder: &Path, seconds: u64) -> Vec<Route> {
    let at = Time::from_nanos((1_700_000_000 + seconds) * 1_000_000_000);
    let mut question = Question::new("0.0.0.0/0").unwrap();
    (question.more, question.at) = (true, Some(at));
    let mut found = routes(&open(folder), &question).unwrap().found().to_vec();
    found.retain(|route| route.peering.peer.to_string() == "192.0.2.2");
    found
}

fn prefixes(routes: &[Route]) -> Vec<String> {
    let text = |route: &Route| match &route.destination {
        Destination::Prefix(prefix) => prefix.to_string(),
        Destination::Other(bytes) => hex(bytes),
    };
    routes.iter().map(text).collect()
}

#[test]
fn removes_routes_absent_from_enhanced_refresh() {
    let all = ["198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"];
    for (name, left) in [
        ("both-capable", &all[..2]),
        ("router-not-capable", &all),
        ("eorr-only", &all),
        ("borr-only", &all),
    ] {
        let folder = collect(&format!("01-enhanced-refresh/{name}.pcap"));
        assert_eq!(prefixes(&routes_at(folder.path(), 10)), all, "{name}");
        assert_eq!(prefixes(&routes_at(folder.path(), 40)), left, "{name}");
    }
}

#[test]
fn keeps_stale_routes_until_end_of_rib() {
    for (name, left) in [
        ("notification-without-n-bit", [3, 0, 1]),
        ("eor", [3, 3, 1]),
        ("withdraw-is-no-eor", [3, 3, 2]),
    ] {
        let folder = collect(&format!("21-graceful-restart/{name}.pcap"));
        let found = [5, 15, 30].map(|seconds| routes_at(folder.path(), seconds).len());
        assert_eq!(found, left, "{name}");
    }
}

#[test]
fn sends_withdrawals_of_refresh_to_stations_only() {
    let withdrawn = |with_removals: bool| {
        let (to, watch) = if with_removals { feed_with_removals() } else { feed() };
        collect_to("01-enhanced-refresh/both-capable.pcap", vec![to]);
        let mut bodies = Vec::new();
        for batch in watch.batches.try_iter() {
            for (_, event) in batch.events() {
                if let Event::Message { message, .. } = event
                    && message.kind() == MessageType::UPDATE
                    && message.body()[1] != 0
                {
                    bodies.push(message.body().to_vec());
                }
            }
        }
        bodies
    };
    assert_eq!(withdrawn(true), [[0, 4, 24, 203, 0, 113, 0, 0]]);
    assert_eq!(withdrawn(false), Vec::<Vec<u8>>::new());
}

#[test]
fn shows_next_hop_of_mp_reach() {
    let folder = collect("09-next-hops/in.pcap");
    let mut question = Question::new("0.0.0.0/0").unwrap();
    question.more = true;
    question.at = Some(Time::from_nanos(1_700_000_020_000_000_000));
    let routes = routes(&open(folder.path()), &question).unwrap();
    let table = routes.table();
    let hops: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with("198.51.100.0"))
        .map(|line| line.matches("192.0.2.77").count() + 2 * line.matches("192.0.2.99").count())
        .collect();
    // The heading, two routes, and the number of routes.
    assert_eq!(hops, [0, 1, 1, 0], "{table}");
    for family in ["ipv4/unicast", "ipv4/multicast"] {
        let of = table.lines().filter(|line| line.starts_with("198.51.100.0/24  "));
        assert_eq!(of.filter(|line| line.contains(family)).count(), 1, "{table}");
    }
}

#[test]
fn shows_routes_that_writer_of_table_originated() {
    for (prefix, peer) in [("198.51.100.0/24", "0.0.0.0"), ("fe80::1/128", "0.0.0.0")] {
        let found = routes(&open(&data("field/12-table-dump")), &Question::new(prefix).unwrap());
        let found = found.unwrap();
        let own = |route: &&Route| route.peering.peer.to_string() == peer;
        assert_eq!(found.found().iter().filter(own).count(), 1, "{}", found.table());
    }
}

#[test]
fn counts_undecodable_updates() {
    for (name, count) in [
        ("negotiated-but-not-sent", 10),
        ("peer-sends", 0),
        ("router-sends", 0),
        ("both-both", 0),
        ("both-receive-only", 0),
        ("both-send-only", 0),
        ("invalid-mode", 0),
        ("only-peer-has-it", 0),
        ("none", 0),
    ] {
        let (_, summary) = collect_to(&format!("08-addpath-direction/{name}.pcap"), Vec::new());
        assert_eq!((summary.undecodable, summary.gaps), (count, 0), "{name}");
        let missing = summary.missing().join(", ");
        assert_eq!(missing.contains("10 messages that cannot be decoded"), count > 0, "{missing}");
    }
}

#[test]
fn names_bytes_that_capture_cut_off() {
    let (folder, summary) = collect_to("16-snaplen/s96.pcap", Vec::new());
    let losses: Vec<Loss> = archive::read_ledger(&folder.path().join("rc").join(GAPS)).unwrap();
    assert!(losses.len() >= 30 && summary.gaps == losses.len() as u64, "{losses:?}");
    for loss in losses {
        let Loss::Stream { cause, since_us, until_us, missing, .. } = &loss else {
            panic!("{loss:?}")
        };
        // An OPEN of 45 bytes, or an UPDATE of 207.
        assert!(cause == "cut" && matches!(missing, 3 | 165), "{loss:?}");
        assert!(until_us - since_us < 100_000, "{loss:?}");
    }
    let table = gaps(&open(folder.path()), None).unwrap().table();
    assert!(table.contains("the capture cut their packets off"), "{table}");
    let (_, summary) = collect_to("16-snaplen/whole.pcap", Vec::new());
    assert_eq!(summary.missing(), Vec::<String>::new());
}

#[test]
fn misses_nothing_of_scans_and_other_protocols() {
    let (_, summary) = collect_to("19-not-bgp/in.pcap", Vec::new());
    assert_eq!(summary.missing(), Vec::<String>::new());
    assert!(summary.status.streams.foreign > 0);
}

#[test]
fn blames_capture_for_bytes_lost_while_it_dropped_packets() {
    let (folder, _) = collect_to("08-addpath-direction/none.pcap", Vec::new());
    let stream = |since_us, cause: &str| Loss::Stream {
        since_us,
        until_us: since_us + 5,
        mirror: 1,
        peer: "192.0.2.2".parse().unwrap(),
        peer_as: 64_501,
        from: "peer".to_owned(),
        cause: cause.to_owned(),
        missing: 7,
        skipped: 0,
    };
    let drops = |since_us, packets| Loss::Captured {
        since_us,
        until_us: since_us + 10,
        interface: 0,
        packets,
    };
    let all = [
        stream(10, "mirror"),
        stream(15, "start"),
        stream(40, "unknown"),
        drops(12, 3),
        drops(35, 0),
    ];
    let lines = all.iter().map(|loss| serde_json::to_string(loss).unwrap() + "\n");
    fs::write(folder.path().join("rc").join(GAPS), lines.collect::<String>()).unwrap();
    let json = gaps(&open(folder.path()), None).unwrap().json();
    let losses = json["collectors"][0]["losses"].as_array().unwrap();
    let causes: Vec<_> = losses.iter().filter_map(|loss| loss["cause"].as_str()).collect();
    assert_eq!(causes, ["capture", "start", "unknown"]);
}

const GUESS: &str = "the router's end was guessed; `netarium collect --read FILE --router ADDRESS \
                     --out DIR` states it";

/// The lines of the updates of `path` that `filter` selects.
fn lines_of(path: &Path, filter: &UpdateFilter) -> Vec<String> {
    let (mut text, mut lines) = (UpdateText::default(), Vec::new());
    let notes = updates(&[path.to_owned()], filter, &mut |update| {
        lines.extend(text.line(update).lines().map(str::to_owned));
        ControlFlow::Continue(())
    });
    // A capture of one session does not show which end is the router.
    let expected = path.extension().filter(|suffix| *suffix == "pcap").map(|_| GUESS);
    assert_eq!(notes.unwrap(), Vec::from_iter(expected));
    lines
}

#[test]
fn lists_updates_of_archive_and_of_capture_alike() {
    let folder = collect("01-enhanced-refresh/both-capable.pcap");
    let all = lines_of(folder.path(), &UpdateFilter::default());
    let expected = [
        "2023-11-14 (UTC)",
        "22:13:20.002  192.0.2.2        state     Idle > Active",
        "22:13:20.003  192.0.2.2        state     Active > OpenSent",
        "22:13:20.006  192.0.2.2        state     OpenSent > OpenConfirm",
        "22:13:20.007  192.0.2.2        state     OpenConfirm > Established",
        "22:13:20.011  192.0.2.2        announce  198.51.100.0/24     64501",
        "22:13:20.011  192.0.2.2        announce  203.0.113.0/24      64501",
        "22:13:20.011  192.0.2.2        announce  198.18.0.0/15       64501",
        "22:13:20.013  192.0.2.2        announce  2001:db8:1::/48     64501",
        "22:13:20.015  192.0.2.2        state     End-of-RIB of ipv4/unicast",
        "22:13:20.017  192.0.2.2        state     End-of-RIB of ipv6/unicast",
        "22:13:40.021  192.0.2.2        state     route refresh of ipv4/unicast begins",
        "22:13:40.023  192.0.2.2        announce  198.51.100.0/24     64501",
        "22:13:40.025  192.0.2.2        announce  198.18.0.0/15       64501 64510",
        "22:13:40.027  192.0.2.2        state     route refresh of ipv4/unicast ends",
    ];
    // Without milliseconds, which depend on the generator.
    let bare = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line[..8].to_owned() + line.get(12..).unwrap_or("")).collect()
    };
    let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(bare(&all), bare(&expected));
    assert!(all.iter().all(|line| line.len() <= 80));
    let capture = data("field/01-enhanced-refresh/both-capable.pcap");
    assert_eq!(lines_of(&capture, &UpdateFilter::default()), all);
    let file = fs::read_dir(folder.path().join("rc/2023.11")).unwrap().next().unwrap().unwrap();
    assert_eq!(lines_of(&file.path(), &UpdateFilter::default()), all);
}

#[test]
fn filters_updates() {
    let capture = data("field/01-enhanced-refresh/both-capable.pcap");
    let count = |change: &dyn Fn(&mut UpdateFilter)| {
        let mut filter = UpdateFilter::default();
        change(&mut filter);
        lines_of(&capture, &filter).iter().filter(|line| line.contains("192.0.2.2 ")).count()
    };
    assert_eq!(count(&|_| {}), 14);
    assert_eq!(count(&|filter| filter.kinds = vec![UpdateKind::State]), 8);
    assert_eq!(count(&|filter| filter.kinds = vec![UpdateKind::Withdraw]), 0);
    assert_eq!(count(&|filter| filter.asn = Some(bgp::Asn(64_510))), 1);
    // The AS of the peer is unknown at its SYN.
    assert_eq!(count(&|filter| filter.asn = Some(bgp::Asn(64_501))), 13);
    assert_eq!(count(&|filter| filter.peer = Some("192.0.2.9".parse().unwrap())), 0);
    assert_eq!(count(&|filter| filter.prefix("198.18.0.0/15").unwrap()), 2);
    assert_eq!(count(&|filter| filter.prefix("198.18.7.7").unwrap()), 2);
    assert_eq!(count(&|filter| filter.prefix("198.18.7.0/24").unwrap()), 0);
    assert_eq!(count(&|filter| filter.prefix("0.0.0.0/0").unwrap()), 5);
    let middle = moment("2023-11-14T22:13:30Z").unwrap();
    assert_eq!(count(&|filter| filter.since = middle), 4);
    assert_eq!(count(&|filter| filter.until = middle), 10);
    let mut left = 3;
    updates(std::slice::from_ref(&capture), &UpdateFilter::default(), &mut |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn gives_reason_of_end_and_next_command() {
    let folder = collect("21-graceful-restart/notification-without-n-bit.pcap");
    let lines = lines_of(folder.path(), &UpdateFilter::default());
    let end = "Established > Idle: NOTIFICATION 6/4 of the peer (cease: administrative reset)";
    assert_eq!(lines.iter().filter(|line| line.ends_with(end)).count(), 1, "{lines:?}");
    let capture = data("field/21-graceful-restart/eor.pcap");
    let error = Archives::open(&[capture]).unwrap_err().to_string();
    assert!(error.contains("netarium collect --read"), "{error}");
}

#[test]
fn shows_all_families_or_names_them() {
    let table = data("field/12-table-dump");
    let ask = |text: &str| routes(&open(&table), &Question::new(text).unwrap()).unwrap();
    let all = ask("all");
    let families: BTreeSet<String> =
        all.found().iter().map(|route| route.family.to_string()).collect();
    let expected = ["ipv4/mpls-vpn", "ipv4/unicast", "ipv6/unicast"];
    assert_eq!(families.iter().collect::<Vec<_>>(), expected);
    assert_eq!(all.notes().count(), 0);
    let notes: Vec<_> = ask("10.0.0.0/8").notes().collect();
    assert!(notes.iter().any(|note| note.contains("routes of ipv4/mpls-vpn; `show rib all`")));
}

/// Collects a capture with tables at each `hours` h; checks that tables exist at `expected`, in
/// hours since the start, each with the routes of its instant.
fn assert_tables(capture: &Path, layout: Layout, hours: u64, expected: &[u64]) -> Summary {
    let (folder, summary) = collect_with(capture.to_str().unwrap(), |settings| {
        settings.snapshots = Span::from_secs(hours * 3_600);
        settings.archive.as_mut().unwrap().1.layout = layout;
    });
    assert_eq!(summary.troubles, Vec::<String>::new());
    let archives = open(folder.path());
    let tables: Vec<_> = archives.shelves[0].readable(archive::Kind::Routes).collect();
    let start = 1_699_920_000;
    let starts: Vec<_> = tables
        .iter()
        .map(|table| (table.start.unwrap().as_nanos() / 1_000_000_000).wrapping_sub(start) / 3_600)
        .collect();
    assert_eq!(starts, expected);
    for (table, hour) in tables.iter().zip(starts).filter(|(_, hour)| *hour <= 30) {
        let found = routes(&open(&table.path), &Question::new("all").unwrap()).unwrap();
        // That of the hour before is withdrawn eleven minutes later.
        let own = format!("10.{}.0.0/16", hour - 1);
        assert_eq!(prefixes(found.found()), [own.as_str(), "198.51.100.0/24"]);
    }
    summary
}

const QUIET_DAY: &str = "22-quiet-day/in.pcap.zst";

/// The capture of 30 h with other seconds of each packet: `change` gets its number, the number of
/// packets, and its seconds.
fn with_times(folder: &Path, change: impl Fn(usize, usize, u32) -> u32) -> PathBuf {
    let packed = std::fs::read(data("field").join(QUIET_DAY)).unwrap();
    let mut pcap = zstd::decode_all(&packed[..]).unwrap();
    let number = |pcap: &[u8], at: usize| u32::from_le_bytes(*pcap[at..].first_chunk().unwrap());
    let mut places = vec![24];
    while let Some(last) = places.last().copied().filter(|last| *last < pcap.len()) {
        places.push(last + 16 + number(&pcap, last + 8) as usize);
    }
    places.pop();
    for (index, at) in places.iter().enumerate() {
        let seconds = change(index, places.len(), number(&pcap, *at));
        pcap[*at..at + 4].copy_from_slice(&seconds.to_le_bytes());
    }
    let path = folder.join("in.pcap");
    std::fs::write(&path, pcap).unwrap();
    path
}

#[test]
fn writes_table_of_each_instant() {
    for (layout, hours) in [(Layout::Ris, 8), (Layout::RouteViews, 2)] {
        let expected: Vec<u64> = (1..=30 / hours).map(|number| number * hours).collect();
        let summary = assert_tables(Path::new(QUIET_DAY), layout, hours, &expected);
        assert_eq!(summary.implausible_times, 0);
    }
}

#[test]
fn wrong_time_of_one_packet_changes_no_table() {
    let folder = tempfile::tempdir().unwrap();
    // In 2105, 1970, and a day later.
    for wrong in [4_260_000_000, 86_400, 1_700_100_000] {
        for eighth in [0, 1, 2, 4, 7, 8] {
            let path = with_times(folder.path(), |index, count, seconds| {
                if index == (count - 1) * eighth / 8 { wrong } else { seconds }
            });
            let summary = assert_tables(&path, Layout::Ris, 8, &[8, 16, 24]);
            assert_eq!(summary.implausible_times, 1, "{wrong} {eighth}");
        }
    }
}

#[test]
fn pause_of_capture_has_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path =
        with_times(
            folder.path(),
            |index, count, seconds| {
                if index > count * 29 / 30 { seconds + 86_400 } else { seconds }
            },
        );
    let summary = assert_tables(&path, Layout::Ris, 8, &[8, 16, 24, 32, 40, 48]);
    assert_eq!(summary.implausible_times, 0);
}

#[test]
fn states_that_one_direction_was_not_captured() {
    let router = || vec!["192.0.2.1".parse().unwrap()];
    for (name, routers, unheard, one_sided) in [
        ("rx.pcap", router(), 0, 0),
        ("rx.pcap", Vec::new(), 0, 1),
        ("tx.pcap", Vec::new(), 0, 1),
        ("tx.pcap", router(), 1, 0),
        ("plain.pcap", Vec::new(), 0, 0),
    ] {
        let (_, summary) = collect_with(&format!("06-tap-two-nics/{name}"), |settings| {
            settings.pipeline.sessions.routers = routers;
        });
        assert_eq!((summary.unheard, summary.one_sided), (unheard, one_sided), "{name}");
        let missing = summary.missing().join(", ");
        assert_eq!(missing.contains("without a captured message of the peer"), unheard > 0);
        let names_option = missing.contains("may be that of the router (state the router with");
        assert_eq!(names_option, one_sided > 0, "{missing}");
    }
}

/// The frames of a capture of one direction, and then the same with another address of the peer,
/// `delay` seconds later.
fn with_second_peer(name: &str, delay: u32, path: &Path) {
    let pcap = std::fs::read(data("field/06-tap-two-nics").join(name)).unwrap();
    let number = |at: usize| u32::from_le_bytes(*pcap[at..].first_chunk().unwrap());
    let (mut at, mut records) = (24, Vec::new());
    while at < pcap.len() {
        let next = at + 16 + number(at + 8) as usize;
        let (time, own) = ((number(at), number(at + 4)), &pcap[at..next]);
        let mut other = own.to_vec();
        other[..4].copy_from_slice(&(time.0 + delay).to_le_bytes());
        // The peer is 192.0.2.2: its last octet, and the sums of IP and TCP.
        let ip = &mut other[16 + 14..];
        let of_peer = if ip[15] == 2 { 15 } else { 19 };
        ip[of_peer] = 3;
        for sum in [10, 36] {
            let old = u16::from_be_bytes([ip[sum], ip[sum + 1]]);
            let new = old.checked_sub(1).unwrap_or(0xfffe);
            ip[sum..sum + 2].copy_from_slice(&new.to_be_bytes());
        }
        records.push((time, own.to_vec()));
        records.push(((time.0 + delay, time.1), other));
        at = next;
    }
    records.sort();
    let records = records.into_iter().flat_map(|(_, record)| record);
    std::fs::write(path, pcap[..24].iter().copied().chain(records).collect::<Vec<u8>>()).unwrap();
}

/// An address with two sessions is the router, so none of its messages are a peer's. The second
/// session may start after messages of the first one are archived, or after its end.
#[test]
fn common_end_of_sessions_is_router() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pcap");
    for (delay, wait_messages) in [(0, 1_024), (10, 1_024), (20, 5), (100_000, 1_024)] {
        for name in ["tx.pcap", "rx.pcap"] {
            with_second_peer(name, delay, &path);
            let (_, summary) = collect_with(path.to_str().unwrap(), |settings| {
                settings.pipeline.sessions.routers = Vec::new();
                settings.pipeline.sessions.wait_messages = wait_messages;
            });
            let peerings = &summary.status.peerings;
            let is_router = |met: &(Peering, _, _)| met.0.local.to_string() == "192.0.2.1";
            let what = format!("{name} {delay}: {:?}", summary.missing());
            assert!(!peerings.is_empty() && peerings.iter().all(is_router), "{what}");
            assert_eq!(summary.one_sided, 0, "{what}");
            let is_reversed = name == "tx.pcap" && delay > 0;
            assert_eq!(summary.guessed, u64::from(is_reversed), "{what}");
            // Messages of the first session that are not retained are not repeated.
            let is_repeated = delay <= 10;
            let unheard = if name == "tx.pcap" { 1 + u64::from(is_repeated) } else { 0 };
            assert_eq!(summary.unheard, unheard, "{what}");
            assert_eq!(summary.missing().is_empty(), unheard == 0, "{what}");
        }
    }
}

/// A later run into the same archive does not treat a guess of the earlier run as evidence.
#[test]
fn later_run_repeats_guess() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let options = collected(folder.path(), Layout::Ris);
        let archive = Some((folder.path().to_owned(), options));
        let settings = Settings { archive, ..Settings::default() };
        let capture = data("field/06-tap-two-nics/plain.pcap");
        let source = Source::Captures(Captures::open(&[capture], false, false).unwrap());
        let summary = job::packets(settings, vec![source], &AtomicBool::new(false)).unwrap();
        assert_eq!(summary.guessed, 1);
    }
}

#[test]
fn joins_directions_of_one_session() {
    let of = |name: &str| format!("06-tap-two-nics/{name}");
    for names in [
        &["plain.pcap"][..],
        &["rx.pcap", "tx.pcap"],
        &["tx.pcap", "rx.pcap"],
        &["two-interfaces.pcapng"],
        &["vlan-per-direction.pcap"],
        &["sll2-any-asymmetric.pcap"],
        &["sll2-any-bond-twice.pcap"],
    ] {
        for routers in [vec![], vec!["192.0.2.1".parse().unwrap()]] {
            let files: Vec<String> = names.iter().map(|name| of(name)).collect();
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let is_known = !routers.is_empty();
            let (_, summary) = collect_files(&files, |settings| {
                settings.pipeline.sessions.routers = routers;
            });
            let peerings = &summary.status.peerings;
            let peers: Vec<_> = peerings.iter().map(|met| met.0.peer.to_string()).collect();
            assert_eq!(peers, ["192.0.2.2"], "{names:?}");
            let hours = summary.integrity["hours"].as_array().unwrap();
            let updates = ["from_peer", "from_local"].map(|end| {
                hours.iter().map(|hour| hour[end]["update"].as_u64().unwrap()).sum::<u64>()
            });
            assert_eq!(updates, [201, 21], "{names:?}");
            // Several captures without names of interfaces are one mirror.
            let joined = u64::from(names.len() == 1 && names != ["plain.pcap"]);
            assert_eq!(summary.status.streams.joined, joined, "{names:?}");
            let missing = summary.missing().join(", ");
            assert_eq!(missing.contains("--router"), !is_known && summary.guessed > 0);
            assert_eq!(missing.is_empty(), summary.guessed == 0, "{names:?}: {missing}");
        }
    }
}
