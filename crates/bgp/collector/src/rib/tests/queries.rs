//! Queries, and differences between two instants.

use bgp::attribute::{AsPathBuf, Community, NextHop, SegmentKind};

use super::*;
use crate::rib::{Change, Destination, PathPattern, Query, Route, Scope, Search, Tag, path_text};

fn v4(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::V4(address.parse::<Ipv4Addr>().unwrap().to_bits(), length.parse().unwrap())
}

fn nlri(peer: u32, text: &str) -> Nlri {
    Nlri { path_id: (peer % 2 == 1).then_some(5), prefix: v4(text) }
}

fn announce(rib: &mut Rib, peer: u32, set: u8, prefixes: &[&str]) {
    let routes: Vec<Nlri> = prefixes.iter().map(|text| nlri(peer, text)).collect();
    let body = update(&[], &routes, set);
    send(rib, &peering(peer), at(u64::from(set)), MessageType::UPDATE, &body);
}

fn sample() -> Rib {
    let mut rib = Rib::new();
    announce(&mut rib, 0, 3, &["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24"]);
    announce(&mut rib, 1, 4, &["10.1.0.0/16", "10.1.2.0/24"]);
    announce(&mut rib, 2, 5, &["10.0.0.0/8", "10.1.3.0/24"]);
    rib
}

fn asked(rib: &Rib, query: &Query) -> Vec<(String, u32)> {
    let routes = rib.query(query).into_iter();
    let found = routes.map(|route| match route.destination {
        Destination::Prefix(prefix) => (prefix.to_string(), route.peering.id.0),
        Destination::Other(bytes) => (format!("{bytes:?}"), route.peering.id.0),
    });
    found.collect()
}

fn scope(scope: Scope) -> Query {
    Query { scope, ..Query::default() }
}

fn expected(routes: &[(&str, u32)]) -> Vec<(String, u32)> {
    routes.iter().map(|(prefix, peer)| ((*prefix).to_owned(), *peer)).collect()
}

#[test]
fn selects_prefixes_by_scope() {
    let rib = sample();
    let exact = asked(&rib, &scope(Scope::Exact(v4("10.1.0.0/16"))));
    assert_eq!(exact, expected(&[("10.1.0.0/16", 0), ("10.1.0.0/16", 1)]));
    let longest = |text| asked(&rib, &scope(Scope::Longest(v4(text))));
    assert_eq!(longest("10.1.2.9/32"), expected(&[("10.1.2.0/24", 1)]));
    assert_eq!(longest("10.1.9.9/32"), expected(&[("10.1.0.0/16", 0), ("10.1.0.0/16", 1)]));
    assert_eq!(longest("11.0.0.0/8"), expected(&[("0.0.0.0/0", 0)]));
    let more = asked(&rib, &scope(Scope::MoreSpecific(v4("10.1.0.0/16"))));
    let all = [("10.1.0.0/16", 0), ("10.1.0.0/16", 1), ("10.1.2.0/24", 1), ("10.1.3.0/24", 2)];
    assert_eq!(more, expected(&all));
    let less = asked(&rib, &scope(Scope::LessSpecific(v4("10.1.3.0/24"))));
    let all = [
        ("0.0.0.0/0", 0),
        ("10.0.0.0/8", 0),
        ("10.0.0.0/8", 2),
        ("10.1.0.0/16", 0),
        ("10.1.0.0/16", 1),
        ("10.1.3.0/24", 2),
    ];
    assert_eq!(less, expected(&all));
    assert_eq!(asked(&rib, &Query::default()).len(), 8);
    assert_eq!(asked(&rib, &Query { limit: Some(3), ..Query::default() }).len(), 3);
}

#[test]
fn selects_longest_match_among_filtered_routes() {
    let rib = sample();
    let query = Query { peer: Some(peering(2).peer), ..scope(Scope::Longest(v4("10.1.2.0/24"))) };
    assert_eq!(asked(&rib, &query), expected(&[("10.0.0.0/8", 2)]));
}

