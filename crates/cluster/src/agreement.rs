//! What each flow may send: agreed on by all members of a lab, decided by none.
//!
//! A member's data path tells its [`Agreement`] of its own flows by [`Notice`]s and is told what
//! follows: notices of other members' flows, from which the fabric computes shares
//! ([`Output::Hear`]), or the shares themselves ([`Output::Share`]). How messages travel between
//! members is the driver's business; they may come late, twice, in another order, or not at all.

mod notices;
pub mod rehearsal;
mod seat;
pub mod slbn;

use base::{Bandwidth, Time};
use fabric::Announced;
use sharing::{FlowName, Law, Notice, Sharing};

pub use notices::Notices;
pub use seat::{Seat, Traffic};
pub use slbn::Slbn;

use crate::AgentId;

/// Who a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// All other members.
    All,
    /// One of them.
    One(AgentId),
}

/// What an agreement asks of its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send these bytes.
    Send {
        /// To whom.
        to: To,
        /// What.
        bytes: Vec<u8>,
    },
    /// Tell the fabric of another member's flow.
    Hear {
        /// What has changed.
        notice: Notice,
        /// When that member announced it, by the lab's clock.
        announced: Time,
    },
    /// Give a flow of this member its rate; `None`: its path has no limit.
    Share {
        /// The flow.
        flow: FlowName,
        /// What it gets.
        share: Option<Bandwidth>,
        /// What it may send, which shows whether it wants more than it asks for.
        allowance: Option<Bandwidth>,
    },
}

/// How members of a lab agree.
pub trait Agreement: Send {
    /// Flows of this member have started, ended or ask for another rate.
    fn announce(&mut self, now: Time, announced: &[Announced]);

    /// A message of another member has come.
    ///
    /// # Errors
    /// If it cannot be read; nothing of it has been taken in then.
    fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> crate::Result<()>;

    /// A member is gone, and its flows with it: they are heard to end.
    fn lose(&mut self, now: Time, agent: AgentId);

    /// A member that was gone is there again.
    fn regain(&mut self, now: Time, agent: AgentId);

    /// The network's links or routes have changed; `capacity` tells a link direction's capacity
    /// (`None`: no limit), by [`sharing::LinkKey`].
    fn relink(&mut self, now: Time, capacities: &[Option<Bandwidth>]);

    /// When it is to be woken.
    fn next_wake(&self) -> Option<Time>;

    /// That time has come.
    fn on_wake(&mut self, now: Time);

    /// What is to be done next.
    fn poll(&mut self) -> Option<Output>;
}

/// How `members` agree under a law, seen from `own`: nobody has a flow yet. For SLBN, `homes` tells
/// who keeps each link ([`slbn::homes`]), and `seed` keys what is drawn.
pub fn build(
    law: Law,
    own: AgentId,
    members: usize,
    homes: Vec<AgentId>,
    seed: u64,
) -> Box<dyn Agreement> {
    match law.sharing {
        Sharing::Slbn => Box::new(Slbn::new(own, members, homes, law.window, seed)),
        Sharing::RttMaxMin | Sharing::MaxMin | Sharing::None => {
            Box::new(Notices::new(own, members))
        }
    }
}
