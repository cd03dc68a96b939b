//! Sessions in small labs: rates compared with the oracle, packets with the fluid model, failures,
//! ends.

use std::path::Path;

use base::{Span, Time};
use lab::plan::Plan;
use lab::{Overrides, parse_with};
use run::record::RateControl;
use run::sample::control::{ControlSample, SessionRow};

use super::engine;

fn plans(text: &str) -> Plan {
    let lab = parse_with("lab.toml", text, Path::new("."), &Overrides::default());
    lab.unwrap_or_else(|errors| panic!("{text}\n{:#?}", errors.list())).plans.remove(0)
}

/// Results of a run.
struct Ran {
    hash: u64,
    samples: Vec<ControlSample>,
    control: RateControl,
    names: Vec<String>,
    rows: Vec<SessionRow>,
    results: Vec<run::FlowResult>,
}

impl Ran {
    fn last(&self) -> &ControlSample {
        self.samples.last().unwrap()
    }

    fn rates(&self) -> Vec<f64> {
        self.rows.iter().filter_map(|row| Some(row.rate?.bits_per_sec() as f64)).collect()
    }
}

fn run(text: &str) -> Ran {
    let plan = plans(text);
    let mut engine = engine(&plan).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut samples = Vec::new();
    let end = Time::ZERO + plan.duration;
    let mut at = Time::ZERO;
    while at < end && !engine.is_done() {
        at = (at + plan.interval).min(end);
        engine.advance(at);
        engine.link_counters(&[]);
        engine.sample(&mut |_| {});
        samples.extend(engine.judge());
    }
    engine.stop();
    let (control, names, rows) = engine.control().unwrap();
    Ran { hash: engine.trace_hash(), samples, control, names, rows, results: engine.results() }
}

/// Links of 1 ms each between these ends.
fn links(rate: &str, ends: &[(&str, &str)]) -> String {
    let link = |(a, b): &(&str, &str)| {
        format!(
            "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ndelay = \"1 ms\"\n\
             queue = \"unlimited\"\n"
        )
    };
    ends.iter().map(link).collect()
}

/// Hosts `a` to `d` and routers `x` to `z`.
fn nodes(protocol: &str, model: &str) -> String {
    format!(
        "[lab]\nduration = \"3 s\"\ninterval = \"50 ms\"\nmodel = \"{model}\"\n\
         [control]\nprotocol = \"{protocol}\"\n[node.a]\n[node.b]\n[node.c]\n[node.d]\n\
         [node.x]\nkind = \"router\"\n[node.y]\nkind = \"router\"\n\
         [node.z]\nkind = \"router\"\n"
    )
}

/// Two hosts on each side of a bottleneck of 10 Mbit/s.
fn dumbbell(protocol: &str, model: &str, more: &str) -> String {
    let sides = [("a", "x"), ("b", "x"), ("y", "c"), ("y", "d"), ("y", "z")];
    let core = "[[link]]\nname = \"core\"\nends = [\"x\", \"y\"]\nrate = \"10 Mbit/s\"\n\
                delay = \"5 ms\"\nqueue = \"unlimited\"\n";
    nodes(protocol, model) + &links("100 Mbit/s", &sides) + core + more
}

/// A flow under the lab's protocol, which is SLBN by default.
fn flow(from: &str, to: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\ntransport = \"udp\"\n\
         control = \"slbn\"\npacket = \"1000 B\"\n{more}\n"
    )
}

/// 110 routers, and sessions with their own hosts.
fn stubs(protocol: &str, model: &str, populations: &str) -> String {
    format!(
        "[lab]\nduration = \"2 s\"\ninterval = \"50 ms\"\nmodel = \"{model}\"\nseed = 7\n\
         [control]\nprotocol = \"{protocol}\"\n\
         [[generate]]\nkind = \"transit-stub\"\ntransit_domains = 2\ntransit_routers = 5\n\
         stubs = 2\nstub_routers = 5\ntransit_rate = \"100 Mbit/s\"\n\
         stub_rate = \"40 Mbit/s\"\n{populations}"
    )
}

