//! MCTCP over simulated paths: what flows get of them together.

use lab::plan::Plan;
use outcome::FlowResult;

use super::labs;

/// Two ways from a server to a client; each link's rate, delay and what else it is given.
fn two_ways(duration: &str, links: [&str; 2], rest: &str) -> Plan {
    let [left, right] = links;
    labs::plan(&format!(
        "[lab]\nname = \"ways\"\nduration = \"{duration}\"\noverhead = \"14 B\"\n\
         [node.server]\n[node.client]\n[node.west]\nkind = \"router\"\n\
         [node.east]\nkind = \"router\"\n\
         [[link]]\nname = \"west-out\"\nends = [\"server\", \"west\"]\n\
         [[link]]\nname = \"left\"\nends = [\"west\", \"client\"]\nqueue = \"60 kB\"\n{left}\n\
         [[link]]\nname = \"east-out\"\nends = [\"server\", \"east\"]\n\
         [[link]]\nname = \"right\"\nends = [\"east\", \"client\"]\nqueue = \"60 kB\"\n{right}\n\
         {rest}"
    ))
}

fn result(plan: &Plan) -> FlowResult {
    let mut results = labs::run(plan).results;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// Rate and delay of the links of the first evaluations.
const EVEN: &str = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"";

const BULK: &str = "[[flow]]\nfrom = \"server\"\nto = \"client\"\ntransport = \"mctcp\"";

#[test]
fn two_equal_paths_give_nearly_the_sum() {
    let both = result(&two_ways("20 s", [EVEN; 2], BULK));
    let paths: Vec<u64> = both.paths.iter().map(|path| path.received_bytes).collect();
    assert_eq!(paths.len(), 2);
    assert!(paths[0].abs_diff(paths[1]) < paths[0] / 20, "{paths:?}");
    let alone = result(&two_ways("20 s", [EVEN; 2], &BULK.replace("mctcp", "tcp")));
    let share = both.received_bytes as f64 / (2 * alone.received_bytes) as f64;
    assert!(share > 0.98, "{share}");
}
