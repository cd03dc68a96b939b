//! An agent handles or rejects any message, and the notices for its fabric are consistent.

use std::collections::BTreeSet;

use agreement::{Agreement, Notices, Output};
use base::{AgentId, Time};
use sharing::Notice;

pub(crate) fn target(bytes: &[u8]) {
    let mut agent = Notices::new(AgentId(0), 3);
    let mut flows = BTreeSet::new();
    for (at, message) in bytes.split(|byte| *byte == 0xff).enumerate() {
        let now = Time::from_nanos(at as u64 * 10_000_000);
        let _ = agent.on_message(now, AgentId((at % 4) as u16), message);
        agent.on_wake(now);
        while let Some(output) = agent.poll() {
            let Output::RemoteNotice { notice, .. } = output else { continue };
            match notice {
                Notice::Started { flow, .. } => drop(flows.insert(flow)),
                Notice::Rate { flow, .. } => assert!(flows.contains(&flow)),
                Notice::Ended { flow } => assert!(flows.remove(&flow)),
            }
        }
    }
}
