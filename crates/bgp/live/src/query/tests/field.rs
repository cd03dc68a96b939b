//! Queries of archives of captures after public reports on other tools (`data/bgp/field`).

use bgp::MessageType;
use collector::Event;

use super::*;
use crate::feed::{Feed, feed, feed_with_removals};

/// Collects a capture as `netarium collect --read FILE --router 192.0.2.1 --snapshot 0`.
fn collect(name: &str) -> tempfile::TempDir {
    collect_to(name, Vec::new())
}

fn collect_to(name: &str, feeds: Vec<Feed>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = archive::Options {
        interval: Span::from_secs(86_400),
        compression: Compression::None,
        ..collected(folder.path(), Layout::Ris)
    };
    let archive = Some((folder.path().to_owned(), options));
    let mut settings =
        Settings { archive, routes: !feeds.is_empty(), feeds, ..Settings::default() };
    settings.pipeline.sessions.routers = vec!["192.0.2.1".parse().unwrap()];
    let capture = data("field").join(name);
    let source = Source::Captures(Captures::open(&[capture], false, false).unwrap());
    job::packets(settings, vec![source], &AtomicBool::new(false)).unwrap();
    folder
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
fn removes_routes_after_notification_without_n_bit() {
    let folder = collect("21-graceful-restart/notification-without-n-bit.pcap");
    for (seconds, left) in [(5, 3), (15, 0), (30, 1)] {
        assert_eq!(routes_at(folder.path(), seconds).len(), left, "at {seconds} s");
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
