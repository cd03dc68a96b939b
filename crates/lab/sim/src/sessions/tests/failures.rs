//! Links that fail and return during a run: effects on rates, queues and link state.

use ratecontrol::RateController;
use ratecontrol::slbn::Slbn;

use super::*;
use crate::canonical::Canonical;
use crate::engine::Engine as _;
use crate::sessions::simulation::Setup;
use crate::sessions::simulation::Simulation;

const DOWN: u64 = 2000;
const UP: u64 = 5000;

/// A hundred sessions on a ring of five routers with a chord; one link fails and returns.
fn ring(protocol: &str, more: &str) -> String {
    let router = |name: &str| format!("[node.{name}]\nkind = \"router\"\n");
    let nodes = ["r0", "r1", "r2", "r3", "r4"].map(router).concat();
    let ends = [("r0", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "r4"), ("r4", "r0"), ("r0", "r2")];
    format!(
        "[lab]\nduration = \"8 s\"\ninterval = \"100 ms\"\nmodel = \"fluid\"\nseed = 3\n\
         [control]\nprotocol = \"{protocol}\"\n{nodes}{}\
         [[sessions]]\nname = \"p\"\ncount = 100\nrouters = \"r*\"\nhosts = 40\n\
         host_rate = \"100 Mbit/s\"\nhost_delay = \"1 us\"\nstart = [\"0 s\", \"200 ms\"]\n{more}\n\
         [[at]]\ntime = \"{DOWN} ms\"\nlink = \"r0-r1\"\ndown = true\n\
         [[at]]\ntime = \"{UP} ms\"\nlink = \"r0-r1\"\nup = true\n",
        links("100 Mbit/s", &ends)
    )
}

#[test]
fn rates_are_fair_again_soon_after_a_failure_and_a_return() {
    // Epochs expire state within three epochs; the others rejoin within some RTTs.
    for (protocol, within) in [("slbn", 500), ("slbn-epochs", 2900), ("bfyz", 500), ("b-neck", 500)]
    {
        let ran = run(&ring(protocol, ""));
        assert!(ran.control.rerouted > 10, "{protocol} {:?}", ran.control);
        for event in [DOWN, UP] {
            let settled = Time::ZERO + Span::from_millis(event + within);
            let next = Time::ZERO + Span::from_millis(event + UP - DOWN);
            let late = |sample: &&ControlSample| sample.at >= settled && sample.at < next;
            let mut late = ran.samples.iter().filter(late).peekable();
            assert!(late.peek().is_some());
            for sample in late {
                let error = sample.source.unwrap().mean_abs;
                assert!(error < 0.01 && sample.assigned == 100, "{protocol} {sample:?}");
            }
        }
        assert!(ran.control.queue_max_packets < 500, "{protocol} {:?}", ran.control);
    }
}

/// A simulation under a protocol whose internal state the test reads.
fn simulation<R: RateController>(text: &str) -> Simulation<R> {
    let plan = plans(text);
    let control = plan.control.clone().unwrap();
    let Canonical { plan, specs, links, flows } = Canonical::new(&plan);
    Simulation::try_new(Setup { plan, flows: specs, flow_ids: flows, link_ids: links, control })
        .unwrap()
}

#[test]
fn three_integers_of_all_links_survive_failures() {
    let text = ring("slbn", "leave = [\"7 s\", \"7.2 s\"]\nleave_count = 99");
    let mut simulation: Simulation<Slbn> = simulation(&text);
    simulation.advance_at_most(Time::ZERO + Span::from_millis(6900), u64::MAX);
    let counted = simulation.links(|link| link.integers().2);
    let present = simulation.present();
    assert!(counted.len() > 100 && present.iter().sum::<u64>() > 300, "{present:?}");
    assert_eq!(counted, present);
    simulation.advance_at_most(Time::ZERO + Span::from_secs(8), u64::MAX);
    let last = simulation.present();
    assert!(last.iter().sum::<u64>() > 0);
    for (integers, present) in
        simulation.links(ratecontrol::slbn::Link::integers).into_iter().zip(last)
    {
        match integers {
            (0, 0, 0) => assert_eq!(present, 0),
            // Limited here, or at the rate that the host's link leaves it.
            (0, 1, 1) | (100_000_000, 0, 1) => assert_eq!(present, 1),
            other => panic!("{other:?} for {present}"),
        }
    }
}

#[test]
fn sessions_of_a_size_send_the_rest_of_it_over_new_paths() {
    let ran = run(&ring("slbn", "size = \"2 MB\"").replace("2000 ms", "250 ms"));
    assert!(ran.control.rerouted > 5, "{:?}", ran.control);
    assert_eq!((ran.control.completed, ran.control.present), (100, 0), "{:?}", ran.control);
}
