//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation).

use base::{Bandwidth, Bytes, Span, Time};

use crate::tcp::packed::packed;

/// A connection's counters of delivered and lost data, from which samples are taken.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    /// C.delivered, in bytes.
    delivered: u64,
    /// `C.delivered_time`.
    delivered_at: Time,
    /// `C.first_sent_time`: start of the transmission of the measured flight.
    first_sent: Time,
    /// C.lost, in bytes.
    lost: u64,
    /// `C.app_limited`: until this many bytes are delivered, the application
    /// may have limited samples.
    limited_until: u64,
    /// The newest sample: bytes and nanoseconds, both halved until they fit; 0 without a sample.
    newest: u32,
    newest_took: u32,
}

packed!(DeliveryRate {
    delivered,
    lost,
    limited_until,
    newest,
    newest_took,
    delivered_at,
    first_sent,
});

/// The state stored with a segment at its last transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentMark {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Low bits of the bytes lost until then: only differences within a flight are used.
    lost: u32,
    /// Bytes in flight, including this segment; the highest bit is set if the
    /// application was the limit.
    in_flight: u32,
}

const APP_LIMITED: u32 = 1 << 31;

impl SentMark {
    /// Payload in flight when it was sent, itself included.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(u64::from(self.in_flight & !APP_LIMITED))
    }

    /// Whether the application limited the sender.
    pub fn is_app_limited(&self) -> bool {
        self.in_flight & APP_LIMITED != 0
    }
}

/// The delivery rate that one acknowledgement shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in the interval (rs.delivered).
    pub delivered: Bytes,
    /// The longer of the transmission time and the acknowledgement time; zero if it is shorter than
    /// the minimum round-trip time, because such a sample is not meaningful.
    pub interval: Span,
    /// Bytes that the connection had delivered when the sample's newest segment was sent.
    pub prior_delivered: Bytes,
    /// Bytes that the connection has delivered now.
    pub total_delivered: Bytes,
    /// Bytes deemed lost since that segment was sent.
    pub lost: Bytes,
    /// Bytes in flight when that segment was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Whether the application limited the sender when it was sent.
    pub app_limited: bool,
    lost_before: u32,
    sent: Time,
    send_elapsed: Span,
    prior_delivered_at: Time,
}

impl RateSample {
    /// The rate; `None` if the sample has none.
    pub fn rate(&self) -> Option<Bandwidth> {
        let nanos = self.interval.as_nanos();
        if nanos == 0 {
            return None;
        }
        let bits = u128::from(self.delivered.count()) * 8_000_000_000 / u128::from(nanos);
        Some(Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)))
    }
}

impl DeliveryRate {
    /// The newest rate; an application-limited one only if it is not below the previous one (Linux:
    /// `tcpi_delivery_rate`). `None` before the first sample.
    pub fn newest(&self) -> Option<Bandwidth> {
        let bits = u128::from(self.newest) * 8_000_000_000;
        let rate = bits.checked_div(u128::from(self.newest_took))?;
        Some(Bandwidth::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    fn keep(&mut self, delivered: u64, took: u64, app_limited: bool) {
        let halved = (u64::BITS - (delivered | took).leading_zeros()).saturating_sub(u32::BITS);
        let (newest, took) = ((delivered >> halved) as u32, (took >> halved) as u32);
        let not_lower = || {
            u64::from(newest) * u64::from(self.newest_took)
                >= u64::from(self.newest) * u64::from(took)
        };
        if took > 0 && (!app_limited || not_lower()) {
            (self.newest, self.newest_took) = (newest, took);
        }
    }

    /// Records that a segment of `length` is sent; `in_flight` bytes are in flight without it.
    pub fn on_sent(&mut self, now: Time, length: Bytes, in_flight: Bytes) -> SentMark {
        if in_flight == Bytes::ZERO {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let limited = if self.limited_until > 0 { APP_LIMITED } else { 0 };
        let with = (in_flight.count() + length.count()).min(u64::from(APP_LIMITED - 1)) as u32;
        SentMark {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost as u32,
            in_flight: with | limited,
        }
    }

    /// Records that a segment of `length`, last sent at `sent`, has been delivered. Called for
    /// every segment that an acknowledgement newly covers; the sample starts as `None`.
    pub fn on_delivered(
        &mut self,
        now: Time,
        length: Bytes,
        sent: Time,
        mark: &SentMark,
        sample: &mut Option<RateSample>,
    ) {
        self.delivered += length.count();
        self.delivered_at = now;
        let newer = sample
            .as_ref()
            .is_none_or(|s| (mark.delivered, sent) >= (s.prior_delivered.count(), s.sent));
        if newer {
            *sample = Some(RateSample {
                delivered: Bytes::ZERO,
                interval: Span::ZERO,
                prior_delivered: Bytes::new(mark.delivered),
                total_delivered: Bytes::ZERO,
                lost: Bytes::ZERO,
                lost_before: mark.lost,
                sent_in_flight: mark.in_flight(),
                app_limited: mark.is_app_limited(),
                sent,
                send_elapsed: sent.since(mark.first_sent),
                prior_delivered_at: mark.delivered_at,
            });
            self.first_sent = sent;
        }
    }

    /// Records payload that was deemed lost. Returns the bytes lost since the segment was sent,
    /// itself included.
    pub fn on_lost(&mut self, length: Bytes, mark: &SentMark) -> Bytes {
        self.lost += length.count();
        Bytes::new(u64::from((self.lost as u32).wrapping_sub(mark.lost)))
    }

    /// Records that the application has no data although the window would allow more.
    pub fn mark_app_limited(&mut self, in_flight: Bytes) {
        self.limited_until = (self.delivered + in_flight.count()).max(1);
    }

    /// Completes the sample of an acknowledgement, after all segments that it covers and all that
    /// it reveals to be lost.
    pub fn finish(&mut self, min_rtt: Span, sample: &mut Option<RateSample>) {
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if let Some(sample) = sample {
            let ack_elapsed = self.delivered_at.since(sample.prior_delivered_at);
            let interval = sample.send_elapsed.max(ack_elapsed);
            sample.interval = if interval < min_rtt { Span::ZERO } else { interval };
            sample.total_delivered = Bytes::new(self.delivered);
            let lost = (self.lost as u32).wrapping_sub(sample.lost_before);
            sample.lost = Bytes::new(u64::from(lost));
            sample.delivered = sample.total_delivered.saturating_sub(sample.prior_delivered);
            let took = sample.interval.as_nanos();
            self.keep(sample.delivered.count(), took, sample.app_limited);
        }
    }

    /// Payload delivered so far.
    pub const fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }

    /// Payload deemed lost so far.
    pub const fn lost(&self) -> Bytes {
        Bytes::new(self.lost)
    }
}
