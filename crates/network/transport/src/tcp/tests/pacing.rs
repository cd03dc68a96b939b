//! Pacing by window and round-trip time.

use super::*;

fn paced() -> Config {
    Config { paced: true, ..reno() }
}

/// Bytes of the sender's window, and the segment whose loss ends slow start.
const WINDOW: u64 = 160_000;
const LOST: &[u64] = &[140];

/// A sender that is idle for less than its timeout, before a bottleneck of 10 Mbit/s with a queue
/// of 60 kB. The round-trip time is 200 ms.
fn idle(config: &Config, dropped: &'static [u64]) -> Pipe {
    let mut pipe = Pipe::new(config, millis(100)).established().dropping(dropped);
    pipe.transfer(WINDOW - 10_000);
    pipe.run(millis(100));
    pipe.set_nanos_per_byte(800);
    pipe.set_queue(Bytes::new(60_000));
    pipe.log.clear();
    pipe
}

/// Time and payload of the segments with payload that the client has sent.
fn sent(pipe: &Pipe) -> Vec<(Time, u64)> {
    let data = pipe.sent_by(Side::Client).filter(|entry| entry.segment.length > 0);
    data.map(|entry| (entry.at, u64::from(entry.segment.length))).collect()
}

#[test]
fn sends_at_most_a_burst_and_the_pacing_rate_after_idle_time() {
    // 200 % of the window per round trip below half of the slow-start threshold, 120 % above.
    for (dropped, percent) in [(&[][..], 200), (LOST, 120)] {
        let mut pipe = idle(&paced(), dropped);
        let state = pipe.client.statistics();
        assert_eq!(state.cwnd < state.ssthresh, percent == 200, "{state:?}");
        let srtt = state.srtt.unwrap().as_secs_f64();
        let rate = state.cwnd.count() as f64 * f64::from(percent) / 100.0 / srtt;
        let window = state.cwnd.count() / 1000 * 1000;
        assert!(window >= 60_000, "{state:?}");
        pipe.client.write(window);
        pipe.run(millis(200));
        let sent = sent(&pipe);
        assert_eq!(sent.iter().map(|of| of.1).sum::<u64>(), window);
        for first in 0..sent.len() {
            let mut bytes = 0;
            for (at, length) in &sent[first..] {
                bytes += length;
                let most = 2_000.0 + rate * at.since(sent[first].0).as_secs_f64();
                assert!(bytes as f64 <= most + 1.0, "{bytes} B within {most} B at {at}");
            }
        }
    }
}

#[test]
fn loses_nothing_after_idle_time_in_a_queue_that_is_shorter_than_the_window() {
    let losses = |config: &Config| {
        let mut pipe = idle(config, &[]);
        pipe.transfer(WINDOW - 10_000);
        pipe.client.statistics().retransmits
    };
    assert!(losses(&reno()) > 50, "the queue holds a burst of the window");
    assert_eq!(losses(&paced()), 0);
}

#[test]
fn the_first_ten_segments_are_not_paced() {
    let mut pipe = Pipe::new(&Config { initial_window: 20, ..paced() }, millis(100)).established();
    pipe.client.write(20_000);
    let start = pipe.now;
    pipe.run(millis(150));
    let sent = sent(&pipe);
    // After them the first burst of two segments; then 200 % of 20 segments per 200 ms.
    let at = |index: usize| sent[index].0.since(start);
    assert_eq!((sent.len(), at(11), at(12), at(19)), (20, millis(0), millis(10), millis(40)));
}

#[test]
fn the_option_does_not_change_a_controller_with_a_pacing_rate() {
    let segments = |paced: bool| {
        let config = Config { control: Control::Bbr, paced, ..reno() };
        let mut pipe = Pipe::new(&config, millis(10)).established().dropping(&[30, 31]);
        pipe.set_nanos_per_byte(800);
        pipe.transfer(1_000_000);
        sent(&pipe)
    };
    assert_eq!(segments(true), segments(false));
}
