//! What was measured beside what it must reach.

use super::course::{Middle, number};
use crate::{Clock, Evidence};

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

impl Wanted {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {}", number(least)),
            Self::AtMost(most) => format!("at most {}", number(most)),
        }
    }
}

/// The clock in a word.
pub(super) fn word(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall",
        Clock::Virtual => "virtual",
    }
}

/// The median must be as wanted; beside it stands what others reach.
pub(super) fn claim(
    evidence: &mut Evidence,
    clock: Clock,
    what: &str,
    wanted: Wanted,
    ours: Middle,
    beside: &[(&str, Middle)],
) {
    let others: Vec<String> = beside
        .iter()
        .filter(|(_, middle)| !middle.median.is_nan())
        .map(|(name, middle)| format!("{name} {}", middle.text()))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    evidence.claim(
        format!("{what} ({})", word(clock)),
        format!("required: {}{others}", wanted.text()),
        ours.text(),
        wanted.holds(ours.median),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_about_the_median() {
        let mut evidence = Evidence::default();
        let ours = Middle::of(&[0.9, 1.0, 1.1]);
        let kernel = Middle::of(&[0.5]);
        let beside = [("kernel MPTCP", kernel), ("TCP", Middle::of(&[]))];
        claim(&mut evidence, Clock::Wall, "ratio", Wanted::AtLeast(1.0), ours, &beside);
        claim(&mut evidence, Clock::Wall, "gap", Wanted::AtMost(0.99), ours, &[]);
        let nothing = Middle::of(&[]);
        claim(&mut evidence, Clock::Virtual, "gap", Wanted::AtMost(1.0), nothing, &[]);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, false, false]);
        let first = &evidence.claims[0];
        assert_eq!(first.what, "ratio (wall)");
        assert_eq!(first.paper, "required: at least 1.00; kernel MPTCP 0.50 (0.50 to 0.50)");
    }
}
