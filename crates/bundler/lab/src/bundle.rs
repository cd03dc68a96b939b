//! Converts a bundle of the plan to the settings of the state machines.

use std::collections::BTreeSet;

use base::NodeId;
use bundler::digest::{DigestKey, Key};
use bundler::settings::Settings;
use lab::plan::{self, Plan};
use lab::routes::flow_hash;

use crate::feedback::FeedbackRng;
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) settings: Settings,
    pub(crate) digest: DigestKey,
    pub(crate) rng: FeedbackRng,
    /// Datagrams between the gateways that could not be sent because of a missing route.
    pub(crate) unsent: u64,
    /// Datagrams whose source address is not one of the other gateway.
    pub(crate) foreign: u64,
}

impl Bundle {
    /// The bundles of the plan, in their order.
    pub(crate) fn all(plan: &Plan) -> Vec<Self> {
        let mut taken = BTreeSet::new();
        let bundles = plan.bundles.iter();
        bundles.map(|bundle| Self::new(plan, bundle, number(&bundle.name, &mut taken))).collect()
    }

    fn new(plan: &Plan, bundle: &plan::Bundle, id: u32) -> Self {
        let key = Key::from_secret(&format!("{} {}", plan.seed, bundle.name));
        let settings = settings(plan, bundle, id, key.clone());
        Self {
            from: bundle.from,
            to: bundle.to,
            digest: key.digest(),
            rng: FeedbackRng::new(plan.seed, &bundle.name, bundle.feedback),
            settings,
            unsent: 0,
            foreign: 0,
        }
    }

    pub(crate) fn receiver(&self) -> bundler::receivebox::Settings {
        let Settings { id, key, overhead, .. } = &self.settings;
        bundler::receivebox::Settings { id: *id, key: key.clone(), overhead: *overhead }
    }
}

/// Identifier of a bundle in messages. It is derived from its name, so that its random streams do
/// not depend on other bundles.
fn number(name: &str, taken: &mut BTreeSet<u32>) -> u32 {
    let mut id = flow_hash(name, "", "");
    while !taken.insert(id) {
        id = id.wrapping_add(1);
    }
    id
}

fn settings(plan: &Plan, bundle: &plan::Bundle, id: u32, key: Key) -> Settings {
    Settings {
        control: bundle.control,
        scheduler: bundle.scheduler.clone(),
        marking: bundle.marking,
        mode: bundle.mode,
        floor: bundle.floor,
        ceiling: bundle.ceiling,
        weight: bundle.weight,
        overhead: plan.overhead,
        elasticity: bundle.elasticity,
        multipath: bundle.multipath,
        seed: plan.seed,
        constants: bundle.constants,
        ..Settings::new(id, key)
    }
}