fn population(name: &str, count: u32, more: &str) -> String {
    format!(
        "[[sessions]]\nname = \"{name}\"\ncount = {count}\nrouters = \"s*\"\nhosts = 10\n\
         host_rate = \"10 Mbit/s\"\nhost_delay = \"1 us\"\nstart = [\"0 s\", \"200 ms\"]\n\
         packet = \"1000 B\"\n{more}\n"
    )
}

#[test]
fn flows_of_a_dumbbell_get_what_the_oracle_says() {
    let demand = flow("a", "c", "rate = \"2 Mbit/s\"") + &flow("b", "d", "");
    for model in ["hop", "fluid"] {
        let ran = run(&dumbbell("slbn", model, &demand));
        assert_eq!(ran.names, ["ac", "bd"]);
        let rates = ran.rates();
        assert!((rates[0] / 2e6 - 1.0).abs() < 1e-3, "{model}: {rates:?}");
        assert!((rates[1] / 8e6 - 1.0).abs() < 1e-3, "{model}: {rates:?}");
        assert!(ran.last().source.unwrap().mean_abs < 1e-3, "{:?}", ran.last());
        assert!(ran.control.convergence_s.unwrap() < 0.3, "{:?}", ran.control);
        // 1 % of the rate is reserved for control, the rest is data with 28 B of headers, for 3 s.
        let received = ran.results[1].received_bytes as f64 * 8.0;
        let expected = 8e6 * 0.99 * 1000.0 / 1028.0 * 3.0;
        assert!((received / expected - 1.0).abs() < 0.05, "{model}: {received} of {expected}");
        let share = ran.control.control_share;
        assert!((0.001..0.03).contains(&share), "{model}: {share}");
    }
}

#[test]
fn packets_and_fluid_agree_on_a_transit_stub() {
    let people = population("p", 200, "");
    let [packets, fluid] = ["hop", "fluid"].map(|model| run(&stubs("slbn", model, &people)));
    for ran in [&packets, &fluid] {
        assert_eq!((ran.control.joined, ran.last().assigned), (200, 200));
        assert!(ran.last().source.unwrap().mean_abs < 1e-3, "{:?}", ran.last());
        assert!(ran.last().over.unwrap() == 0.0);
    }
    for (a, b) in packets.rows.iter().zip(&fluid.rows) {
        let [rate, other] = [a, b].map(|row| row.rate.unwrap().bits_per_sec() as f64);
        assert!((rate / other - 1.0).abs() < 1e-3, "{rate} {other}");
        let fair = a.fair.unwrap().bits_per_sec() as f64;
        assert!((rate / fair - 1.0).abs() < 1e-2, "{rate} of {fair}");
        assert_eq!((a.hops, a.rtt), (b.hops, b.rtt));
    }
    // Packets that meet by chance are queued briefly even if no rate is too high.
    let [queue, smooth] = [&packets, &fluid].map(|ran| ran.control.queue_max_packets);
    assert!(queue < smooth + 40 && smooth < queue + 40, "{queue} and {smooth}");
}

#[test]
fn runs_repeat_and_the_order_of_populations_changes_nothing() {
    let [p, q] = ["p", "q"].map(|name| population(name, 60, ""));
    let first = run(&stubs("slbn", "hop", &format!("{p}{q}")));
    assert_eq!(first.hash, run(&stubs("slbn", "hop", &format!("{p}{q}"))).hash);
    let turned = run(&stubs("slbn", "hop", &format!("{q}{p}")));
    assert_eq!((first.hash, &first.names, &first.rows), (turned.hash, &turned.names, &turned.rows));
    let seed = stubs("slbn", "hop", &format!("{p}{q}")).replace("seed = 7", "seed = 8");
    assert_ne!(first.hash, run(&seed).hash);
}

