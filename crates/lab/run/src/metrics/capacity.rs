//! The capacity of a link in bits, including changes of its rate.

use base::{Direction, LinkId, Time};
use lab::plan::{Action, Plan};

use crate::flow::path::bits_per_second;

/// Bits that one direction of a link can carry between two times; `None` if unlimited.
pub(crate) fn bits(
    plan: &Plan,
    link: LinkId,
    direction: Direction,
    (from, to): (Time, Time),
) -> Option<f64> {
    let mut rate = bits_per_second(&plan.links[link.index()].directions[direction.index()]);
    let mut at = Time::ZERO;
    let mut sum = 0.0;
    let mut add = |rate: Option<f64>, start: Time, end: Time| {
        let seconds = end.min(to).since(start.max(from)).as_secs_f64();
        if seconds > 0.0 {
            sum += rate? * seconds;
        }
        Some(())
    };
    for event in &plan.events {
        match &event.action {
            Action::Set { link: l, direction: d, config } if (*l, *d) == (link, direction) => {
                add(rate, at, event.at)?;
                rate = bits_per_second(config);
                at = event.at;
            }
            _ => {}
        }
    }
    add(rate, at, Time::MAX)?;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Bandwidth, Span};
    use fabric::{LinkConfig, Rate};
    use lab::plan::Event;

    #[test]
    fn capacity_includes_rate_changes() {
        let mut plan = crate::tests::star();
        let config = |mbit| LinkConfig {
            rate: Rate::Constant(Bandwidth::from_mbits_per_sec(mbit)),
            ..LinkConfig::default()
        };
        let (link, direction) = (LinkId(0), Direction::Up);
        let second = |n| Time::ZERO + Span::from_secs(n);
        assert_eq!(bits(&plan, link, direction, (Time::ZERO, second(1))), None);
        plan.links[0].directions[0] = config(10);
        let action = Action::Set { link, direction, config: Box::new(config(30)) };
        plan.events = vec![Event { at: second(2), action, text: String::new() }];
        assert_eq!(bits(&plan, link, direction, (Time::ZERO, second(4))), Some(80e6));
        assert_eq!(bits(&plan, link, direction, (second(1), second(3))), Some(40e6));
        let back = bits(&plan, link, Direction::Down, (second(1), second(3)));
        assert_eq!(back, None);
    }
}
