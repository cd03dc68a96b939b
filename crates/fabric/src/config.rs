//! What a link can be told to do. Every field has a value; `Default` is a wire without limits.

use std::sync::Arc;

use base::{Bandwidth, Bytes, NodeId, Ratio, Span};
pub use queue::{Discipline, QueueConfig, QueueLimit};
pub use sharing::{Sharing, Window};

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// What paces the transmitter.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Random part of the propagation delay.
    pub jitter: Option<Jitter>,
    /// Which packets are lost between the queue and the far end.
    pub loss: Loss,
    /// Packets that overtake others.
    pub reorder: Option<Reorder>,
    /// Probability that a packet arrives twice.
    pub duplicate: Ratio,
    /// Probability that one bit of a packet is flipped.
    pub corrupt: Ratio,
    /// What waits in front of the transmitter, and what happens when it is full.
    pub queue: QueueConfig,
    /// The largest layer-3 packet; larger ones are answered by a router or dropped by a host's
    /// link.
    pub mtu: Bytes,
}

/// What paces a link's transmitter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rate {
    /// Nothing: packets pass at once and never queue.
    #[default]
    Unlimited,
    /// A constant rate of wire bytes.
    Constant(Bandwidth),
    /// Delivery opportunities, repeated for ever.
    Trace(Arc<Trace>),
}

/// A packet-delivery trace in the manner of Mahimahi: each entry is a moment at which
/// [`Trace::OPPORTUNITY`] bytes may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Moments since the start of the period, not decreasing. At least one.
    pub opportunities: Vec<Span>,
    /// The trace starts again after this; at least the last opportunity, and positive.
    pub period: Span,
}

impl Trace {
    /// Bytes of one delivery opportunity (Mahimahi's packet size).
    pub const OPPORTUNITY: Bytes = Bytes::new(1504);

    /// What it lets through in the long run.
    pub fn mean(&self) -> Bandwidth {
        let bytes = Self::OPPORTUNITY.count() * self.opportunities.len() as u64;
        let rate = u128::from(bytes) * 8_000_000_000 / u128::from(self.period.as_nanos().max(1));
        Bandwidth::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The random part of a propagation delay, added to `delay`; the sum is never negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Shape of the distribution.
    pub shape: JitterShape,
    /// How much one draw resembles the one before (0 = independent), as in a first-order
    /// autoregressive process.
    pub correlation: Ratio,
}

/// The distribution that jitter is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub enum JitterShape {
    /// Mean 0, standard deviation `deviation`.
    Normal {
        /// Standard deviation.
        deviation: Span,
    },
    /// Uniform between minus and plus `spread`.
    Uniform {
        /// Half the width.
        spread: Span,
    },
    /// Non-negative Lomax (Pareto II) tail with mean `mean`.
    Pareto {
        /// Mean of the added delay.
        mean: Span,
        /// Tail index in thousandths (2500 = 2.5), above 1000.
        shape_milli: u32,
    },
    /// An empirical distribution: delays at equally spaced quantiles, not decreasing, linearly
    /// interpolated. At least two entries.
    Table(Arc<Vec<Span>>),
}

/// A loss process.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet independently.
    Bernoulli(Ratio),
    /// Gilbert and Elliott's two-state chain, stepped once a packet.
    GilbertElliott {
        /// Probability of a step from good to bad.
        p: Ratio,
        /// Probability of a step from bad to good.
        r: Ratio,
        /// Loss probability in the good state (1 − k).
        loss_good: Ratio,
        /// Loss probability in the bad state (1 − h).
        loss_bad: Ratio,
    },
}

impl Loss {
    /// The share of packets that is lost in the long run, 0 to 1.
    pub fn mean(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Bernoulli(p) => p.as_f64(),
            Self::GilbertElliott { p, r, loss_good, loss_bad } => {
                let (p, r) = (p.as_f64(), r.as_f64());
                // The chain starts in the good state, and stays there if it cannot leave.
                let bad = if p > 0.0 { p / (p + r) } else { 0.0 };
                loss_good.as_f64().mul_add(1.0 - bad, loss_bad.as_f64() * bad)
            }
        }
    }
}

/// Packets held back so that later ones overtake them.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub probability: Ratio,
    /// How much later than in order it arrives.
    pub by: Span,
}

/// How a node treats packets that are not for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Has its own kernel namespace: every packet that arrives is handed to the driver.
    Edge,
    /// Forwards by destination and lowers the TTL.
    Router,
    /// Forwards by destination and is invisible.
    Switch,
    /// A router whose packets are handed to the driver, as an edge's, and go on when the driver
    /// forwards them.
    Middlebox,
}

impl NodeKind {
    /// Whether it forwards at layer 3.
    pub const fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::Middlebox)
    }

    /// Whether every packet that arrives is handed to the driver.
    pub const fn hands_out(self) -> bool {
        matches!(self, Self::Edge | Self::Middlebox)
    }
}

/// The network that a fabric is built from. Positions are identifiers: node *i* is `NodeId(i)`,
/// link *l* is `LinkId(l)`, and link *l*'s ends are interfaces `2l` (first) and `2l + 1` (second).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Kinds of the nodes.
    pub nodes: Vec<NodeKind>,
    /// The links.
    pub links: Vec<Wire>,
    /// Bytes that every packet costs on a wire beyond layer 3 (38 for Ethernet: preamble and
    /// start 8, header 14, check sequence 4, inter-frame gap 12).
    pub overhead: Bytes,
    /// Emulate whole paths by this law; `None`: every queue of every hop.
    pub collapsed: Option<Collapsed>,
}

/// How paths are emulated that are collapsed: each flow crosses one link with its path's delay and
/// loss, whose rate is its present share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collapsed {
    /// How flows share links.
    pub sharing: Sharing,
    /// What caps a TCP flow beside the links.
    pub window: Window,
    /// Whether segments without payload take part in the sharing of the way that they go;
    /// otherwise the way back is taken as sufficient.
    pub acks: bool,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Its name, which keys its random streams.
    pub name: String,
    /// First and second end.
    pub ends: [NodeId; 2],
    /// Properties from the first end to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Whether it starts in service.
    pub up: bool,
}
