//! An agent neither panics nor sends without bound, whatever messages it receives.

use agreement::{Agreement, Slbn};
use base::{AgentId, Bandwidth, Span, Time};
use sharing::Window;

pub(crate) fn target(messages: Vec<(u8, u16, Vec<u8>)>) {
    let homes = (0..8_u16).map(|link| AgentId(link % 3)).collect();
    let mut agent = Slbn::new(AgentId(0), 3, homes, Window::Off, 1);
    let capacity = |link: u64| (link > 0).then(|| Bandwidth::from_bits_per_sec(link * 1_000_000));
    let capacities: Vec<_> = (0..8).map(capacity).collect();
    agent.set_capacities(Time::ZERO, &capacities);
    let mut now = Time::ZERO;
    for (from, wait, bytes) in messages {
        now += Span::from_millis(u64::from(wait));
        match from {
            200.. => agent.on_agent_lost(now, AgentId(u16::from(from) % 4)),
            150.. => agent.on_agent_restored(now, AgentId(u16::from(from) % 4)),
            _ => drop(agent.on_message(now, AgentId(u16::from(from) % 4), &bytes)),
        }
        if agent.next_wake().is_some_and(|at| at <= now) {
            agent.on_wake(now);
        }
        // At most one message to each other agent for the input, and one for the time.
        let sent = std::iter::from_fn(|| agent.poll()).count();
        assert!(sent <= 4);
    }
}
