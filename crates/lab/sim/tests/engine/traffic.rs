//! Traffic on the virtual clock, compared with results computed by hand.
use base::{Span, Time};

use sim::Engine as _;

use super::labs::{Ran, plan, run};

/// Two hosts, 10 Mbit/s, 10 ms, 1500 B, no overhead on the wire.
const WIRE: &str = "[lab]\nduration = \"10 s\"\noverhead = \"none\"\n[node.a]\n[node.b]\n\
                    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
                    queue = { kind = \"droptail\", limit = \"1000 packets\" }\n";

fn over_the_wire(flow: &str) -> Ran {
    run(&plan(&format!("{WIRE}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}")))
}

fn at(millis: f64) -> Time {
    Time::ZERO + Span::from_nanos((millis * 1e6) as u64)
}

#[test]
fn a_datagram_takes_serialisation_and_propagation() {
    let ran = over_the_wire("transport = \"udp\"\nrate = \"1 Mbit/s\"\npacket = \"1000 B\"\n");
    let flow = &ran.results[0];
    let counts = flow.datagrams.unwrap();
    // One datagram every 8 ms from 0 on, the last at 10 s.
    assert_eq!((counts.sent, counts.lost, counts.reordered), (1251, 0, 0));
    // 1028 B at 10 Mbit/s and 10 ms.
    let delay = flow.delay.distribution().unwrap();
    assert_eq!((delay.min_ns, delay.max_ns), (10_822_400, 10_822_400));
}

#[test]
fn a_sized_datagram_flow_ends_with_its_last_arrival() {
    let ran = over_the_wire(
        "transport = \"udp\"\nrate = \"8 Mbit/s\"\npacket = \"1000 B\"\nsize = \"10500 B\"\n",
    );
    let flow = &ran.results[0];
    assert_eq!(flow.received_bytes, 10_500);
    // The eleventh datagram of 500 B leaves after 10 ms; it arrives 528 B and 10 ms later.
    let end = at(10.0 + 10.0 + 0.4224);
    assert_eq!(flow.completion, Some(end.since(Time::ZERO)));
    assert!(ran.done && ran.now >= end && ran.now < at(30.0), "{}", ran.now);
}

#[test]
fn a_small_transfer_takes_two_round_trips_less_a_half() {
    // A handshake of 20 ms, then one segment: headers are negligible beside the payload.
    let ran = over_the_wire("size = \"1000 B\"\n");
    let took = ran.results[0].completion.unwrap().as_nanos() as f64 / 1e6;
    assert!((30.0..31.2).contains(&took), "{took} ms");
    assert!(ran.done);
}

#[test]
fn bulk_fills_the_wire_and_delivers_every_byte() {
    let ran = over_the_wire("size = \"5 MB\"\ncontrol = \"cubic\"\n");
    let flow = &ran.results[0];
    assert_eq!((flow.sent_bytes, flow.received_bytes), (5_000_000, 5_000_000));
    let goodput = 40e6 / flow.completion.unwrap().as_secs_f64();
    // 1,448 of 1,500 B are payload.
    assert!((9.2e6..9.66e6).contains(&goodput), "{goodput}");
}

#[test]
fn streams_share_an_amount() {
    let ran = over_the_wire("size = \"3 MB\"\nstreams = 4\n");
    let flow = &ran.results[0];
    assert_eq!((flow.sent_bytes, flow.received_bytes), (3_000_000, 3_000_000));
    assert!(flow.completion.unwrap() < Span::from_secs(4), "{:?}", flow.completion);
}

#[test]
fn a_response_takes_a_round_trip_and_what_it_weighs() {
    let ran = over_the_wire("request = \"100 B\"\nresponse = \"1000 B\"\ncount = 20\n");
    let flow = &ran.results[0];
    assert_eq!(flow.responses, Some(20));
    assert_eq!((flow.sent_bytes, flow.received_bytes), (2_000, 20_000));
    let latency = flow.latency.distribution().unwrap();
    // (100 + 52 + 1,000 + 52) B at 10 Mbit/s, plus 20 ms.
    assert_eq!(latency.min_ns, 20_963_200);
    assert!(latency.p90_ns < 21_300_000, "{latency:?}");
}

#[test]
fn connections_that_idle_take_little() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nrequest = \"64 B\"\ninterval = \"900 s\"\n";
    let plan = plan(&format!("{WIRE}{}", flow.repeat(1000)));
    let mut simulation = sim::Simulation::try_new(&plan).unwrap();
    simulation.advance(at(30.0));
    let busy = simulation.memory();
    simulation.advance(at(5_000.0));
    let idle = simulation.memory();
    assert!(idle < busy * 3 / 4, "{idle} bytes, and {busy} before");
}

