use std::collections::BTreeSet;

use base::{Bandwidth, Span};
use proptest::prelude::*;

use super::*;
use crate::Class;

fn degrees(graph: &Graph) -> Vec<usize> {
    let mut degrees = vec![0; graph.nodes.len()];
    graph.links.iter().flat_map(|link| link.ends).for_each(|end| degrees[end as usize] += 1);
    degrees
}

fn count(graph: &Graph, role: Role) -> usize {
    graph.nodes.iter().filter(|node| node.role == role).count()
}

fn class(graph: &Graph, class: Class) -> usize {
    graph.links.iter().filter(|link| link.class == class).count()
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.name.as_str()).collect()
}

/// Properties of every generated graph.
fn check(graph: &Graph) {
    assert!(graph.is_connected());
    let unique: BTreeSet<_> = names(graph).into_iter().collect();
    assert_eq!(unique.len(), graph.nodes.len(), "names are unique");
    let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(unique.iter().all(|name| name.len() < 64 && name.chars().all(fit)));
    assert!(graph.links.iter().all(|link| link.ends[0] != link.ends[1]));
    assert!(graph.links.iter().flat_map(|link| link.ends).all(|e| (e as usize) < unique.len()));
}

#[test]
fn line_and_ring() {
    let line = Line { routers: 3, hosts: 1 }.generate(0).unwrap();
    check(&line);
    assert_eq!(names(&line), ["r1", "r2", "r3", "h1", "h2", "h3"]);
    assert_eq!(degrees(&line), [2, 3, 2, 1, 1, 1]);
    let ring = Ring { routers: 5, hosts: 2 }.generate(0).unwrap();
    check(&ring);
    assert_eq!((ring.nodes.len(), ring.links.len()), (15, 15));
    assert_eq!(ring.nodes[6].name, "h1-2");
}

#[test]
fn star_dumbbell_and_tree() {
    let star = Star { hosts: 1_000, hub: Role::Switch }.generate(0).unwrap();
    check(&star);
    assert_eq!((degrees(&star)[0], class(&star, Class::Access)), (1_000, 1_000));
    let dumbbell = Dumbbell { left: 2, right: 1 }.generate(0).unwrap();
    check(&dumbbell);
    assert_eq!(names(&dumbbell), ["core1", "core2", "l1", "l2", "r1"]);
    assert_eq!((class(&dumbbell, Class::Core), dumbbell.links.len()), (1, 4));
    let tree = Tree { depth: 3, fanout: 2 }.generate(0).unwrap();
    check(&tree);
    assert_eq!((count(&tree, Role::Router), count(&tree, Role::Host)), (7, 8));
}

#[test]
fn grid_with_and_without_wrap() {
    let grid = |wrap| Grid { rows: 3, columns: 4, wrap, hosts: 0 }.generate(0).unwrap();
    check(&grid(false));
    assert_eq!(grid(false).links.len(), 3 * 3 + 2 * 4);
    assert_eq!(degrees(&grid(true)), [4; 12]);
}

#[test]
fn fat_tree_is_non_blocking_by_count() {
    let k = 4;
    let graph = FatTree { k }.generate(0).unwrap();
    check(&graph);
    assert_eq!((count(&graph, Role::Router), count(&graph, Role::Host)), (20, 16));
    let degrees = degrees(&graph);
    let all_ports = graph.nodes.iter().zip(degrees).filter(|(node, _)| node.role == Role::Router);
    assert!(all_ports.into_iter().all(|(_, degree)| degree == k as usize));
    assert_eq!([Class::Access, Class::Aggregation, Class::Core].map(|c| class(&graph, c)), [16; 3]);
    // (k/2)² equal paths between pods appear as k/2 next hops at the edge router.
    let place = |name| names(&graph).iter().position(|n| *n == name).unwrap() as u32;
    let paths = graph.adjacency(|_| 1).paths_to(place("h4-2-1"));
    assert_eq!(paths.distance(place("h1-1-1")), Some(6));
    assert_eq!(paths.next_hops(place("e1-1")).len(), 2);
}

