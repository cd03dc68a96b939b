//! When a sleep has to end so that a moment is met.

use base::Span;

/// Waking takes the longer the deeper a processor sleeps, and it sleeps the deeper the longer it
/// is to. A long sleep therefore ends this early, and a short one follows.
const LAST: Span = Span::from_millis(1);

/// Who wants to be precise looks at the clock for this long at the end: waking from a short sleep
/// hardly ever takes longer.
pub const SPIN: Span = Span::from_micros(100);

/// How long to sleep now for a moment that is `left` away, where sleeps end by `early` before it.
pub fn leg(left: Span, early: Span) -> Span {
    if is_long(left) { left.saturating_sub(LAST) } else { left.saturating_sub(early) }
}

/// Whether another sleep follows one for a moment that is so far away.
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
