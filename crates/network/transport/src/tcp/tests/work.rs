//! Memory and work.

use super::*;

#[test]
fn idle_endpoints_are_small() {
    let end = size_of::<Endpoint>();
    assert!(end <= 816, "{end} bytes");
    // After the transfer, no other memory is in use.
    let mut pipe = Pipe::new(&reno(), millis(10)).established().dropping(&[5, 6, 50]);
    pipe.transfer(500_000);
    pipe.run(millis(200));
    assert!(pipe.client.heap_bytes() <= 256, "{}", pipe.client.heap_bytes());
    assert_eq!(pipe.server.heap_bytes(), 0);
}

/// Prints the cost of a segment. Run it alone, in a release build.
#[test]
#[ignore = "a measurement: cargo test --release -p netarium-network-transport -- --ignored --nocapture"]
#[expect(clippy::print_stdout, reason = "it measures")]
fn cost_of_a_segment() {
    for control in Control::ALL {
        for (window, losses) in [(100, 0), (1_000, 0), (4_000, 0), (1_000, 1_000), (4_000, 50)] {
            let config = Config {
                control,
                initial_window: window,
                receive_window: Bytes::new(u64::from(window) * 1_448),
                ..Config::default()
            };
            let (nanos, segments, statistics) = Exchange::run(&config, losses);
            let each = nanos as f64 / segments as f64;
            let (again, timeouts) = (statistics.retransmits, statistics.timeouts);
            println!(
                "{control:6} window {window:5} loss 1/{losses:<5} {each:6.1} ns per segment sent \
                 or received, {again} again, {timeouts} timeouts"
            );
        }
    }
    println!("{} bytes", size_of::<Endpoint>());
}

/// Two endpoints and two queues of fixed delay.
struct Exchange;

impl Exchange {
    /// Nanoseconds spent, and segments handled (sent plus received, at both ends).
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    fn run(config: &Config, losses: u64) -> (u64, u64, crate::tcp::Statistics) {
        use std::collections::VecDeque;
        let mut ends = [Endpoint::connect(config, 1), Endpoint::listen(config, 2)];
        let mut wires: [VecDeque<(Time, Segment)>; 2] = Default::default();
        let mut free = [Time::ZERO; 2];
        let (mut now, mut segments, mut data) = (Time::ZERO, 0_u64, 0_u64);
        ends[0].open(now);
        ends[0].write_unlimited();
        let start = std::time::Instant::now();
        while segments < 2_000_000 {
            for from in 0..2 {
                while let Some(transmit) = ends[from].poll_transmit(now) {
                    segments += 1;
                    data += u64::from(transmit.segment.length > 0);
                    if losses > 0 && transmit.segment.length > 0 && data.is_multiple_of(losses) {
                        continue;
                    }
                    let length = u64::from(transmit.segment.length) + 52;
                    free[from] = free[from].max(now) + Span::from_nanos(length * 8);
                    wires[1 - from].push_back((free[from] + millis(10), transmit.segment));
                }
            }
            let arrivals = wires.iter().map(|wire| wire.front().map(|entry| entry.0));
            let timers = ends.iter().map(Endpoint::next_wake);
            now = arrivals.chain(timers).flatten().min().expect("something goes on").max(now);
            for to in 0..2 {
                if let Some((_, segment)) =
                    wires[to].front().copied().filter(|entry| entry.0 <= now)
                {
                    wires[to].pop_front();
                    segments += 1;
                    ends[to].on_segment(now, &segment, false);
                    let bytes = ends[to].readable();
                    ends[to].read(bytes);
                } else if ends[to].next_wake().is_some_and(|at| at <= now) {
                    ends[to].on_wake(now);
                }
            }
        }
        (start.elapsed().as_nanos() as u64, segments, ends[0].statistics())
    }
}
