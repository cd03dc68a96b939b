//! Conversion of a plan's links to the links of the session network.

use base::{Bandwidth, Bytes};
use fabric::fifo::{Data, FifoLink};
use fabric::{Discipline, LinkConfig, Loss, QueueLimit, Rate};
use lab::plan::{Action, Flow, Model, Plan, Traffic};

use super::table::SessionTable;
use crate::{Error, Result};

/// Whether the plan has traffic, and all of it is rate-controlled.
pub(crate) fn all_controlled(plan: &Plan) -> bool {
    let controlled = |flow: &Flow| matches!(flow.traffic, Traffic::Controlled { .. });
    let access = plan.control.as_ref().is_some_and(|control| !control.access.is_empty());
    plan.is_rate_controlled() && !access && plan.flows.iter().all(controlled)
}

/// The error for a plan that this engine does not support.
fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Sessions { why: why.into() })
}

/// Converts one direction of a link.
///
/// # Errors
/// If the link has properties beyond a constant rate, a delay and a drop-tail queue.
pub(super) fn wire(name: &str, config: &LinkConfig) -> Result<FifoLink> {
    let rate = match &config.rate {
        Rate::Unlimited => Bandwidth::from_bits_per_sec(0),
        Rate::Constant(rate) => *rate,
        Rate::Trace(_) => return refuse(format!("link `{name}` follows a trace")),
    };
    let more = [
        (config.jitter.is_some(), "jitter"),
        (config.loss != Loss::None, "`loss` (use `[control] loss` to lose control packets)"),
        (config.reorder.is_some(), "reordering"),
        (config.duplicate.is_positive(), "duplicates"),
        (config.corrupt.is_positive(), "damaged packets"),
        (config.queue.discipline != Discipline::DropTail, "a queue that is not drop-tail"),
    ];
    if let Some((_, what)) = more.into_iter().find(|(has, _)| *has) {
        return refuse(format!("link `{name}` has {what}"));
    }
    Ok(FifoLink { rate, delay: config.delay })
}

/// All directed links of a plan, after checking those of its events as well.
///
/// # Errors
/// As for [`wire`].
pub(super) fn wires(plan: &Plan) -> Result<Vec<FifoLink>> {
    let mut wires = Vec::with_capacity(plan.links.len() * 2);
    for link in &plan.links {
        for config in &link.directions {
            wires.push(wire(&link.name, config)?);
        }
    }
    for event in &plan.events {
        if let Action::Set { link, config, .. } = &event.action {
            wire(&plan.links[link.index()].name, config)?;
        }
    }
    Ok(wires)
}

/// The lab's queue limit of a direction in wire bytes. The queues of this engine are unlimited.
pub(super) fn limit(config: &LinkConfig, packet: Bytes) -> u64 {
    match config.queue.limit {
        QueueLimit::Packets(packets) => u64::from(packets).saturating_mul(packet.count()),
        QueueLimit::Bytes(bytes) => bytes.count(),
    }
}

/// The wire size of data packets, and how data is modelled.
///
/// # Errors
/// If the model is packets and packets differ in size.
pub(super) fn data(plan: &Plan, table: &SessionTable) -> Result<(Bytes, Data)> {
    let size = table.packets.iter().copied().max().unwrap_or(Bytes::new(1500));
    match plan.model {
        Model::Fluid => Ok((size, Data::Fluid)),
        Model::Collapsed(_) => refuse("the collapsed model has no queues for control packets"),
        Model::Hop if table.packets.iter().any(|packet| *packet != size) => {
            refuse("data packets differ in size on the wire: use `model = \"fluid\"` or one size")
        }
        Model::Hop => Ok((size, Data::Packets { size })),
    }
}
