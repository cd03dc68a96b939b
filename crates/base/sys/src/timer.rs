//! Computes when a sleep must end to reach a deadline.

use base::Span;

/// The wake-up latency grows with the depth of the CPU's sleep state, which grows with the length
/// of the sleep. A long sleep therefore ends this early, and a short one follows.
const LAST: Span = Span::from_millis(1);

/// Time before a deadline for which a precise caller polls the clock: the wake-up latency of a
/// short sleep is rarely longer.
pub const SPIN: Span = Span::from_micros(100);

/// Duration of the next sleep for a deadline in `left`, if sleeps end `early` before it.
pub fn leg(left: Span, early: Span) -> Span {
    if is_long(left) { left.saturating_sub(LAST) } else { left.saturating_sub(early) }
}

/// Whether another sleep follows one for a deadline in `left`.
pub fn is_long(left: Span) -> bool {
    left > LAST.saturating_add(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_leaves_room_for_a_short_one() {
        let (millis, micros) = (Span::from_millis, Span::from_micros);
        assert_eq!(leg(millis(50), SPIN), millis(49));
        assert_eq!(leg(millis(2), SPIN), micros(1_900));
        assert_eq!(leg(micros(50), SPIN), Span::ZERO);
    }
}