#[test]
fn think_time_and_interval_space_requests() {
    let ran = over_the_wire("request = \"100 B\"\nthink = \"479 ms\"\ncount = 4\n");
    let took = ran.results[0].completion.unwrap().as_secs_f64();
    assert!((1.54..1.56).contains(&took), "{took}");
    let ran = over_the_wire("request = \"100 B\"\ninterval = \"1 s\"\ncount = 4\n");
    let took = ran.results[0].completion.unwrap().as_secs_f64();
    assert!((3.03..3.06).contains(&took), "{took}");
}

#[test]
fn transfers_begin_on_time_and_none_is_faster_than_alone() {
    let ran = over_the_wire("size = \"20 kB\"\narrivals = { every = \"100 ms\" }\ncount = 50\n");
    assert_eq!(ran.transfers.len(), 50);
    for (number, transfer) in ran.transfers.iter().enumerate() {
        assert_eq!(transfer.start, at(100.0 * number as f64));
        assert_eq!(transfer.retransmits, Some(0));
        let slowdown = transfer.slowdown_milli().unwrap();
        assert!((1000..2200).contains(&slowdown), "{slowdown}");
    }
    let transfers = ran.results[0].transfers.as_ref().unwrap();
    assert_eq!((transfers.started, transfers.completed), (50, 50));
    assert!(ran.done, "the run ends with its last transfer");
    assert!(ran.memory < 1 << 20, "closed connections leave nothing behind: {}", ran.memory);
}

#[test]
fn a_closed_loop_waits_for_its_transfers() {
    let ran = over_the_wire("size = \"1 kB\"\nthink = \"100 ms\"\n");
    let starts: Vec<Time> = ran.transfers.iter().map(|transfer| transfer.start).collect();
    assert!((74..78).contains(&starts.len()), "{}", starts.len());
    let gap = starts[1].since(starts[0]).as_nanos() as f64 / 1e6;
    assert!((130.0..132.0).contains(&gap), "{gap}");
}

#[test]
fn an_expired_flow_stops_and_a_stopped_one_starts_again() {
    let lab = format!(
        "{WIRE}[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nduration = \"1 s\"\n\
         [[at]]\ntime = \"3 s\"\nflow = \"f\"\nstart = true\n\
         [[at]]\ntime = \"3.5 s\"\nflow = \"f\"\nstop = true\n"
    );
    let ran = run(&plan(&lab));
    let flow = &ran.results[0];
    assert_eq!(flow.outcome, run::Outcome::Stopped);
    assert_eq!(flow.active, Span::from_millis(1500));
    assert_eq!(flow.ended, Some(at(3500.0)));
    assert!((1.0e6..1.8e6).contains(&(flow.received_bytes as f64)), "{}", flow.received_bytes);
    assert_eq!(ran.events.len(), 2);
    assert_eq!(ran.now, at(3500.0), "nothing is left to wait for");
}

#[test]
fn a_connection_without_an_answer_fails() {
    let lab = format!(
        "{}[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n\
         [[at]]\ntime = \"100 ms\"\nlink = [\"a\", \"b\"]\ndown = true\n",
        WIRE.replace("10 s", "1 h")
    );
    let ran = run(&plan(&lab));
    assert!(matches!(ran.results[0].outcome, run::Outcome::Failed(_)));
    assert!(ran.done && ran.now < at(3_600_000.0));
}

#[test]
fn marks_take_the_place_of_losses() {
    let lab = |ecn: bool| {
        let wire = WIRE.replace(
            "{ kind = \"droptail\", limit = \"1000 packets\" }",
            "{ kind = \"codel\", ecn = true, limit = \"1000 packets\" }",
        );
        format!("{wire}[[flow]]\nfrom = \"a\"\nto = \"b\"\necn = {ecn}\n")
    };
    let marked = run(&plan(&lab(true)));
    assert!(marked.links[0].marked > 0);
    assert_eq!((marked.links[0].dropped(), marked.results[0].retransmits), (0, Some(0)));
    let dropped = run(&plan(&lab(false)));
    assert_eq!(dropped.links[0].marked, 0);
    assert!(dropped.links[0].dropped() > 0 && dropped.results[0].retransmits > Some(0));
}

#[test]
fn flipped_bits_are_losses_to_both_transports() {
    let wire = WIRE.replace("queue =", "corrupt = \"2 %\"\nqueue =");
    let ends = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let udp = "transport = \"udp\"\nrate = \"1 Mbit/s\"\npacket = \"100 B\"\n";
    let ran = run(&plan(&format!("{wire}{ends}{udp}")));
    let counts = ran.results[0].datagrams.unwrap();
    assert!((150..350).contains(&counts.damaged), "{counts:?}");
    assert_eq!(counts.lost, counts.damaged);
    let ran = run(&plan(&format!("{wire}{ends}size = \"200 kB\"\n")));
    assert_eq!(ran.results[0].received_bytes, 200_000);
    assert!(ran.results[0].retransmits > Some(0));
}