#[test]
fn sessions_that_have_sent_all_are_complete_and_the_run_ends() {
    let people = population("p", 100, "size = \"200 kB\"");
    for model in ["hop", "fluid"] {
        let ran = run(&stubs("slbn", model, &people));
        assert_eq!((ran.control.completed, ran.control.present), (100, 0), "{model}");
        for row in &ran.rows {
            let took = row.completed.unwrap().since(row.start.unwrap());
            // No host sends faster than 10 Mbit/s.
            let least = Span::from_millis(160) + Span::from_nanos(row.rtt.as_nanos() / 2);
            assert!(took >= least && took < Span::from_secs(2), "{model}: {took}");
        }
        assert!(ran.last().at < Time::ZERO + Span::from_secs(2), "{model}");
    }
}

#[test]
fn leavers_give_their_share_to_those_who_stay() {
    let people = population("p", 100, "leave = [\"500 ms\", \"700 ms\"]\nleave_count = 60");
    let ran = run(&stubs("slbn", "hop", &people));
    assert_eq!((ran.last().sessions, ran.last().assigned), (40, 40));
    assert!(ran.last().source.unwrap().mean_abs < 1e-3, "{:?}", ran.last());
    let left = ran.rows.iter().filter_map(|row| row.left).collect::<Vec<_>>();
    assert_eq!(left.len(), 60);
    assert!(ran.control.last_change_s > 0.6 && ran.control.last_change_s <= 0.7);
}

#[test]
fn epochs_outlive_the_loss_of_control_packets() {
    // By then plain SLBN has lost every session's only packet, so no leave reaches the links.
    let people = population("p", 120, "leave = [\"1800 ms\", \"1900 ms\"]\nleave_count = 70");
    let [epochs, plain] = ["slbn-epochs", "slbn"].map(|protocol| {
        let text = stubs(protocol, "fluid", &people)
            .replace("[control]", "[control]\nloss = \"1 %\"")
            .replace("\"2 s\"", "\"8 s\"");
        run(&text)
    });
    assert!(epochs.control.lost > 20, "{:?}", epochs.control);
    assert_eq!(epochs.last().assigned, 50);
    let error = |ran: &Ran| {
        let late = &ran.samples[ran.samples.len() - 20..];
        late.iter().map(|sample| sample.source.unwrap().mean_abs).sum::<f64>() / 20.0
    };
    // A fifth of all cycles is lost: ten links in each direction.
    assert!(error(&epochs) < 0.15, "{}", error(&epochs));
    assert!(error(&plain) > 0.3, "{}", error(&plain));
}

#[test]
fn a_link_fails_and_returns() {
    let ways = links("10 Mbit/s", &[("a", "x"), ("b", "x"), ("y", "c"), ("y", "d"), ("z", "y")])
        + &links("4 Mbit/s", &[("x", "z")])
        + &links("10 Mbit/s", &[("x", "y")])
        + "[[at]]\ntime = \"1 s\"\nlink = \"x-y\"\ndown = true\n\
           [[at]]\ntime = \"3 s\"\nlink = \"x-y\"\nup = true\n";
    for protocol in ["slbn", "slbn-epochs"] {
        let flows = flow("a", "c", "") + &flow("b", "d", "");
        let flows = flows.replace("\"slbn\"", &format!("\"{protocol}\""));
        let text = nodes(protocol, "hop").replace("\"3 s\"", "\"6 s\"") + &ways + &flows;
        let ran = run(&text);
        assert_eq!(ran.control.rerouted, 4, "{protocol}");
        let at = |ms: u64| {
            let at = Time::ZERO + Span::from_millis(ms);
            *ran.samples.iter().find(|sample| sample.at == at).unwrap()
        };
        for ms in [950, 2950] {
            assert!(at(ms).source.unwrap().mean_abs < 0.01, "{protocol} {:?}", at(ms));
        }
        let rates = ran.rates();
        assert!(rates.iter().all(|rate| (rate / 5e6 - 1.0).abs() < 0.01), "{protocol} {rates:?}");
    }
}

