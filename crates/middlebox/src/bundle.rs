//! A bundle as the plan has it, for the machines.

use base::{Bytes, NodeId};
use bundler::control::Control;
use bundler::digest::{DigestKey, Key};
use bundler::encapsulation::Encapsulator;
use bundler::settings::{Marking, Mode, Settings};
use lab::plan::{self, BundleControl, Plan};

use crate::feedback::Dice;

/// One bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) settings: Settings,
    pub(crate) digest: DigestKey,
    pub(crate) encapsulator: Encapsulator,
    pub(crate) dice: Dice,
    /// Datagrams between the boxes that could not be sent, for want of a route.
    pub(crate) unsent: u64,
}

impl Bundle {
    /// The plan's bundle at this position.
    pub(crate) fn new(plan: &Plan, position: usize) -> Self {
        let bundle = &plan.bundles[position];
        let key = Key::from_secret(&format!("{} {}", plan.seed, bundle.name));
        let settings = settings(plan, bundle, position as u32, key.clone());
        Self {
            from: bundle.from,
            to: bundle.to,
            digest: key.digest(),
            encapsulator: Encapsulator::new(&key),
            dice: Dice::new(plan.seed, &bundle.name, bundle.feedback),
            settings,
            unsent: 0,
        }
    }

    /// What the receivebox must know.
    pub(crate) fn receiver(&self) -> bundler::receivebox::Settings {
        let Settings { id, key, overhead, .. } = &self.settings;
        bundler::receivebox::Settings { id: *id, key: key.clone(), overhead: *overhead }
    }
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
        overhead: Bytes::new(plan.overhead.count()),
        elasticity: bundle.elasticity,
        multipath: bundle.multipath,
        seed: plan.seed,
        ..Settings::new(id, key)
    }
}

/// The law that a lab file names.
pub const fn control(control: BundleControl) -> Control {
    match control {
        BundleControl::DelayTarget => Control::DelayTarget,
        BundleControl::Copa => Control::Copa,
        BundleControl::BasicDelay => Control::BasicDelay,
        BundleControl::Bbr => Control::Bbr,
        BundleControl::Constant(rate) => Control::Constant(rate),
    }
}
