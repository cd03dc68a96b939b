//! The engine for labs whose traffic is all rate-controlled: very many sessions, each at the rate
//! that the network assigns.
//!
//! ```text
//! members (populations, flows), joins and leaves       table.rs, simulation.rs
//!        → sources, links, destinations                driver.rs, crate `ratecontrol`
//!        → control packets and data over FIFO links    crate `fabric`, module `fifo`
//! present fair rates, and errors                       oracle.rs, crate `sharing`
//! ```
//!
//! - Links have a rate, a delay and an unlimited queue; if a queue exceeds the lab's limit, the run
//!   reports it. Control packets share links with data and can be lost on each link, with the lab's
//!   loss rate; data is lost only where a link fails.
//! - A session sends data from its first assigned rate on, at the rate that control packets leave.
//!   It leaves when it has sent everything, and is complete when all data has arrived; data lost on
//!   a failing link is not retransmitted.
//! - When links fail or return, sessions move to the new shortest paths at once and join there like
//!   new ones. A Leave removes a session's state from the links of the old path, as far as it gets.
//!   Links of protocols without soft state would keep the rest forever, since the packet that
//!   could release it may be lost. With these protocols all links are reset and all sessions join
//!   again, as in the packet engine; sessions with an unchanged path send at their old rate
//!   meanwhile.
//! - Protocols that use traffic measurements have all links measured at the same times.
//!
//! A session takes a few hundred bytes: the state machine of its source, its path, its state as a
//! sender, and a control packet in flight. Links without sessions have no state machine.

mod driver;
mod levels;
mod meter;
mod oracle;
mod simulation;
mod table;
#[cfg(test)]
mod tests;
mod wires;

use lab::plan::Plan;

use crate::canonical::Canonical;
use crate::engine::Engine;
use crate::{Error, Result, packets};
use simulation::Setup;

pub(crate) use wires::all_controlled;

/// A plan of rate-controlled sessions on the virtual clock, in memory.
///
/// Events come in a total order: by time, then by [`timeline::Rank`], then by the order of
/// scheduling. Nodes, links, session generators and flows are ordered by name, so that the order in
/// the lab file has no effect.
///
/// # Errors
/// If the plan has other traffic, unsupported links, or a session without a path.
pub fn engine(plan: &Plan) -> Result<Box<dyn Engine>> {
    packets::refuse_wall_clock(plan)?;
    let refuse = |why: &str| Err(Error::Sessions { why: why.to_owned() });
    if !all_controlled(plan) {
        return refuse("some of the lab's traffic is not rate-controlled");
    }
    let Some(control) = plan.control.clone() else {
        return refuse("the lab has no `[control]`");
    };
    let Canonical { plan, specs, links, flows } = Canonical::new(plan);
    let setup = Setup { plan, flows: specs, flow_ids: flows, link_ids: links, control };
    setup.control.protocol.run(setup)
}
