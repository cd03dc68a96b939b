//! Schedulers: which subflow takes the next frame. One file each.

use std::fmt;
use std::str::FromStr;

use base::{Bandwidth, Bytes, Span, Time};

use crate::SubflowId;

mod backup;
mod blest;
mod earliest;
mod ecf;
mod min_rtt;
mod redundant;
mod round_robin;
#[cfg(test)]
mod views;
mod weighted;

pub use backup::Backup;
pub use blest::Blest;
pub use earliest::Earliest;
pub use ecf::Ecf;
pub use min_rtt::MinRtt;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use weighted::Weighted;

/// The schedulers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// The subflow on which the frame is expected to arrive first, at once or after a wait.
    #[default]
    Earliest,
    /// The smallest round-trip time among those with room.
    MinRtt,
    /// One after the other.
    RoundRobin,
    /// One after the other, in proportion to their weights.
    Weighted,
    /// Copies on all.
    Redundant,
    /// The first that works; the others only while it does not.
    Backup,
    /// Blocking estimation (Ferlin et al., IFIP Networking 2016).
    Blest,
    /// Earliest completion first (Lim et al., `CoNEXT` 2017).
    Ecf,
}

impl SchedulerKind {
    /// All, with their names.
    pub const ALL: &[(Self, &str)] = &[
        (Self::Earliest, "earliest"),
        (Self::MinRtt, "min-rtt"),
        (Self::RoundRobin, "round-robin"),
        (Self::Weighted, "weighted"),
        (Self::Redundant, "redundant"),
        (Self::Backup, "backup"),
        (Self::Blest, "blest"),
        (Self::Ecf, "ecf"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let of = Self::ALL.iter().find(|(kind, _)| *kind == self);
        of.map_or("", |(_, name)| name)
    }

    /// One of this kind that has seen nothing yet.
    pub fn build(self) -> Box<dyn Scheduler> {
        match self {
            Self::Earliest => Box::new(Earliest::default()),
            Self::MinRtt => Box::new(MinRtt),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Weighted => Box::new(Weighted::default()),
            Self::Redundant => Box::new(Redundant),
            Self::Backup => Box::new(Backup),
            Self::Blest => Box::new(Blest::default()),
            Self::Ecf => Box::new(Ecf::default()),
        }
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no scheduler of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scheduler `{0}`")]
pub struct UnknownScheduler(pub String);

impl FromStr for SchedulerKind {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        let of = Self::ALL.iter().find(|(_, known)| *known == name);
        of.map(|(kind, _)| *kind).ok_or_else(|| UnknownScheduler(name.to_owned()))
    }
}

/// What a scheduler knows of the session when it is asked.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Data not sent yet, the frame in question included; of a stream whose application goes on
    /// writing, what its send buffer holds.
    pub unsent: Bytes,
    /// The application waits for room to write: more than `unsent` is to come.
    pub more: bool,
    /// Credit that is left.
    pub credit: Bytes,
    /// The whole of the credit: from the next DSN that the peer expects to where it ends.
    pub window: Bytes,
    /// Data sent and not acknowledged by the peer's DACKs, over all subflows.
    pub outstanding: Bytes,
    /// Payload of the frame in question.
    pub frame: Bytes,
    /// The credit was used up since the last question.
    pub blocked: bool,
}

/// What a scheduler knows of one subflow. Those that are asked about are established and make
/// progress; backup subflows are among them.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// Its name.
    pub id: SubflowId,
    /// How much it takes now; zero: nothing. A frame may be larger than the room.
    pub room: Bytes,
    /// To be used only while no other subflow is there.
    pub backup: bool,
    /// Its share under the weighted scheduler, at least 1.
    pub weight: u8,
    /// Smoothed round-trip time; a guess before the first sample.
    pub srtt: Span,
    /// Its mean deviation.
    pub rtt_var: Span,
    /// The smallest round-trip time.
    pub min_rtt: Span,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Sent by TCP and not acknowledged by TCP.
    pub in_flight: Bytes,
    /// In the socket, not sent yet.
    pub notsent: Bytes,
    /// What it carries that the peer's DACKs have not acknowledged.
    pub outstanding: Bytes,
    /// Rate at which it delivers; `None` before the first sample.
    pub rate: Option<Bandwidth>,
    /// The greatest such rate of the last seconds: what it can do when nothing holds it up.
    pub peak: Option<Bandwidth>,
    /// The rate at which it delivered when it last had a queue: its bottleneck's; `None` while
    /// there has been no queue.
    pub capacity: Option<Bandwidth>,
}

/// What is to happen with the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This subflow takes it.
    Send(SubflowId),
    /// All subflows that have room take a copy.
    SendOnAll,
    /// Nobody takes it now: better wait for room, an acknowledgement or this time.
    Wait(Option<Time>),
}

/// Picks subflows. It is told everything and never asks for the time; the same questions give the
/// same answers.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Which of `subflows` takes the next frame. One without room may not be chosen.
    fn pick(&mut self, now: Time, session: &View, subflows: &[SubflowView]) -> Choice;
}

impl SubflowView {
    /// Its smoothed round-trip time, never zero.
    fn rtt(&self) -> f64 {
        self.srtt.as_secs_f64().max(1e-6)
    }

    /// Its congestion window in bytes, never zero; before it is known, that of RFC 6928.
    fn window(&self) -> f64 {
        let initial = Bytes::new(10 * 1448);
        let known = if self.cwnd.is_positive() { self.cwnd } else { initial };
        known.count() as f64
    }
}

/// Those that may be used: the backups only if there are no others.
fn usable(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> + Clone {
    let all_backup = subflows.iter().all(|subflow| subflow.backup);
    subflows.iter().filter(move |subflow| subflow.backup == all_backup)
}

/// The smallest round-trip time among those with room; of equals the older.
fn quickest_with_room(subflows: &[SubflowView]) -> Option<&SubflowView> {
    usable(subflows)
        .filter(|subflow| subflow.room.is_positive())
        .min_by_key(|subflow| (subflow.srtt, subflow.id))
}

/// The smallest round-trip time of all; of equals the older.
fn quickest(subflows: &[SubflowView]) -> Option<&SubflowView> {
    usable(subflows).min_by_key(|subflow| (subflow.srtt, subflow.id))
}
