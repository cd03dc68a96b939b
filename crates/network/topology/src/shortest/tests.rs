use super::*;
use proptest::prelude::*;

fn both_ways(links: &[(u32, u32, u64)], n: usize) -> Adjacency {
    let mut graph = Adjacency::new(n);
    for (index, &(a, b, cost)) in links.iter().enumerate() {
        graph.add(a, Arc { to: b, cost, id: 2 * index as u32 });
        graph.add(b, Arc { to: a, cost, id: 2 * index as u32 + 1 });
    }
    graph
}

#[test]
fn equal_costs_give_all_next_hops() {
    // A square with one heavier diagonal.
    let graph = both_ways(&[(0, 1, 1), (1, 3, 1), (0, 2, 1), (2, 3, 1), (0, 3, 3)], 4);
    let paths = graph.paths_to(3);
    assert_eq!(paths.next_hops(0), [0, 4]);
    assert_eq!(paths.distance(0), Some(2));
    assert_eq!(paths.next_hops(3), [0u32; 0]);
    assert_eq!(paths.distance(3), Some(0));
}

#[test]
fn unequal_hop_counts_at_equal_cost_both_count() {
    let graph = both_ways(&[(0, 1, 1), (1, 2, 1), (0, 2, 2)], 3);
    assert_eq!(graph.paths_to(2).next_hops(0), [0, 4]);
}

#[test]
fn hosts_carry_no_transit_but_begin_and_end_paths() {
    let mut graph = both_ways(&[(0, 1, 1), (1, 2, 1)], 3);
    graph.set_transit(1, false);
    assert_eq!(graph.paths_to(2).distance(0), None);
    assert_eq!(graph.paths_to(2).next_hops(0), [0u32; 0]);
    assert_eq!(graph.paths_to(2).distance(1), Some(1));
    assert_eq!(graph.paths_to(1).distance(0), Some(1));
}

#[test]
fn zero_cost_rings_do_not_loop() {
    let graph = both_ways(&[(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 0, 0)], 4);
    let paths = graph.paths_to(0);
    assert_eq!(paths.next_hops(1), [1]);
    assert_eq!(paths.next_hops(2), [3, 4]);
    assert_eq!(paths.next_hops(3), [6]);
}

#[test]
fn costs_beyond_64_bits_are_no_path() {
    let graph = both_ways(&[(0, 1, u64::MAX - 1), (1, 2, u64::MAX - 1)], 3);
    assert_eq!(graph.paths_to(2).distance(0), None);
    assert_eq!(graph.paths_to(2).distance(1), Some(u64::MAX - 1));
}

#[test]
fn same_interface_to_several_neighbours_is_listed_once() {
    let mut graph = Adjacency::new(4);
    for to in [1, 2] {
        graph.add(0, Arc { to, cost: 1, id: 7 });
        graph.add(to, Arc { to: 3, cost: 1, id: to });
    }
    assert_eq!(graph.paths_to(3).next_hops(0), [7]);
}

#[test]
fn leaves_attach_and_pairs_do_not() {
    let star = both_ways(&[(0, 1, 5), (0, 2, 6)], 3);
    let leaf = star.attachment(2).unwrap();
    assert_eq!((leaf.root, leaf.up.id, leaf.down.id), (0, 3, 2));
    assert_eq!(star.attachment(0), None);
    assert_eq!(both_ways(&[(0, 1, 1)], 2).attachment(0), None);
    let mut hosts = both_ways(&[(0, 1, 1), (1, 2, 1)], 3);
    hosts.set_transit(1, false);
    assert_eq!(hosts.attachment(0), None);
}

#[test]
fn a_star_of_hosts_needs_one_table() {
    let links: Vec<_> = (1..=1_000).map(|host| (0, host, 1)).collect();
    let mut graph = both_ways(&links, 1_001);
    (1..=1_000).for_each(|host| graph.set_transit(host, false));
    let all = AllPaths::compute(&graph);
    assert_eq!(all.next_hops(17, 400), [2 * 16 + 1]);
    assert_eq!(all.next_hops(0, 400), [2 * 399]);
    assert_eq!(all.distance(17, 400), Some(2));
}

