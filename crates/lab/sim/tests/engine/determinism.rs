//! The same plan and seed give the same trace, independent of the order of the lab file.

use std::collections::BTreeMap;

use base::Span;
use lab::plan::Plan;
use run::FlowResult;

use super::labs::{self, Ran, stepwise};

const HEAD: &str = "[lab]\nname = \"golden\"\nduration = \"3 s\"\n";

/// The models that simulate packets.
const MODELS: [&str; 2] = ["hop", "collapsed"];

/// Two paths between routers, links with loss and jitter, all kinds of traffic, and events.
const BLOCKS: &[&str] = &[
    "[node.alice]",
    "[node.bob]",
    "[node.carol]",
    "[node.west]\nkind = \"router\"",
    "[node.east]\nkind = \"router\"",
    "[node.north]\nkind = \"router\"",
    "[node.south]\nkind = \"router\"",
    "[node.lan]\nkind = \"switch\"",
    "[[link]]\nends = [\"alice\", \"lan\"]\nrate = \"100 Mbit/s\"\ndelay = \"100 us\"",
    "[[link]]\nends = [\"carol\", \"lan\"]\nrate = \"100 Mbit/s\"\ndelay = \"100 us\"",
    "[[link]]\nends = [\"lan\", \"west\"]\nrate = \"100 Mbit/s\"",
    "[[link]]\nends = [\"west\", \"north\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
     loss = \"0.1 %\"",
    "[[link]]\nends = [\"west\", \"south\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
     jitter = \"1 ms\"",
    "[[link]]\nends = [\"north\", \"east\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
     queue = { kind = \"fq-codel\" }",
    "[[link]]\nends = [\"south\", \"east\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
     queue = { kind = \"red\" }",
    "[[link]]\nends = [\"east\", \"bob\"]\nrate = \"30 Mbit/s\"\ndelay = \"1 ms\"",
    "[[flow]]\nname = \"one\"\nfrom = \"alice\"\nto = \"bob\"\ntransport = \"tcp\"\n\
     control = \"cubic\"",
    "[[flow]]\nname = \"two\"\nfrom = \"carol\"\nto = \"bob\"\ntransport = \"tcp\"\n\
     control = \"reno\"\nstreams = 3\nsize = \"3 MB\"",
    "[[flow]]\nname = \"cbr\"\nfrom = \"bob\"\nto = \"carol\"\ntransport = \"udp\"\n\
     rate = \"2 Mbit/s\"",
    "[[flow]]\nname = \"ask\"\nfrom = \"alice\"\nto = \"bob\"\n\
     request = \"200 B\"\nresponse = \"20 kB\"",
];

const TAIL: &str = "[[at]]\ntime = \"1 s\"\nlink = [\"west\", \"north\"]\ndown = true\n\
                    [[at]]\ntime = \"2 s\"\nlink = [\"west\", \"north\"]\nup = true\n";

fn plan(model: &str, blocks: &[&str], seed: u64) -> Plan {
    let blocks = blocks.join("\n");
    labs::plan(&format!("{HEAD}model = \"{model}\"\nseed = {seed}\n{blocks}\n{TAIL}"))
}

/// Runs to the end, in `steps` steps.
fn run(plan: &Plan, steps: u64) -> Ran {
    stepwise(plan, Span::from_nanos(plan.duration.as_nanos() / steps))
}

/// Results of each flow, by name.
fn numbers(ran: &Ran) -> BTreeMap<String, [Option<u64>; 4]> {
    let of =
        |r: &FlowResult| [Some(r.sent_bytes), Some(r.received_bytes), r.retransmits, r.responses];
    ran.results.iter().map(|result| (result.name.clone(), of(result))).collect()
}

#[test]
fn the_order_of_the_lab_file_changes_nothing() {
    for model in MODELS {
        in_any_order(model);
    }
}

fn in_any_order(model: &str) {
    let first = run(&plan(model, BLOCKS, 7), 30);
    assert!(first.processed > 10_000, "{}", first.processed);
    for flow in &first.results {
        assert!(flow.received_bytes > 10_000, "{}: {}", flow.name, flow.received_bytes);
    }
    let reversed: Vec<&str> = BLOCKS.iter().rev().copied().collect();
    let mut rotated = BLOCKS.to_vec();
    rotated.rotate_left(11);
    let halves: Vec<&str> =
        BLOCKS.iter().step_by(2).chain(BLOCKS.iter().skip(1).step_by(2)).copied().collect();
    for order in [BLOCKS.to_vec(), reversed, rotated, halves] {
        let again = run(&plan(model, &order, 7), 30);
        assert_eq!((again.hash, again.processed), (first.hash, first.processed), "{order:?}");
        assert_eq!(numbers(&again), numbers(&first));
    }
}

#[test]
fn looking_more_often_changes_nothing() {
    for model in MODELS {
        let plan = plan(model, BLOCKS, 7);
        let hash = run(&plan, 30).hash;
        assert_eq!(run(&plan, 1).hash, hash, "{model}");
        assert_eq!(run(&plan, 1000).hash, hash, "{model}");
    }
}

#[test]
fn another_seed_is_another_run() {
    for model in MODELS {
        let hash = |seed| run(&plan(model, BLOCKS, seed), 3).hash;
        assert_ne!(hash(7), hash(8), "{model}");
    }
}

#[test]
fn threads_do_not_disturb_each_other() {
    let plan = plan("hop", BLOCKS, 7);
    let hash = run(&plan, 10).hash;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&plan, 10).hash)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), hash);
        }
    });
}
