//! Schedulers: selection of the subflow for the next frame.
//!
//! Each scheduler uses this module's view of the subflows, and this module chooses one by its name.

use std::fmt;
use std::str::FromStr;

use base::{Bandwidth, Bytes, Span, Time};

use crate::SubflowId;

mod blest;
mod earliest;
mod ecf;
mod simple;
#[cfg(test)]
mod views;

use blest::Blest;
use earliest::Earliest;
use ecf::Ecf;
use simple::{Backup, MinRtt, Redundant, RoundRobin, Weighted};

pub(crate) use earliest::MAX_PAUSE;

macro_rules! schedulers {
    ($($(#[$meta:meta])* $kind:ident $name:literal $new:expr,)+) => {
        /// The available schedulers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum SchedulerKind {
            $($(#[$meta])* $kind,)+
        }

        impl SchedulerKind {
            /// All schedulers with their names.
            pub const ALL: &[(Self, &str)] = &[$((Self::$kind, $name),)+];

            /// The names of all schedulers.
            pub const NAMES: &[&str] = &[$($name,)+];

            /// The name in configuration files and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// A new scheduler of this kind.
            pub fn build(self) -> Box<dyn Scheduler> {
                match self { $(Self::$kind => Box::new($new),)+ }
            }
        }
    };
}

schedulers! {
    /// The subflow on which the frame is expected to arrive first, immediately or after a wait.
    #[default]
    Earliest "earliest" Earliest::default(),
    /// The subflow with the smallest round-trip time and room.
    MinRtt "min-rtt" MinRtt,
    /// Subflows in turn.
    RoundRobin "round-robin" RoundRobin::default(),
    /// Subflows in proportion to their weights.
    Weighted "weighted" Weighted::default(),
    /// Copies on all subflows.
    Redundant "redundant" Redundant,
    /// The oldest working subflow only.
    Backup "backup" Backup,
    /// Blocking estimation (Ferlin et al., IFIP Networking 2016).
    Blest "blest" Blest::default(),
    /// Earliest completion first (Lim et al., `CoNEXT` 2017).
    Ecf "ecf" Ecf::default(),
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Unknown scheduler name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler `{0}`")]
pub struct UnknownScheduler(pub String);

impl FromStr for SchedulerKind {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        let of = Self::ALL.iter().find(|(_, known)| *known == name);
        of.map(|(kind, _)| *kind).ok_or_else(|| UnknownScheduler(name.to_owned()))
    }
}

/// The state of the session for a scheduling decision.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Unsent data, including the frame to be scheduled; while the application keeps writing, the
    /// content of the send buffer.
    pub unsent: Bytes,
    /// The application waits for room to write, so more than `unsent` will follow.
    pub more: bool,
    /// Bytes that the credit still allows to send.
    pub credit: Bytes,
    /// Total credit: from the next DSN that the peer expects up to the end of the credit.
    pub window: Bytes,
    /// Data sent and not acknowledged by DACKs of the peer, over all subflows.
    pub outstanding: Bytes,
    /// Payload of the frame to be scheduled.
    pub frame: Bytes,
    /// The credit was exhausted since the last decision.
    pub blocked: bool,
}

/// State of one subflow for a scheduling decision. It is established and makes progress. Backup
/// subflows are included.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// The subflow's identifier.
    pub id: SubflowId,
    /// Bytes that it accepts now; a frame may exceed a positive room.
    pub room: Bytes,
    /// Whether it carries data only while no other subflow works.
    pub backup: bool,
    /// Weight for the weighted scheduler, at least 1.
    pub weight: u8,
    /// Smoothed round-trip time; an estimate before the first sample.
    pub srtt: Span,
    /// Mean deviation of the round-trip time.
    pub rtt_var: Span,
    /// Minimum round-trip time.
    pub min_rtt: Span,
    /// Congestion window in bytes.
    pub cwnd: Bytes,
    /// Bytes sent and not acknowledged by TCP.
    pub in_flight: Bytes,
    /// Unsent bytes in the socket.
    pub notsent: Bytes,
    /// Bytes on this subflow that DACKs of the peer have not acknowledged.
    pub outstanding: Bytes,
    /// Delivery rate; `None` before the first sample.
    pub rate: Option<Bandwidth>,
    /// Maximum delivery rate of the last 2.5 to 5 s, during which the sender may have limited it.
    pub peak: Option<Bandwidth>,
    /// Delivery rate of its bottleneck, measured while it last had a queue; `None` before that.
    pub capacity: Option<Bandwidth>,
}

/// Scheduling decision for the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send it on this subflow.
    Send(SubflowId),
    /// Send copies on all subflows with room.
    SendOnAll,
    /// Send it on no subflow now: wait for room, an acknowledgement or this time.
    Wait(Option<Time>),
}

/// Selects subflows. All inputs are parameters, including the time: equal inputs
/// give equal choices.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Selects one of `subflows` for the next frame. It must have room.
    fn pick(&mut self, now: Time, session: &View, subflows: &[SubflowView]) -> Choice;
}

impl SubflowView {
    /// Smoothed round-trip time, never zero.
    fn rtt(&self) -> f64 {
        self.srtt.as_secs_f64().max(1e-6)
    }

    /// Congestion window in bytes, never zero; the initial window of RFC 6928 before it is known.
    fn window(&self) -> f64 {
        let initial = Bytes::new(10 * 1448);
        let known = if self.cwnd.is_positive() { self.cwnd } else { initial };
        known.count() as f64
    }
}

/// Usable subflows: backups only if there are no others.
fn usable(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> + Clone {
    let all_backup = subflows.iter().all(|subflow| subflow.backup);
    subflows.iter().filter(move |subflow| subflow.backup == all_backup)
}

/// The subflow with the smallest round-trip time and room; the older one of equals.
fn min_rtt_with_room(subflows: &[SubflowView]) -> Option<&SubflowView> {
    usable(subflows)
        .filter(|subflow| subflow.room.is_positive())
        .min_by_key(|subflow| (subflow.srtt, subflow.id))
}

/// The subflow with the smallest round-trip time; the older one of equals.
fn min_rtt(subflows: &[SubflowView]) -> Option<&SubflowView> {
    usable(subflows).min_by_key(|subflow| (subflow.srtt, subflow.id))
}