#[test]
fn selects_routes_by_attributes() {
    let rib = sample();
    // The origin AS is 65,280 plus the number of the set; sets 4 and 5 have a community.
    let origin = Query { origin: Some(Asn(65_284)), ..Query::default() };
    assert_eq!(asked(&rib, &origin).len(), 2);
    let path = |pattern| Query { path: PathPattern::new(pattern).ok(), ..Query::default() };
    assert_eq!(asked(&rib, &path("_65284$")).len(), 2);
    assert_eq!(asked(&rib, &path("^6528[35]$")).len(), 6);
    assert_eq!(asked(&rib, &path("_6528_")).len(), 0);
    let tag = Tag::Plain(Community(0x0001_0002));
    let community = Query { community: Some(tag), ..Query::default() };
    assert_eq!(asked(&rib, &community), asked(&rib, &path("5$")));
    let route = rib.query(&scope(Scope::Exact(v4("10.1.2.0/24")))).remove(0);
    assert_eq!(route.next_hop(), NextHop::V4(Ipv4Addr::new(192, 0, 2, 1)));
    assert_eq!((route.path_id, route.since, route.stale), (Some(5), at(4), false));
}

#[test]
fn prints_paths_like_routers() {
    let mut path = AsPathBuf::default();
    path.push(SegmentKind::ConfedSequence, &[Asn(1), Asn(2)]);
    path.push(SegmentKind::Sequence, &[Asn(3), Asn(4)]);
    path.push(SegmentKind::Set, &[Asn(5), Asn(6)]);
    let text = path_text(path.view());
    assert_eq!(text, "(1 2) 3 4 {5,6}");
    for (pattern, fits) in
        [("_3_", true), ("_6_", true), ("^_1_", true), ("_2 3", false), ("_4 _5_", true)]
    {
        assert_eq!(PathPattern::new(pattern).unwrap().matches(&text), fits, "{pattern}");
    }
    assert!(PathPattern::new("(").is_err());
    // Sets as paths show them; repetitions elsewhere.
    for (pattern, path, fits) in [
        ("{200013}$", "65000 {200013}", true),
        ("_{1,2}_3", "1 {1,2} 3", true),
        ("^1{2}3$", "113", true),
        ("^1{2}3$", "1{2}3", false),
    ] {
        assert_eq!(PathPattern::new(pattern).unwrap().matches(path), fits, "{pattern}");
    }
}

#[test]
fn finds_routes_of_all_families() {
    let mut rib = Rib::new();
    // Label 16, distinguisher 0:1:2, 10.1/16.
    let nlri = [104, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 2, 10, 1];
    let mut value = vec![0, 1, 128, 12];
    value.extend([0; 8]);
    value.extend([192, 0, 2, 1, 0]);
    value.extend(nlri);
    let mut all = attributes(3);
    all.extend([0x80, 14, value.len() as u8]);
    all.extend(&value);
    let body = [vec![0, 0], field(&all)].concat();
    send(&mut rib, &peering(0), at(0), MessageType::UPDATE, &body);
    let routes = rib.query(&Query::default());
    assert_eq!(routes[0].destination, Destination::Other(nlri.to_vec()));
    assert_eq!(routes[0].next_hop(), NextHop::VpnV4(0, Ipv4Addr::new(192, 0, 2, 1)));
    rib.diff(&rib, &mut |change| panic!("{change:?}"));
    // A withdrawal has no label.
    let mut gone = vec![0x80, 15, 17, 0, 1, 128, 104, 0x80, 0, 0];
    gone.extend(&nlri[4..]);
    let body = [vec![0, 0], field(&gone)].concat();
    send(&mut rib, &peering(0), at(1), MessageType::UPDATE, &body);
    assert_eq!((rib.len(), rib.prefixes()), (0, 0));
}

