//! MCTCP over simulated paths: what flows get of them together.

use base::Span;
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

/// Down for a while, or for ever.
fn outage(link: &str, from: &str, until: Option<&str>) -> String {
    let event = |time: &str, what: &str| {
        format!("\n[[at]]\ntime = \"{time}\"\nlink = \"{link}\"\n{what} = true")
    };
    event(from, "down") + &until.map(|until| event(until, "up")).unwrap_or_default()
}

#[test]
fn a_path_that_dies_and_returns_is_left_and_used_again() {
    let lab = format!("{BULK}{}", outage("right", "5 s", Some("10 s")));
    let ran = labs::run(&two_ways("20 s", [EVEN; 2], &lab));
    let rate = |from: u64, until: u64| {
        let within = ran.samples.iter().filter(|sample| {
            let at = sample.at.as_nanos() / 1_000_000;
            from < at && at <= until
        });
        within.map(|sample| sample.received_bytes).sum::<u64>() * 8 / (until - from) / 1_000
    };
    // Mbit/s before, during and from 3 s after the outage.
    assert!(rate(2_000, 5_000) >= 18, "{}", rate(2_000, 5_000));
    assert!(rate(6_000, 10_000) >= 9, "{}", rate(6_000, 10_000));
    assert!(rate(13_000, 20_000) >= 18, "{}", rate(13_000, 20_000));
    let gap = ran.results[0].gap.unwrap();
    assert!(gap <= Span::from_millis(500), "{gap}");
}

#[test]
fn a_session_opens_over_the_second_path_where_the_first_is_dead() {
    let size = "\nsize = \"1 MB\"";
    let lab = format!("{BULK}{size}{}", outage("left", "0 s", None));
    let ran = labs::run(&two_ways("20 s", [EVEN; 2], &lab));
    let completion = ran.results[0].completion.expect("it is delivered whole");
    assert!(completion <= Span::from_secs(2), "{completion}");
    assert_eq!(ran.results[0].received_bytes, 1_000_000);
}

#[test]
fn short_transfers_take_no_longer_than_over_tcp() {
    let lab = |transport: &str| {
        format!(
            "[[flow]]\nfrom = \"server\"\nto = \"client\"\ntransport = \"{transport}\"\n\
             size = \"20 kB\"\narrivals = {{ every = \"200 ms\" }}\ncount = 20"
        )
    };
    let completions = |transport: &str| {
        let ran = labs::run(&two_ways("20 s", [EVEN; 2], &lab(transport)));
        let spans = ran.transfers.iter().map(|transfer| transfer.completion.unwrap().as_nanos());
        let mut spans: Vec<u64> = spans.collect();
        assert_eq!(spans.len(), 20);
        spans.sort_unstable();
        spans[10]
    };
    let (tcp, mctcp) = (completions("tcp"), completions("mctcp"));
    assert!(mctcp <= tcp + tcp / 20, "{mctcp} ns against {tcp} ns");
}

#[test]
fn requests_are_answered_as_over_tcp() {
    let lab = |transport: &str| {
        format!(
            "[[flow]]\nfrom = \"server\"\nto = \"client\"\ntransport = \"{transport}\"\n\
             request = \"1 KiB\"\nresponse = \"1 KiB\"\ncount = 50"
        )
    };
    let mean = |transport: &str| {
        let result = result(&two_ways("20 s", [EVEN; 2], &lab(transport)));
        assert_eq!(result.responses, Some(50));
        result.completion.unwrap().as_nanos() / 50
    };
    let (tcp, mctcp) = (mean("tcp"), mean("mctcp"));
    assert!(mctcp <= tcp + tcp / 20, "{mctcp} ns against {tcp} ns");
}

#[test]
fn an_application_that_offers_at_a_rate_gets_it() {
    for transport in ["tcp", "mctcp"] {
        let flow = BULK.replace("mctcp", transport) + "\nrate = \"5 Mbit/s\"";
        let result = result(&two_ways("10 s", [EVEN; 2], &flow));
        let rate = result.received_bytes as f64 * 8.0 / 10e6;
        assert!((4.9..=5.0).contains(&rate), "{transport}: {rate} Mbit/s");
    }
}