#[test]
fn waxman_follows_its_probabilities() {
    let waxman = Waxman { routers: 200, alpha: 1.0, beta: 1e9, side: Span::ZERO, hosts: 0 };
    assert!(waxman.generate(1).is_err());
    let waxman = Waxman { alpha: 0.4, beta: 0.2, side: Span::from_millis(10), ..waxman };
    let graph = waxman.generate(1).unwrap();
    check(&graph);
    let place = |end: u32| graph.nodes[end as usize].position.unwrap();
    let mut expected = 0.0;
    for a in 0..200 {
        for b in a + 1..200 {
            let ([ax, ay], [bx, by]) = (place(a), place(b));
            expected += 0.4 * (-(ax - bx).hypot(ay - by) / (0.2 * 2f64.sqrt())).exp();
        }
    }
    let links = graph.links.len() as f64;
    assert!((links - expected).abs() < 5.0 * expected.sqrt(), "{links} {expected}");
    let link = &graph.links[0];
    let ([ax, ay], [bx, by]) = (place(link.ends[0]), place(link.ends[1]));
    let delay = link.spec.delay.unwrap().as_secs_f64();
    assert!((delay - 0.01 * (ax - bx).hypot(ay - by)).abs() < 1e-8);
}

#[test]
fn sparse_waxman_is_joined_by_as_few_links_as_needed() {
    let sparse = Waxman { routers: 50, alpha: 1e-9, beta: 0.1, side: Span::ZERO, hosts: 1 };
    let graph = sparse.generate(3).unwrap();
    check(&graph);
    assert_eq!(class(&graph, Class::Core), 49);
}

#[test]
fn barabasi_albert_has_hubs() {
    let graph = BarabasiAlbert { routers: 2_000, links: 2, hosts: 0 }.generate(1).unwrap();
    check(&graph);
    assert_eq!(graph.links.len(), 3 + 1_997 * 2);
    let mut degrees = degrees(&graph);
    degrees.sort_unstable();
    assert_eq!(degrees[0], 2);
    // A uniform random graph of this density would rarely have a degree above 15.
    assert!(degrees[1_999] > 40, "{}", degrees[1_999]);
}

#[test]
fn transit_stub_has_the_stated_sizes() {
    let medium = TransitStub { hosts: 2, ..TransitStub::medium() };
    let graph = medium.generate(1).unwrap();
    check(&graph);
    assert_eq!((count(&graph, Role::Router), count(&graph, Role::Host)), (1_100, 2_000));
    let rate = |class| graph.links.iter().find(|l| l.class == class).unwrap().spec.rate;
    assert_eq!(rate(Class::Core), Some(Bandwidth::from_mbits_per_sec(5_000)));
    assert_eq!(rate(Class::Aggregation), Some(Bandwidth::from_mbits_per_sec(1_000)));
    assert_eq!(rate(Class::Access), Some(Bandwidth::from_mbits_per_sec(100)));
    for link in graph.links.iter().filter(|link| link.class != Class::Access) {
        let delay = link.spec.delay.unwrap();
        assert!((Span::from_millis(1)..=Span::from_millis(10)).contains(&delay));
    }
    let large = TransitStub::large().generate(1).unwrap();
    assert_eq!((large.nodes.len(), large.is_connected()), (11_000, true));
}

#[test]
fn stub_domains_carry_no_transit_traffic() {
    let graph = TransitStub::medium().generate(5).unwrap();
    let stub = |end: u32| graph.nodes[end as usize].name.starts_with('s');
    let mut transit_only = graph.clone();
    transit_only.links.retain(|link| !link.ends.into_iter().any(stub));
    let components = transit_only.components();
    assert!(graph.nodes.iter().zip(components).all(|(n, c)| !n.name.starts_with('t') || c == 0));
}