#[test]
fn capacities_change_and_rates_follow() {
    let event = "[[at]]\ntime = \"1 s\"\nlink = \"core\"\nset = { rate = \"4 Mbit/s\" }\n";
    let flows = flow("a", "c", "") + &flow("b", "d", "");
    let ran = run(&dumbbell("slbn", "hop", &(flows + event)));
    let rates = ran.rates();
    assert!(rates.iter().all(|rate| (rate / 2e6 - 1.0).abs() < 1e-3), "{rates:?}");
    assert!(ran.control.last_change_s >= 1.0);
}

#[test]
fn every_protocol_runs() {
    let people = population("p", 40, "");
    for protocol in ratecontrol::Protocol::ALL {
        let ran = run(&stubs(protocol.name(), "fluid", &people));
        assert_eq!(ran.control.joined, 40, "{protocol}");
        assert!(ran.last().assigned > 0, "{protocol} {:?}", ran.last());
        assert!(ran.control.link_bytes_max > 0, "{protocol} {:?}", ran.control);
    }
}

#[test]
fn refuses_unsupported_features() {
    let flows = flow("a", "c", "");
    let refused = |text: &str, word: &str| match engine(&plans(text)) {
        Err(error) => assert!(error.to_string().contains(word), "{error}"),
        Ok(_) => panic!("{text}"),
    };
    let jitter = dumbbell("slbn", "hop", &flows).replace("\"5 ms\"", "\"5 ms\"\njitter = \"1 ms\"");
    refused(&jitter, "jitter");
    let mixed = flows.clone() + &flow("b", "d", "").replace("1000 B", "500 B");
    refused(&dumbbell("slbn", "hop", &mixed), "differ in size");
    let tcp = flows + "[[flow]]\nfrom = \"b\"\nto = \"d\"\n";
    refused(&dumbbell("slbn", "hop", &tcp), "not rate-controlled");
}

#[test]
fn a_session_takes_little_memory() {
    let people = population("p", 900, "");
    for model in ["hop", "fluid"] {
        let ran = run(&stubs("slbn", model, &people));
        // State machine, path, sender and results; a control packet and two events in flight.
        let bytes = ran.control.session_bytes;
        assert!(bytes < 500.0, "{model}: {bytes} B");
    }
}

mod failures;

#[test]
fn a_flow_that_starts_again_takes_a_way_that_is_open_and_ends_in_its_time() {
    let sides =
        [("a", "x"), ("b", "x"), ("x", "y"), ("x", "z"), ("z", "y"), ("y", "c"), ("y", "d")];
    let events = "[[at]]\ntime = \"300 ms\"\nflow = \"ac\"\nstop = true\n\
                  [[at]]\ntime = \"400 ms\"\nlink = \"x-y\"\ndown = true\n\
                  [[at]]\ntime = \"500 ms\"\nflow = \"ac\"\nstart = true\n";
    let flows = flow("a", "c", "duration = \"1 s\"") + &flow("b", "d", "start = \"2 s\"");
    let ran = run(&(nodes("slbn", "fluid") + &links("10 Mbit/s", &sides) + &flows + events));
    let [again, late] = &ran.rows[..] else { panic!("{:?}", ran.rows) };
    assert_eq!(again.left, Some(Time::ZERO + Span::from_millis(1500)), "{again:?}");
    assert_eq!((again.hops, again.rate.is_some()), (4, true), "{again:?}");
    // It starts at its start time, independent of other sessions.
    assert_eq!(late.start, Some(Time::ZERO + Span::from_secs(2)), "{late:?}");
    assert!(late.rate.is_some(), "{late:?}");
}