#[test]
fn reports_differences_by_peering() {
    let old = sample();
    let mut new = sample();
    announce(&mut new, 0, 9, &["10.0.0.0/8", "203.0.113.0/24"]);
    let gone = [nlri(1, "10.1.2.0/24")];
    send(&mut new, &peering(1), at(50), MessageType::UPDATE, &update(&gone, &[], 0));
    announce(&mut new, 7, 3, &["10.0.0.0/8"]);
    // An announcement without a change.
    announce(&mut new, 2, 5, &["10.1.3.0/24"]);
    let name = |route: &Route| match route.destination {
        Destination::Prefix(prefix) => format!("{prefix} {}", route.peering.id.0),
        Destination::Other(_) => String::new(),
    };
    let mut found = Vec::new();
    old.diff(&new, &mut |change| {
        found.push(match change {
            Change::Added(route) => format!("+{}", name(&route)),
            Change::Removed(route) => format!("-{}", name(&route)),
            Change::Changed(_, route) => format!("~{}", name(&route)),
        });
    });
    found.sort_unstable();
    assert_eq!(found, ["+10.0.0.0/8 7", "+203.0.113.0/24 0", "-10.1.2.0/24 1", "~10.0.0.0/8 0"]);
    old.diff(&sample(), &mut |change| panic!("{change:?}"));
}

/// Routes are equal after a snapshot is read again: historical queries depend on this.
#[test]
fn restores_routes_from_snapshot() {
    let mut rib = sample();
    let mut file = Vec::new();
    assert!(rib.begin_snapshot(at(90), 1, b""));
    assert!(rib.write_snapshot(usize::MAX, &mut file));
    let mut again = Rib::new();
    let mut input = crate::input::mrt::Input::new(MirrorId(0), PeeringId(0));
    input.read(&file, true, &mut again);
    assert_eq!(again.len(), rib.len());
    rib.diff(&again, &mut |change| panic!("{change:?}"));
}

#[test]
fn finds_same_routes_in_steps() {
    let rib = sample();
    let all = [Scope::MoreSpecific(v4("0.0.0.0/0")), Scope::LessSpecific(v4("10.1.2.0/24"))];
    let longest = [Scope::Longest(v4("10.1.2.9/32")), Scope::Exact(v4("10.1.0.0/16")), Scope::All];
    for (scope, limit) in
        all.into_iter().chain(longest).flat_map(|scope| [None, Some(2)].map(|limit| (scope, limit)))
    {
        let query = Query { limit, ..self::scope(scope) };
        let (mut search, mut steps) = (Search::new(query.clone()), 1);
        while !search.step(&rib, 1) {
            steps += 1;
        }
        assert_eq!(search.into_routes(), rib.query(&query), "{scope:?}");
        assert!(steps > 1 || limit.is_some(), "{scope:?}");
    }
}

#[test]
fn limits_steps_and_allows_changes_between() {
    const PREFIXES: u32 = 3_000;
    let text = |number: u32| format!("10.{}.{}.0/24", number >> 8, number & 0xff);
    let mut rib = Rib::new();
    for number in 0..PREFIXES {
        announce(&mut rib, 0, 3, &[&text(number)]);
    }
    // No path matches: the query must examine all routes.
    let path = Some(PathPattern::new("^nothing$").unwrap());
    let mut search = Search::new(Query { path, ..Query::default() });
    let mut steps = 1;
    while !search.step(&rib, 100) {
        steps += 1;
    }
    // Each prefix counts once as a prefix and once as a route.
    assert!(steps >= 2 * PREFIXES / 100, "{steps} steps");
    assert_eq!(search.into_routes(), []);
    let mut search = Search::new(Query::default());
    for _ in 0..PREFIXES / 100 + 10 {
        assert!(!search.step(&rib, 100));
    }
    // Half of the routes are removed, and other prefixes get their numbers.
    let gone: Vec<Nlri> = (0..PREFIXES).step_by(2).map(|number| nlri(0, &text(number))).collect();
    for part in gone.chunks(100) {
        send(&mut rib, &peering(0), at(9), MessageType::UPDATE, &update(part, &[], 3));
    }
    announce(&mut rib, 0, 3, &["192.0.2.0/24"]);
    while !search.step(&rib, 100) {}
    let found: Vec<String> = search
        .into_routes()
        .into_iter()
        .map(|route| match route.destination {
            Destination::Prefix(prefix) => prefix.to_string(),
            Destination::Other(bytes) => panic!("{bytes:?}"),
        })
        .collect();
    let stayed = (0..PREFIXES).filter(|number| number % 2 == 1).map(text);
    assert!(stayed.into_iter().all(|prefix| found.contains(&prefix)));
    assert!(found.len() < PREFIXES as usize && !found.contains(&"192.0.2.0/24".to_owned()));
}
