//! MCTCP over simulated paths: the total goodput of flows.

use std::fmt::Write as _;

use base::Span;
use lab::plan::Plan;
use run::FlowResult;

use super::labs;

/// Two paths from a server to a client; the rate, delay and further settings of each link.
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

/// Rate and delay of the links in the first evaluations.
const EVEN: &str = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"";

const BULK: &str = "[[flow]]\nfrom = \"server\"\nto = \"client\"\ntransport = \"mctcp\"";

/// A lab: (Mbit/s, round-trip time in ms) of each path; queues; loss; congestion controller.
type Asymmetry = (&'static [(u32, u32)], &'static str, &'static str, &'static str);

const DEEP: &str = "1000 packets";
const SHALLOW: &str = "60 kB";
const ASYMMETRIES: [Asymmetry; 18] = [
    (&[(10, 20), (10, 20)], SHALLOW, "0 %", "cubic"),
    (&[(5, 20), (4, 20)], DEEP, "0 %", "cubic"),
    (&[(10, 20), (2, 20)], DEEP, "0 %", "cubic"),
    (&[(20, 20), (1, 20)], DEEP, "0 %", "cubic"),
    (&[(20, 20), (1, 20)], SHALLOW, "0.2 %", "cubic"),
    (&[(10, 20), (10, 400)], SHALLOW, "0 %", "cubic"),
    (&[(10, 20), (4, 400)], DEEP, "0 %", "bbr"),
    (&[(2, 40), (20, 700)], DEEP, "0 %", "cubic"),
    (&[(2, 40), (20, 700)], SHALLOW, "0 %", "cubic"),
    (&[(20, 700), (20, 700)], DEEP, "0 %", "bbr"),
    (&[(5, 20), (3, 40), (2, 80)], DEEP, "0 %", "cubic"),
    (&[(5, 20), (3, 40), (2, 80)], SHALLOW, "0 %", "cubic"),
    (&[(5, 20), (3, 40), (2, 80)], DEEP, "0 %", "bbr"),
    (&[(5, 20), (3, 20), (2, 20)], DEEP, "1 %", "cubic"),
    (&[(20, 40), (10, 10), (2, 1000)], DEEP, "0 %", "cubic"),
    (&[(20, 40), (10, 10), (2, 1000)], SHALLOW, "0 %", "cubic"),
    (&[(20, 40), (10, 10), (2, 1000)], DEEP, "0.2 %", "bbr"),
    (&[(20, 40), (10, 10), (10, 1000)], SHALLOW, "0 %", "bbr"),
];

fn asymmetric((paths, queue, loss, control): &Asymmetry, scheduler: &str) -> Plan {
    let mut lab = "[lab]\nname = \"table\"\nduration = \"30 s\"\n[node.a]\n[node.b]\n".to_owned();
    for (rate, rtt) in *paths {
        let _ = writeln!(
            lab,
            "[[link]]\nends = [\"a\", \"b\"]\nrate = \"{rate} Mbit/s\"\n\
             delay = \"{} ms\"\nqueue = \"{queue}\"\nloss = \"{loss}\"",
            rtt / 2
        );
    }
    let _ = writeln!(
        lab,
        "[[flow]]\nfrom = \"a\"\nto = \"b\"\ntransport = \"mctcp\"\n\
         control = \"{control}\"\nscheduler = \"{scheduler}\""
    );
    labs::plan(&lab)
}

/// Mbit/s of the application and the longest gap of its data in s.
#[test]
fn goodput_and_gap_by_asymmetry_and_scheduler() {
    let schedulers = ["earliest", "min-rtt", "blest", "ecf"];
    let mut table = format!("{:45}", "Mbit/s / ms of each path, queues, loss");
    for scheduler in schedulers {
        let _ = write!(table, " {scheduler:>11}");
    }
    for asymmetry in &ASYMMETRIES {
        let (paths, queue, loss, control) = asymmetry;
        let paths: Vec<_> = paths.iter().map(|(rate, rtt)| format!("{rate}/{rtt}")).collect();
        let row = format!("{:18} {queue:12} {loss:5} {control}", paths.join(" "));
        let _ = write!(table, "\n{row:45}");
        for scheduler in schedulers {
            let result = result(&asymmetric(asymmetry, scheduler));
            let goodput = result.received_bytes as f64 * 8.0 / 30.0 / 1e6;
            let gap = result.gap.unwrap().as_secs_f64();
            let _ = write!(table, " {goodput:6.2} {gap:4.2}");
        }
    }
    insta::assert_snapshot!(table);
}

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

/// A new subflow carries little until its data arrives in time: data that waits for a slow subflow
/// uses the receive buffer, and the burst after that halves the window of the fast one.
#[test]
fn slow_path_costs_at_most_2_percent_of_the_fast_one() {
    let fast = "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"";
    let slow = "rate = \"2 Mbit/s\"\ndelay = \"1 ms\"";
    for window in ["128 KiB", "256 KiB", "384 KiB", "512 KiB", "768 KiB", "1 MiB", "4 MiB"] {
        let lab = format!("{BULK}\nwindow = \"{window}\"");
        let both = result(&two_ways("20 s", [fast, slow], &lab)).received_bytes;
        let alone = lab.replace("mctcp", "tcp");
        let down = format!("{slow}\nstate = \"down\"");
        let alone = result(&two_ways("20 s", [fast, &down], &alone)).received_bytes;
        let share = both as f64 / alone as f64;
        assert!(share >= 0.98, "{window}: {share}");
    }
}

