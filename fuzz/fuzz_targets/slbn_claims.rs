//! A member of a lab must neither panic nor talk without end, whatever others send it.
#![no_main]

use base::{Bandwidth, Span, Time};
use cluster::AgentId;
use cluster::agreement::{Agreement, Slbn};
use libfuzzer_sys::fuzz_target;
use sharing::Window;

fuzz_target!(|messages: Vec<(u8, u16, Vec<u8>)>| {
    let homes = (0..8_u16).map(|link| AgentId(link % 3)).collect();
    let mut member = Slbn::new(AgentId(0), 3, homes, Window::Off, 1);
    let capacity = |link: u64| (link > 0).then(|| Bandwidth::from_bits_per_sec(link * 1_000_000));
    let capacities: Vec<_> = (0..8).map(capacity).collect();
    member.relink(Time::ZERO, &capacities);
    let mut now = Time::ZERO;
    for (from, wait, bytes) in messages {
        now += Span::from_millis(u64::from(wait));
        match from {
            200.. => member.lose(now, AgentId(u16::from(from) % 4)),
            150.. => member.regain(now, AgentId(u16::from(from) % 4)),
            _ => drop(member.on_message(now, AgentId(u16::from(from) % 4), &bytes)),
        }
        if member.next_wake().is_some_and(|at| at <= now) {
            member.on_wake(now);
        }
        // One message to each of the others at most, for what came and for the time.
        let said = std::iter::from_fn(|| member.poll()).count();
        assert!(said <= 4);
    }
});
