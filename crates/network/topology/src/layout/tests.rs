use proptest::prelude::*;

use super::*;
use crate::Role;
use crate::generate::{Dumbbell, Generator as _, Grid, Ring, Star, TransitStub};

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The smallest distance between two nodes, in units of 1/√n.
fn crowding(places: &[[f64; 2]]) -> f64 {
    let mut least = f64::INFINITY;
    for (at, &a) in places.iter().enumerate() {
        for &b in &places[..at] {
            least = least.min(distance(a, b));
        }
    }
    least * (places.len() as f64).sqrt()
}

#[test]
fn small_graphs_are_spread_out() {
    let dumbbell = of(&Dumbbell { left: 5, right: 5 }.generate(0).unwrap(), 1);
    assert!(crowding(&dumbbell) > 0.15, "{}", crowding(&dumbbell));
    assert!((dumbbell[0][0] - dumbbell[1][0]).abs() > 0.4, "the core link lies flat");
    let star = of(&Star { hosts: 12, hub: Role::Switch }.generate(0).unwrap(), 1);
    assert!(crowding(&star) > 0.5, "{}", crowding(&star));
    // The hub is in the middle.
    assert!(distance(star[0], [0.5, 0.5]) < 0.1);
}

#[test]
fn a_ring_is_round() {
    let ring = of(&Ring { routers: 16, hosts: 0 }.generate(0).unwrap(), 1);
    let radii: Vec<f64> = ring.iter().map(|place| distance(*place, [0.5, 0.5])).collect();
    let (least, most) = radii.iter().fold((1.0f64, 0.0f64), |(l, m), r| (l.min(*r), m.max(*r)));
    assert!(least > 0.6 * most, "{least} {most}");
}

#[test]
fn neighbours_are_nearer_than_others() {
    let grid = Grid { rows: 6, columns: 6, wrap: false, hosts: 1 }.generate(0).unwrap();
    let places = of(&grid, 1);
    let linked = grid.links.iter().map(|link| {
        let [a, b] = link.ends.map(|end| places[end as usize]);
        distance(a, b)
    });
    let linked = linked.sum::<f64>() / grid.links.len() as f64;
    assert!(linked < 0.25, "{linked}");
    assert!(crowding(&places) > 0.05, "{}", crowding(&places));
}

#[test]
fn given_positions_are_kept_in_shape() {
    let mut graph = Ring { routers: 3, hosts: 0 }.generate(0).unwrap();
    for (node, x) in graph.nodes.iter_mut().zip([0.0, 50.0, 100.0]) {
        node.position = Some([x, x / 2.0]);
    }
    assert_eq!(of(&graph, 1), [[0.0, 0.25], [0.5, 0.5], [1.0, 0.75]]);
}

#[test]
fn thousands_of_nodes_stand_apart() {
    let graph = TransitStub { hosts: 3, ..TransitStub::medium() }.generate(1).unwrap();
    let places = of(&graph, 1);
    let unique: std::collections::BTreeSet<_> =
        places.iter().map(|place| place.map(f64::to_bits)).collect();
    assert_eq!(unique.len(), graph.nodes.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_graph_fits_the_square_and_repeats(
        n in 0usize..40,
        links in prop::collection::vec((0u32..40, 0u32..40), 0..60),
        seed in any::<u64>(),
    ) {
        let links: Vec<_> = links.into_iter().map(|(a, b)| [a, b]).collect();
        let inside = |end: u32| (end as usize) < n;
        let links: Vec<_> =
            links.into_iter().filter(|ends| ends.iter().all(|end| inside(*end))).collect();
        let places = place(n, &links, seed);
        prop_assert_eq!(places.len(), n);
        prop_assert!(places.iter().flatten().all(|x| (0.0..=1.0).contains(x)));
        prop_assert_eq!(places, place(n, &links, seed));
    }
}