/// The sender has to wait once the receiver's buffers are full, and goes on after the pause.
#[test]
fn a_receiver_that_pauses_stops_the_sender_and_gets_all() {
    let flows = [
        ("tcp", "", 0.95 * 262_144.0),
        // Each is given what two of its windows take, which is less than there is room for.
        ("tcp", "\nstreams = 2", 262_144.0),
        ("mctcp", "", 0.95 * 524_288.0),
        ("mctcp", "\nrate = \"4 Mbit/s\"", 0.95 * 524_288.0),
    ];
    for (transport, keys, buffers) in flows {
        let flow = BULK.replace("mctcp", transport)
            + keys
            + "\nsize = \"6 MB\"\nwindow = \"262144 B\"\npause = [\"1 s\", \"31010 ms\"]";
        let ran = labs::run(&two_ways("60 s", [EVEN; 2], &flow));
        let result = &ran.results[0];
        assert_eq!((result.received_bytes, result.sent_bytes), (6_000_000, 6_000_000), "{flow}");
        let completion = result.completion.expect("it is delivered whole").as_secs_f64();
        // All the time that it has, and no longer than it takes at the rate of the links.
        assert!((31.0..45.0).contains(&completion), "{flow}: {completion} s");
        let gap = result.gap.unwrap().as_secs_f64();
        assert!((29.9..30.5).contains(&gap), "{flow}: {gap} s");
        let within = |from: f64, until: f64| {
            let at = |at: base::Time| at.as_nanos() as f64 / 1e9;
            let fit = ran.samples.iter().filter(|s| from < at(s.at) && at(s.at) <= until);
            fit.map(|sample| sample.received_bytes).sum::<u64>() as f64
        };
        assert!(within(1.0, 31.0) < 1.0, "{flow}");
        // What waits fits the credit, to the byte.
        let kept = (transport == "mctcp").then_some(524_288);
        assert_eq!(result.buffered, kept, "{flow}");
        // What had waited is read at once.
        let waited = within(31.0, 31.1);
        assert!((buffers..1.6 * buffers).contains(&waited), "{flow}: {waited} B");
    }
}

#[test]
fn the_order_of_the_lab_file_changes_nothing() {
    let lab = format!(
        "{BULK}\nname = \"both\"\nsubflows = 3\n{}\nname = \"one\"\nvia = [\"east-out\"]\n\
         size = \"2 MB\"\nstart = \"1 s\"{}",
        BULK,
        outage("left", "2 s", Some("3 s"))
    );
    let uneven = "rate = \"5 Mbit/s\"\ndelay = \"40 ms\"\nloss = \"1 %\"";
    let plan = two_ways("6 s", [EVEN, uneven], &lab);
    let ran = labs::run(&plan);
    assert_eq!(labs::run(&plan).hash, ran.hash);
    let text = lab::resolved(&plan);
    let (head, flows) = text.split_once("[[flow]]").unwrap();
    // Links and flows the other way round.
    let mut links: Vec<&str> = head.split("[[link]]").collect();
    links[1..].reverse();
    let mut flows: Vec<&str> = flows.split("[[flow]]").collect();
    let at = flows.last_mut().unwrap();
    let (last, events) = at.split_once("[[at]]").unwrap();
    *at = last;
    flows.reverse();
    let shuffled = format!(
        "{}\n[[flow]]{}\n[[at]]{events}",
        links.join("\n[[link]]"),
        flows.join("\n[[flow]]")
    );
    let again = labs::run(&labs::plan(&shuffled));
    assert_eq!(again.hash, ran.hash);
    let named = |results: &[FlowResult], name: &str| {
        let of = results.iter().find(|result| result.name == name).unwrap();
        let bytes = |path: &outcome::PathResult| path.received_bytes;
        (of.received_bytes, of.paths.iter().map(bytes).collect::<Vec<_>>())
    };
    for name in ["both", "one"] {
        assert_eq!(named(&ran.results, name), named(&again.results, name));
    }
}

#[test]
fn the_kernels_protocol_is_for_the_wall_clock() {
    let plan = two_ways("1 s", [EVEN; 2], &BULK.replace("mctcp", "mptcp"));
    let refused = sim::Simulation::try_new(&plan).err().unwrap().to_string();
    assert!(refused.contains("netarium run"), "{refused}");
}

#[test]
fn models_without_packets_say_so() {
    for (model, flow) in [
        ("fluid", BULK.to_owned()),
        ("collapsed", BULK.to_owned()),
        ("fluid", BULK.replace("mctcp", "tcp") + "\nrate = \"5 Mbit/s\""),
        ("fluid", BULK.replace("mctcp", "tcp") + "\npause = [\"1 s\", \"2 s\"]"),
    ] {
        let text = lab::resolved(&two_ways("1 s", [EVEN; 2], &flow));
        let text = text.replace("model = \"hop\"", &format!("model = \"{model}\""));
        let plan = labs::plan(&text);
        let refused = if model == "fluid" {
            sim::fluid::Simulation::try_new(&plan).err()
        } else {
            sim::Simulation::try_new(&plan).err()
        };
        let refused = refused.expect("it needs packets").to_string();
        assert!(refused.contains("model = \"hop\""), "{refused}");
    }
}

/// A lost request or response leaves again on the other path, long before TCP's timeout of more
/// than 200 ms.
#[test]
fn losses_of_single_requests_are_repaired_on_the_other_path() {
    let requests = "[[flow]]\nfrom = \"client\"\nto = \"server\"\ntransport = \"mctcp\"\n\
                    request = \"1 KiB\"\nresponse = \"1 KiB\"\ncount = 1000\ninterval = \"60 ms\"";
    let lossy = format!("{EVEN}\nloss = \"2 %\"");
    let result = result(&two_ways("120 s", [&lossy; 2], requests));
    let p99 = result.latency.percentile(0.99);
    assert!(p99 < 120_000_000, "{p99} ns");
}
