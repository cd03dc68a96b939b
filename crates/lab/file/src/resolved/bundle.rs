//! Writes `[[bundle]]`.

use super::{Pair, node_name, quantity, queue, table, text};
use crate::fields::{BUNDLE, FEEDBACK};
use crate::plan::{Bundle, BundleControl, Plan};

/// The keys and values of a bundle.
pub(super) fn pairs(plan: &Plan, bundle: &Bundle) -> Vec<Pair> {
    let control = match bundle.control {
        BundleControl::Copa => text("copa"),
        BundleControl::BasicDelay => text("basic-delay"),
        BundleControl::Bbr => text("bbr"),
        BundleControl::Constant(rate) => {
            table(&[("kind", text("constant")), ("rate", quantity(rate))])
        }
    };
    let mut pairs = vec![
        ("name", text(&bundle.name)),
        ("from", text(node_name(plan, bundle.from))),
        ("to", text(node_name(plan, bundle.to))),
        ("scheduler", queue(&bundle.scheduler)),
        ("control", control),
        BUNDLE.marking.pair(bundle.marking),
        BUNDLE.mode.pair(bundle.mode),
        BUNDLE.floor.pair(bundle.floor),
        BUNDLE.weight.pair(bundle.weight),
    ];
    pairs.extend(bundle.ceiling.map(|ceiling| BUNDLE.ceiling.pair(ceiling)));
    let feedback = bundle.feedback;
    pairs.extend([
        BUNDLE.elasticity.pair(bundle.elasticity),
        BUNDLE.multipath.pair(bundle.multipath),
        (
            "feedback",
            table(&[FEEDBACK.loss.pair(feedback.loss), FEEDBACK.jitter.pair(feedback.jitter)]),
        ),
    ]);
    let constants = bundle.constants.to_string();
    pairs.extend((!constants.is_empty()).then(|| ("constants", text(&constants))));
    pairs
}
