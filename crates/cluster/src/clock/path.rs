//! What pings tell of the physical network between two machines.

use base::{Histogram, Span, Time};

/// Round trips are looked back at for this long, up to twice as long.
const PERIOD: Span = Span::from_secs(30);

/// Packets are never handed over later than this before they are due.
const LEAST_LEAD: Span = Span::from_millis(1);

/// Nor earlier than this: no way on earth takes longer, and what waits for its time takes memory.
pub const MOST_LEAD: Span = Span::from_millis(250);

/// Whether a lead has become so much longer or shorter that it should be told: a little too long
/// harms nobody, too short makes packets late.
pub fn is_news(told: Span, lead: Span) -> bool {
    let (told, lead) = (told.as_nanos(), lead.as_nanos());
    lead > told + told / 10 || lead < told / 2
}

/// How much before it is due a packet should be handed to the trunk: the shortest way, and four
/// times what all but one in a hundred take longer.
pub fn lead(round_trips: &Histogram) -> Span {
    let [least, most] = [round_trips.min(), round_trips.percentile(0.99)].map(|trip| trip / 2);
    let lead = least.saturating_add(4 * most.saturating_sub(least));
    Span::from_nanos(lead).clamp(LEAST_LEAD, MOST_LEAD)
}

/// Loss and round trips of one path.
#[derive(Clone, Debug, Default)]
pub struct PathStatistics {
    /// Pings whose answer has come.
    pub answered: u64,
    /// Pings that nobody has answered in time.
    pub lost: u64,
    round_trips: Histogram,
    before: Histogram,
    since: Time,
}

impl PathStatistics {
    /// Round trips (ns) of the last half minute or so.
    pub fn round_trips(&self) -> Histogram {
        let mut both = self.before.clone();
        both.merge(&self.round_trips);
        both
    }

    /// The share of pings that were not answered.
    pub fn loss(&self) -> f64 {
        let all = self.answered + self.lost;
        if all == 0 { 0.0 } else { self.lost as f64 / all as f64 }
    }

    pub(super) fn answer(&mut self, now: Time, round_trip: Span) {
        if now.since(self.since) > PERIOD {
            self.since = now;
            self.before = std::mem::take(&mut self.round_trips);
        }
        self.answered += 1;
        self.round_trips.record(round_trip.as_nanos());
    }

    pub(super) fn lose(&mut self) {
        self.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trips(micros: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for trip in micros {
            histogram.record(Span::from_micros(trip).as_nanos());
        }
        histogram
    }

    #[test]
    fn leads_cover_what_the_path_takes() {
        assert_eq!(lead(&Histogram::default()), LEAST_LEAD);
        assert_eq!(lead(&trips([100, 120, 300])), LEAST_LEAD);
        // 50 ms one way with up to 1 ms more: not four times 51 ms.
        let wide = lead(&trips((0..100).map(|at| 100_000 + 20 * at)));
        assert!(wide > Span::from_micros(53_700) && wide < Span::from_micros(54_100), "{wide}");
        assert_eq!(lead(&trips([200, 4_000_000])), MOST_LEAD);
    }

    #[test]
    fn leads_are_told_when_it_matters() {
        let news = |told, lead| is_news(Span::from_micros(told), Span::from_micros(lead));
        assert!(news(1_000, 1_200) && news(5_000, 1_000) && news(0, 1_000));
        assert!(!news(1_000, 1_050) && !news(5_000, 4_000) && !news(1_000, 1_000));
    }

    #[test]
    fn old_round_trips_are_forgotten() {
        let mut path = PathStatistics::default();
        for second in 0..100 {
            let trip = if second < 10 { 9_000 } else { 200 };
            path.answer(Time::from_nanos(second * 1_000_000_000), Span::from_micros(trip));
        }
        path.lose();
        assert_eq!(path.round_trips().max(), 200_000);
        assert_eq!((path.answered, path.lost), (100, 1));
        assert!((path.loss() - 1.0 / 101.0).abs() < 1e-9);
    }
}