#[test]
fn reports_parameters_out_of_bounds() {
    let text = |result: Result<Graph, Error>| result.unwrap_err().to_string();
    assert_eq!(
        text(Ring { routers: 2, hosts: 0 }.generate(0)),
        "ring: `routers` is 2, but must be from 3 to 1000000"
    );
    assert_eq!(text(FatTree { k: 5 }.generate(0)), "fat-tree: `k` is 5, but must be even");
    assert_eq!(
        text(Tree { depth: 64, fanout: 1_000_000 }.generate(0)),
        format!("tree: this makes at least {} nodes and links; the limit is 1000000", u64::MAX)
    );
    assert_eq!(
        text(
            Waxman { routers: 9, alpha: f64::NAN, beta: 0.1, side: Span::ZERO, hosts: 0 }
                .generate(0)
        ),
        "waxman: `alpha` is NaN, but must be above 0 and at most 1"
    );
    assert_eq!(
        text(Line { routers: 1_000_000, hosts: u32::MAX }.generate(0)),
        "line: this makes at least 8589934591999999 nodes and links; the limit is 1000000"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_graphs_are_connected_and_repeat(
        seed in any::<u64>(),
        routers in 1u32..40,
        hosts in 0u32..3,
        alpha in 0.01f64..1.0,
        p in 0.0f64..1.0,
    ) {
        let waxman = Waxman { routers, alpha, beta: 0.1, side: Span::ZERO, hosts };
        let links = 1 + routers % 4;
        let albert = BarabasiAlbert { routers: routers + 5, links, hosts };
        let transit_stub = TransitStub {
            transit_domains: 1 + routers % 5,
            transit_routers: 1 + routers % 3,
            stubs: routers % 3,
            stub_routers: 1 + routers % 4,
            domain_links: p,
            transit_links: p,
            stub_links: p,
            extra_transit_stub: 3,
            extra_stub_stub: 3,
            hosts,
            ..TransitStub::default()
        };
        let all = |seed| -> Result<_, Error> {
            let random = (waxman.generate(seed)?, albert.generate(seed)?);
            Ok((random, transit_stub.generate(seed)?))
        };
        let graphs = all(seed).unwrap();
        check(&graphs.0.0);
        check(&graphs.0.1);
        check(&graphs.1);
        prop_assert_eq!(graphs, all(seed).unwrap());
    }
}

/// The limit is exact, and is checked before the graph is built if the size has no random part.
#[test]
fn size_is_known_before_the_graph_is_built() {
    let waxman = |alpha| Waxman { routers: 60, alpha, beta: 0.2, side: Span::ZERO, hosts: 3 };
    let transit_stub = TransitStub {
        hosts: 2,
        extra_transit_stub: 4,
        extra_stub_stub: 5,
        ..TransitStub::default()
    };
    let generators: [&dyn Generator; 21] = [
        &Line { routers: 1, hosts: 0 },
        &Line { routers: 9, hosts: 3 },
        &Ring { routers: 3, hosts: 0 },
        &Ring { routers: 9, hosts: 3 },
        &Star { hosts: 7, hub: Role::Router },
        &Dumbbell { left: 3, right: 4 },
        &Tree { depth: 1, fanout: 1 },
        &Tree { depth: 3, fanout: 4 },
        &Grid { rows: 1, columns: 1, wrap: true, hosts: 0 },
        &Grid { rows: 4, columns: 5, wrap: false, hosts: 2 },
        &Grid { rows: 4, columns: 5, wrap: true, hosts: 2 },
        &Grid { rows: 2, columns: 5, wrap: true, hosts: 0 },
        &FatTree { k: 2 },
        &FatTree { k: 6 },
        &waxman(0.01),
        &waxman(1.0),
        &BarabasiAlbert { routers: 2, links: 1, hosts: 0 },
        &BarabasiAlbert { routers: 50, links: 3, hosts: 2 },
        &TransitStub { stubs: 0, ..TransitStub::default() },
        &TransitStub { transit_domains: 1, transit_routers: 1, ..TransitStub::default() },
        &transit_stub,
    ];
    for (index, generator) in generators.into_iter().enumerate() {
        let size = generator.generate(7).unwrap().elements();
        assert!(generator.generate_within(7, size).is_ok(), "{index}");
        let error = generator.generate_within(7, size - 1).unwrap_err();
        let Error::TooLarge { count, limit, .. } = error else { panic!("{index}: {error}") };
        assert_eq!((count, limit), (size, size - 1), "{index}");
    }
}

#[test]
fn refuses_large_graphs_without_building_them() {
    let generators: [&dyn Generator; 8] = [
        &FatTree { k: 128 },
        &Star { hosts: 999_999, hub: Role::Switch },
        &Dumbbell { left: 499_999, right: 499_999 },
        &Grid { rows: 1_000_000, columns: 1_000_000, wrap: true, hosts: u32::MAX },
        &BarabasiAlbert { routers: 1_000_000, links: 1_000, hosts: u32::MAX },
        &Waxman { routers: 10_000, alpha: 1.0, beta: 1.0, side: Span::ZERO, hosts: 50 },
        &TransitStub { stubs: 1_000, stub_routers: 1_000, hosts: u32::MAX, ..TransitStub::large() },
        &Ring { routers: 1_000_000, hosts: 0 },
    ];
    // Building these would take all memory of a machine.
    for generator in generators {
        let error = generator.generate(1).unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: MAX_ELEMENTS, .. }), "{error}");
    }
    assert_eq!(FatTree { k: 64 }.generate(1).unwrap().elements(), 267_264);
}