/// A link failure, temporary or permanent.
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

/// Pacing spreads the window of a round trip over at least half of it: that is the most by which it
/// delays a response whose window grows, and a queue shorter than the window loses no burst.
#[test]
fn responses_after_idle_time_take_half_a_round_trip_longer_than_over_tcp_at_most() {
    let long = "rate = \"10 Mbit/s\"\ndelay = \"100 ms\"";
    for (link, half_rtt) in [(EVEN, 10), (long, 100)] {
        for (size, think) in ["30 kB", "100 kB", "300 kB", "1 MB", "2 MB"]
            .into_iter()
            .flat_map(|size| ["100 ms", "2 s"].map(|think| (size, think)))
        {
            let median = |transport: &str| {
                let flow = format!(
                    "[[flow]]\nfrom = \"client\"\nto = \"server\"\n{transport}\n\
                     request = \"300 B\"\nresponse = \"{size}\"\nthink = \"{think}\"\n\
                     count = 30"
                );
                let result = result(&two_ways("400 s", [link; 2], &flow));
                assert_eq!(result.responses, Some(30));
                result.latency.percentile(0.5)
            };
            let tcp = median("transport = \"tcp\"");
            for paths in ["via = [\"left\"]", ""] {
                let mctcp = median(&format!("transport = \"mctcp\"\n{paths}"));
                let case = format!("{size} after {think}, {paths}: {mctcp} ns, TCP {tcp} ns");
                assert!(mctcp <= tcp + half_rtt * 1_000_000, "{case}");
                let is_burst = half_rtt == 100 && think == "100 ms" && size.ends_with("MB");
                assert!(!is_burst || mctcp < tcp / 2, "{case}");
            }
        }
    }
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

/// The sender pauses when the receiver's buffers are full, and continues after the pause.
#[test]
fn a_receiver_that_pauses_stops_the_sender_and_gets_all() {
    let flows = [
        ("tcp", "", 0.95 * 262_144.0),
        // Each connection gets about two congestion windows of data, less than its buffers hold.
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
        // The transfer takes at least until the end of the pause, then no longer than at
        // the links' rates.
        assert!((31.0..45.0).contains(&completion), "{flow}: {completion} s");
        let gap = result.gap.unwrap().as_secs_f64();
        assert!((29.9..30.5).contains(&gap), "{flow}: {gap} s");
        let within = |from: f64, until: f64| {
            let at = |at: base::Time| at.as_nanos() as f64 / 1e9;
            let fit = ran.samples.iter().filter(|s| from < at(s.at) && at(s.at) <= until);
            fit.map(|sample| sample.received_bytes).sum::<u64>() as f64
        };
        assert!(within(1.0, 31.0) < 1.0, "{flow}");
        // The buffered data equals the credit, to the byte.
        let kept = (transport == "mctcp").then_some(524_288);
        assert_eq!(result.buffered, kept, "{flow}");
        // Buffered data is read at once.
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
    // Links and flows in reverse order.
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
        let bytes = |path: &run::PathResult| path.received_bytes;
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

/// A lost request or response is retransmitted on the other path when its DACK is late, after about
/// 1.5 RTTs of 20 ms, long before TCP's timeout of more than 200 ms.
#[test]
fn repairs_lost_requests_within_60_ms_at_p99_with_5_percent_of_copies() {
    let requests = "[[flow]]\nfrom = \"client\"\nto = \"server\"\ntransport = \"mctcp\"\n\
                    request = \"1 KiB\"\nresponse = \"1 KiB\"\ncount = 1000";
    let lossy = format!("{EVEN}\nloss = \"2 %\"");
    for interval in [0, 60, 200] {
        for seed in 1..=4 {
            let flow = format!("{requests}\ninterval = \"{interval} ms\"");
            let plan = two_ways("400 s", [&lossy; 2], &flow);
            let result = result(&Plan { seed, ..plan });
            let p99 = result.latency.percentile(0.99);
            assert!(p99 <= 60_000_000, "{interval} ms, seed {seed}: {p99} ns");
            let extra = extra_share(&result, 2 * 1_024_000);
            assert!(extra <= 0.05, "{interval} ms, seed {seed}: {extra}");
        }
    }
}

/// Bytes of copies relative to those of the streams of both directions.
fn extra_share(result: &FlowResult, bytes: u64) -> f64 {
    let sent: u64 = result.paths.iter().map(|path| path.sent_bytes).sum();
    sent as f64 / bytes as f64 - 1.0
}

#[test]
fn copies_of_a_long_transfer_take_at_most_5_percent() {
    let bulk = format!("{BULK}\nsize = \"20 MB\"");
    for loss in ["0 %", "2 %"] {
        let path = format!("{EVEN}\nloss = \"{loss}\"");
        let result = result(&two_ways("60 s", [&path; 2], &bulk));
        assert_eq!(result.received_bytes, 20_000_000, "{loss}");
        let extra = extra_share(&result, 20_000_000);
        assert!(extra <= 0.05, "{loss}: {extra}");
    }
}
