//! A bundle as the plan has it, for the machines.

use std::collections::BTreeSet;

use base::NodeId;
use bundler::control::Control;
use bundler::digest::{DigestKey, Key};
use bundler::settings::{Marking, Mode, Settings};
use lab::plan::{self, BundleControl, Plan};
use lab::routes::flow_hash;

use crate::feedback::Dice;

/// One bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) settings: Settings,
    pub(crate) digest: DigestKey,
    pub(crate) dice: Dice,
    /// Datagrams between the boxes that could not be sent, for want of a route.
    pub(crate) unsent: u64,
    /// Datagrams whose source address is not one of the other box.
    pub(crate) foreign: u64,
}

impl Bundle {
    /// The plan's bundles, in their order.
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
            dice: Dice::new(plan.seed, &bundle.name, bundle.feedback),
            settings,
            unsent: 0,
            foreign: 0,
        }
    }

    /// What the receivebox must know.
    pub(crate) fn receiver(&self) -> bundler::receivebox::Settings {
        let Settings { id, key, overhead, .. } = &self.settings;
        bundler::receivebox::Settings { id: *id, key: key.clone(), overhead: *overhead }
    }
}

/// What tells a bundle from others in messages. It follows from its name, so that its dice, which
/// it keys, are the same whatever other bundles there are.
fn number(name: &str, taken: &mut BTreeSet<u32>) -> u32 {
    let mut id = flow_hash(name, "", "");
    while !taken.insert(id) {
        id = id.wrapping_add(1);
    }
    id
}

fn settings(plan: &Plan, bundle: &plan::Bundle, id: u32, key: Key) -> Settings {
    Settings {
        control: control(bundle.control),
        scheduler: bundle.scheduler.clone(),
        marking: match bundle.marking {
            plan::Marking::Header => Marking::Header,
            plan::Marking::Encapsulation => Marking::Encapsulation,
        },
        mode: match bundle.mode {
            plan::Mode::Observe => Mode::Observe,
            plan::Mode::DryRun => Mode::DryRun,
            plan::Mode::Enforce => Mode::Enforce,
        },
        floor: bundle.floor,
        ceiling: bundle.ceiling,
        weight: bundle.weight,
        overhead: plan.overhead,
        elasticity: bundle.elasticity,
        multipath: bundle.multipath,
        seed: plan.seed,
        ..Settings::new(id, key)
    }
}

/// The law that a lab file names.
pub const fn control(control: BundleControl) -> Control {
    match control {
        BundleControl::Copa => Control::Copa,
        BundleControl::BasicDelay => Control::BasicDelay,
        BundleControl::Bbr => Control::Bbr,
        BundleControl::Constant(rate) => Control::Constant(rate),
    }
}
