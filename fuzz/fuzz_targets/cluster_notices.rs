//! Whatever a member of a lab says of its flows, the others take it in or refuse it, and what they
//! tell their fabric of it is consistent.
#![no_main]

use std::collections::BTreeSet;

use base::Time;
use cluster::AgentId;
use cluster::agreement::{Agreement, Notices, Output};
use libfuzzer_sys::fuzz_target;
use sharing::Notice;

fuzz_target!(|bytes: &[u8]| {
    let mut member = Notices::new(AgentId(0), 3);
    let mut flows = BTreeSet::new();
    for (at, message) in bytes.split(|byte| *byte == 0xff).enumerate() {
        let now = Time::from_nanos(at as u64 * 10_000_000);
        let _ = member.on_message(now, AgentId((at % 4) as u16), message);
        member.on_wake(now);
        while let Some(output) = member.poll() {
            let Output::Hear { notice, .. } = output else { continue };
            match notice {
                Notice::Started { flow, .. } => drop(flows.insert(flow)),
                Notice::Rate { flow, .. } => assert!(flows.contains(&flow)),
                Notice::Ended { flow } => assert!(flows.remove(&flow)),
            }
        }
    }
});
