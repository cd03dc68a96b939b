//! Concurrent requests over connections, and requests in datagrams.

use base::{Bytes, Span, Time};
use run::Transfer;

use super::labs::{Ran, plan, run};

/// Two hosts, 10 Mbit/s, 10 ms, no overhead on the wire.
const WIRE: &str = "[lab]\nduration = \"20 s\"\noverhead = \"none\"\n[node.a]\n[node.b]\n\
                    [[link]]\nname = \"wire\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n\
                    delay = \"10 ms\"\nqueue = { kind = \"droptail\", limit = \"1000 packets\" }\n";

fn over_the_wire(flow: &str) -> Ran {
    run(&plan(&format!("{WIRE}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}")))
}

fn millis(transfer: &Transfer) -> f64 {
    transfer.completion.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}

#[test]
fn a_request_over_an_open_connection_takes_one_round_trip() {
    let ran = over_the_wire(
        "request = \"40 B\"\nresponse = \"1000 B\"\nstreams = 2\ncount = 20\n\
         start = \"1 s\"\narrivals = { every = \"100 ms\" }\n",
    );
    assert!(ran.done && ran.transfers.len() == 20);
    // 20 ms, and 92 B and 1,052 B at 10 Mbit/s; the first request is sent while
    // the connections open.
    for transfer in &ran.transfers[1..] {
        assert!((20.9..21.0).contains(&millis(transfer)), "{transfer:?}");
        assert_eq!(transfer.size, Bytes::new(1000));
    }
    assert!((40.0..42.0).contains(&millis(&ran.transfers[0])), "{:?}", ran.transfers[0]);
    let ideal = ran.transfers[5].ideal.unwrap().as_secs_f64() * 1e3;
    assert!((20.8..21.0).contains(&ideal), "{ideal}");
    let flow = &ran.results[0];
    assert_eq!((flow.sent_bytes, flow.received_bytes), (20 * 40, 20 * 1000));
    assert_eq!(flow.transfers.as_ref().unwrap().completed, 20);
}

#[test]
fn requests_do_not_wait_for_each_other() {
    // Each response takes 0.5 s on the wire; ten requests are sent within 10 ms.
    let ran = over_the_wire(
        "request = \"40 B\"\nresponse = \"60 kB\"\ncount = 10\narrivals = { every = \"1 ms\" }\n",
    );
    assert!(ran.done && ran.transfers.len() == 10);
    let last = ran.transfers.iter().map(millis).fold(0.0, f64::max);
    // 600 kB of payload take 0.5 s at 10 Mbit/s.
    assert!((500.0..700.0).contains(&last), "{last}");
    let first = ran.transfers.iter().map(millis).fold(f64::MAX, f64::min);
    assert!(first > 150.0, "they share the wire: {first}");
}

#[test]
fn requests_whose_connections_break_are_recorded() {
    let ran = over_the_wire(
        "request = \"40 B\"\nresponse = \"1 MB\"\narrivals = { every = \"500 ms\" }\n\
         [[at]]\ntime = \"2 s\"\nlink = \"wire\"\ndown = true\n",
    );
    let failed = ran.transfers.iter().filter(|transfer| transfer.completion.is_none()).count();
    assert!(failed > 30, "{failed}");
    assert!(!ran.done);
}

#[test]
fn queries_take_a_round_trip_each() {
    let ran = over_the_wire(
        "transport = \"udp\"\nrequest = \"40 B\"\nresponse = \"60 B\"\ncount = 100\n",
    );
    let flow = &ran.results[0];
    assert_eq!((flow.sent_bytes, flow.received_bytes), (4000, 6000));
    assert_eq!(flow.responses, Some(100));
    // 20 ms, and 68 B and 88 B at 10 Mbit/s.
    let latency = flow.latency.distribution().unwrap();
    assert_eq!((latency.min_ns, latency.max_ns), (20_124_800, 20_124_800));
    assert_eq!(flow.completion, Some(Span::from_nanos(100 * 20_124_800)));
    assert!(ran.now < Time::ZERO + Span::from_secs(3));
}

#[test]
fn lost_queries_are_given_up_after_their_timeout() {
    let ran = over_the_wire(
        "transport = \"udp\"\nrequest = \"40 B\"\nresponse = \"40 B\"\ntimeout = \"200 ms\"\n\
         [[at]]\ntime = \"5 s\"\nlink = \"wire\"\ndown = true\n\
         [[at]]\ntime = \"10 s\"\nlink = \"wire\"\nup = true\n",
    );
    let flow = &ran.results[0];
    let counts = flow.datagrams.unwrap();
    // 5 s with one request per 200 ms, ±1 at the ends.
    assert!((24..=26).contains(&counts.lost), "{counts:?}");
    assert_eq!(counts.sent - counts.received, counts.lost + 1, "one is under way at the end");
    let round_trip = 0.020_108_8;
    let expected = (15.0 / round_trip) as u64;
    assert!(flow.responses.unwrap().abs_diff(expected) < 20, "{:?}", flow.responses);
}