/// Bellman-Ford with the same rules, as a simple reference.
fn naive(graph: &Adjacency, dest: u32) -> Vec<Option<u64>> {
    let mut cost = vec![None; graph.len()];
    cost[dest as usize] = Some(0u64);
    for _ in 0..graph.len() {
        for node in (0..graph.len() as u32).filter(|node| *node != dest) {
            let via = |arc: &Arc| {
                let open = arc.to == dest || graph.transit[arc.to as usize];
                cost[arc.to as usize].filter(|_| open)?.checked_add(arc.cost)
            };
            cost[node as usize] = graph.arcs(node).iter().filter_map(via).min();
        }
    }
    cost
}

prop_compose! {
    fn graphs()(n in 1usize..12)(
        n in Just(n),
        links in prop::collection::vec((0..n as u32, 0..n as u32, 0u64..4), 0..24),
        transit in prop::collection::vec(prop::bool::weighted(0.8), n),
    ) -> Adjacency {
        let mut graph = both_ways(&links, n);
        transit.iter().enumerate().for_each(|(node, t)| graph.set_transit(node as u32, *t));
        graph
    }
}

proptest! {
    #[test]
    fn distances_agree_with_bellman_ford(graph in graphs()) {
        for dest in 0..graph.len() as u32 {
            let (paths, expected) = (graph.paths_to(dest), naive(&graph, dest));
            for node in 0..graph.len() as u32 {
                prop_assert_eq!(paths.distance(node), expected[node as usize]);
                let empty = node == dest || expected[node as usize].is_none();
                prop_assert_eq!(paths.next_hops(node).is_empty(), empty);
            }
        }
    }

    #[test]
    fn searching_anew_finds_the_same_ways(graph in graphs(), least in 0u64..4) {
        // The second pass uses buckets.
        let mut graph = graph;
        if least > 0 {
            let arcs = graph.outgoing.iter_mut().flatten().map(|arc| &mut arc.cost);
            let costs = arcs.chain(graph.incoming.iter_mut().flatten().map(|arc| &mut arc.1));
            costs.for_each(|cost| *cost = cost.saturating_add(least));
        }
        let (mut search, mut found) = (Search::new(&graph), Vec::new());
        for dest in 0..graph.len() as u32 {
            let paths = graph.paths_to(dest);
            search.aim(dest);
            for node in 0..graph.len() as u32 {
                search.next_hops(node, &mut found);
                prop_assert_eq!(&found[..], paths.next_hops(node));
            }
        }
    }

    #[test]
    fn every_next_hop_leads_on_at_the_stated_cost(graph in graphs(), choice_bits in any::<u64>()) {
        for dest in 0..graph.len() as u32 {
            let paths = graph.paths_to(dest);
            for start in 0..graph.len() as u32 {
                let Some(expected) = paths.distance(start) else { continue };
                let (mut node, mut cost, mut choice_bits, mut hops) = (start, 0, choice_bits, 0);
                while node != dest {
                    let choices = paths.next_hops(node);
                    let id = choices[choice_bits as usize % choices.len()];
                    choice_bits = choice_bits.rotate_right(3);
                    let arc = graph.arcs(node).iter().find(|arc| arc.id == id).unwrap();
                    (node, cost, hops) = (arc.to, cost + arc.cost, hops + 1);
                    prop_assert!(hops <= graph.len(), "loop");
                }
                prop_assert_eq!(cost, expected);
            }
        }
    }

    #[test]
    fn sharing_tables_between_leaves_changes_nothing(graph in graphs()) {
        let all = AllPaths::compute(&graph);
        for dest in 0..graph.len() as u32 {
            let paths = graph.paths_to(dest);
            for node in 0..graph.len() as u32 {
                prop_assert_eq!(all.next_hops(node, dest), paths.next_hops(node));
                prop_assert_eq!(all.distance(node, dest), paths.distance(node));
            }
        }
    }
}
