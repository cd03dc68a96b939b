//! `[[bundle]]`, written out.

use super::{Pair, node_name, quantity, queue, table, text};
use crate::plan::{BoxAction, Bundle, BundleControl, Marking, Mode, Plan};

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
    let marking = match bundle.marking {
        Marking::Header => "header",
        Marking::Encapsulation => "encapsulation",
    };
    let mode = match bundle.mode {
        Mode::Observe => "observe",
        Mode::DryRun => "dry-run",
        Mode::Enforce => "enforce",
    };
    let mut pairs = vec![
        ("name", text(&bundle.name)),
        ("from", text(node_name(plan, bundle.from))),
        ("to", text(node_name(plan, bundle.to))),
        ("scheduler", queue(&bundle.scheduler)),
        ("control", control),
        ("marking", text(marking)),
        ("mode", text(mode)),
        ("floor", quantity(bundle.floor)),
        ("weight", bundle.weight.to_string()),
    ];
    pairs.extend(bundle.ceiling.map(|ceiling| ("ceiling", quantity(ceiling))));
    let feedback = bundle.feedback;
    pairs.extend([
        ("elasticity", bundle.elasticity.to_string()),
        ("multipath", bundle.multipath.to_string()),
        (
            "feedback",
            table(&[("loss", quantity(feedback.loss)), ("jitter", quantity(feedback.jitter))]),
        ),
    ]);
    pairs
}

/// What happens to a box, as the file says it.
pub(super) const fn action(action: BoxAction) -> &'static str {
    match action {
        BoxAction::Stop => "stop",
        BoxAction::Start => "start",
        BoxAction::Restart => "restart",
    }
}
