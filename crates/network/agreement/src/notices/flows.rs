//! The flows of one agent, and their digest.

use std::collections::BTreeMap;

use base::{Bandwidth, IfaceId};
use sharing::{FlowName, Notice};

/// The parameters of a flow, with its latest rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) from: IfaceId,
    pub(super) to: IfaceId,
    pub(super) hash: u32,
    pub(super) windowed: bool,
    pub(super) most: Option<Bandwidth>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    by_number: BTreeMap<u32, Flow>,
    digest: u64,
}

impl Flows {
    /// Applies a notice; returns whether it changes anything.
    pub(super) fn apply(&mut self, notice: &Notice) -> bool {
        match *notice {
            Notice::Started { flow, from, to, hash, windowed, most } => {
                self.put(flow.number, Flow { from, to, hash, windowed, most })
            }
            Notice::Rate { flow, most } => {
                let known = self.by_number.get(&flow.number).copied();
                known.is_some_and(|known| self.put(flow.number, Flow { most, ..known }))
            }
            Notice::Ended { flow } => {
                let old = self.by_number.remove(&flow.number);
                self.digest ^= old.map_or(0, |old| mixed(flow.number, &old));
                old.is_some()
            }
        }
    }

    fn put(&mut self, number: u32, flow: Flow) -> bool {
        let old = self.by_number.insert(number, flow);
        self.digest ^= mixed(number, &flow) ^ old.map_or(0, |old| mixed(number, &old));
        old != Some(flow)
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Depends on the flows only, not on their history.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// All flows, as notices of `sender`.
    pub(super) fn started(&self, sender: u32) -> impl Iterator<Item = Notice> + '_ {
        self.by_number.iter().map(move |(number, flow)| started(sender, *number, flow))
    }

    /// The notices of `sender` that turn these flows into `other`.
    pub(super) fn difference(&self, other: &Self, sender: u32) -> Vec<Notice> {
        let gone = self.by_number.keys().filter(|number| !other.by_number.contains_key(number));
        let name = |number: &u32| FlowName { sender, number: *number };
        let ended = gone.map(|number| Notice::Ended { flow: name(number) });
        let changed =
            other.by_number.iter().filter_map(|(number, flow)| match self.by_number.get(number) {
                Some(old) if old == flow => None,
                Some(old) if Flow { most: flow.most, ..*old } == *flow => {
                    Some(Notice::Rate { flow: name(number), most: flow.most })
                }
                _ => Some(started(sender, *number, flow)),
            });
        ended.chain(changed).collect()
    }
}

fn started(sender: u32, number: u32, flow: &Flow) -> Notice {
    let Flow { from, to, hash, windowed, most } = *flow;
    Notice::Started { flow: FlowName { sender, number }, from, to, hash, windowed, most }
}

/// Hashes a flow. Agents trust each other, so it need not resist deliberate collisions.
fn mixed(number: u32, flow: &Flow) -> u64 {
    let most = flow.most.map_or(u64::MAX, Bandwidth::bits_per_sec);
    let ends = u64::from(flow.from.0) << 32 | u64::from(flow.to.0);
    let rest = u64::from(flow.hash) << 1 | u64::from(flow.windowed);
    [u64::from(number), ends, rest, most].into_iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let state: u64 = (state ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (state ^ state >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ state >> 32
    })
}
