//! Pacing: bursts of limited size, by the rate of the congestion controller or, as an option, by
//! window and round-trip time as Linux's internal pacing does (`SO_MAX_PACING_RATE`).

use base::{Bandwidth, Bytes, Time};

use super::Sender;
use crate::tcp::control::CongestionControl;

/// Segments at the start of a connection that are not paced (Linux: `tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u64 = 10;
/// Pacing rate in percent of window per round trip, below half of the slow-start threshold and
/// above (Linux: `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const SLOW_START_PERCENT: u128 = 200;
const AVOIDANCE_PERCENT: u128 = 120;
/// Bursts are the bytes sent in 1/1024 s at the pacing rate (Linux: `sk_pacing_shift`), at least
/// this number of segments (`tcp_min_tso_segs`), and at most this number of bytes (`GSO_MAX_SIZE`).
//= deviation: no larger bursts where the minimum round-trip time is below 8 ms (`tcp_tso_rtt_log`)
const BURSTS_PER_SECOND: u64 = 1024;
const MIN_BURST_SEGMENTS: u64 = 2;
const MAX_BURST_BYTES: u64 = 65_536;

impl Sender {
    /// Computes the rate of the option; called after the handshake and after acknowledgements.
    pub(super) fn update_pacing_rate(&mut self) {
        let Some(srtt) = self.rtt.srtt().filter(|_| self.paced) else { return };
        let (cwnd, ssthresh) = (self.control.cwnd().count(), self.control.ssthresh().count());
        let percent = if cwnd < ssthresh / 2 { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
        let window = u128::from(cwnd.max(self.next - self.board.una));
        let bits = window * 8 * percent * 10_000_000 / u128::from(srtt.as_nanos());
        self.pacing_rate = u64::try_from(bits).unwrap_or(u64::MAX).max(1);
    }

    /// Rate and maximum burst; `None`: not paced.
    fn pacing(&self) -> Option<(Bandwidth, Bytes)> {
        if let Some(rate) = self.control.pacing_rate() {
            return Some((rate, self.control.send_quantum()));
        }
        if self.pacing_rate == 0 || self.counters.sent < UNPACED_SEGMENTS {
            return None;
        }
        let burst = (self.pacing_rate / 8 / BURSTS_PER_SECOND).min(MAX_BURST_BYTES);
        let burst = burst.max(MIN_BURST_SEGMENTS * u64::from(self.mss));
        Some((Bandwidth::from_bits_per_sec(self.pacing_rate), Bytes::new(burst)))
    }

    /// Whether pacing allows `length` bytes now.
    pub(super) fn pace(&mut self, now: Time, length: u64) -> bool {
        let Some((rate, quantum)) = self.pacing() else { return true };
        if self.pace_next <= now {
            self.pace_next = now;
            self.burst = quantum.count().max(length).min(u64::from(u32::MAX)) as u32;
        } else if u64::from(self.burst) < length {
            self.waits_for_burst = true;
            return false;
        }
        self.burst -= length as u32;
        let nanos = (length * 8_000_000_000) / rate.bits_per_sec().max(1);
        self.pace_next = Time::from_nanos(self.pace_next.as_nanos().saturating_add(nanos));
        true
    }
}
