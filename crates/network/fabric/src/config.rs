//! Properties of links and networks. Every field has a value; `Default` is a wire without limits.

use std::sync::Arc;

use base::{Bandwidth, Bytes, NodeId, Ratio, Span};
pub use queue::{Discipline, QueueConfig, QueueLimit};
pub use sharing::{Sharing, Window};

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Rate of the transmitter.
    pub rate: Rate,
    /// Propagation delay of every packet.
    pub delay: Span,
    /// Random part of the propagation delay.
    pub jitter: Option<Jitter>,
    /// Loss between the queue and the far end.
    pub loss: Loss,
    /// Reordering of packets.
    pub reorder: Option<Reorder>,
    /// Probability that a packet arrives twice.
    pub duplicate: Ratio,
    /// Probability of a bit error in a packet.
    pub corrupt: Ratio,
    /// The queue in front of the transmitter.
    pub queue: QueueConfig,
    /// The maximum layer-3 packet; a router answers larger ones with an ICMP error, a
    /// host's link drops them.
    pub mtu: Bytes,
}

/// The rate of a link's transmitter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rate {
    /// Unlimited: packets pass at once and are never queued.
    #[default]
    Unlimited,
    /// A constant rate of wire bytes.
    Constant(Bandwidth),
    /// Delivery opportunities, repeated forever.
    Trace(Arc<Trace>),
}

impl Rate {
    /// Bytes that a packet adds to layer 3 on a link of this rate, in a network that adds
    /// `network`. Opportunities of a trace count the four bytes of TUN framing, whatever the
    /// network adds: those of Mahimahi carry a packet of 1,500 B in 1,504 B.
    pub const fn overhead(&self, network: u32) -> u32 {
        match self {
            Self::Trace(_) => 4,
            Self::Unlimited | Self::Constant(_) => network,
        }
    }
}

/// A packet-delivery trace in Mahimahi's format: each entry is a time at which
/// [`Trace::OPPORTUNITY`] bytes may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times since the start of the period, not decreasing. At least one.
    pub opportunities: Vec<Span>,
    /// The trace repeats after this time: at least the last opportunity, and positive.
    pub period: Span,
}

impl Trace {
    /// Bytes of one delivery opportunity (Mahimahi's packet size).
    pub const OPPORTUNITY: Bytes = Bytes::new(1504);

    /// The long-term mean rate.
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
    /// Correlation of consecutive samples (0 = independent), as in a
    /// first-order autoregressive process.
    pub correlation: Ratio,
    /// A packet that would overtake waits for the packet in front.
    pub keep_order: bool,
}

/// The distribution of jitter.
#[derive(Clone, Debug, PartialEq)]
pub enum JitterShape {
    /// Mean 0, standard deviation `deviation`.
    Normal {
        /// Standard deviation of the delay.
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
    /// Every packet passes the link.
    #[default]
    None,
    /// Each packet is lost independently.
    Bernoulli(Ratio),
    /// Gilbert and Elliott's two-state chain, with one step per packet.
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
    /// The long-term mean loss rate, 0 to 1.
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

/// Packets that are delayed so that later ones arrive first.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is delayed.
    pub probability: Ratio,
    /// Additional delay of these packets.
    pub by: Span,
}

/// How a node handles packets that are not addressed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Has its own kernel namespace: every arriving packet is passed to the driver.
    Edge,
    /// Forwards by destination and decrements the TTL.
    Router,
    /// Forwards by destination without changing packets.
    Switch,
    /// A router whose packets are passed to the driver, as an edge's, and continue when
    /// the driver forwards them.
    Middlebox,
}

impl NodeKind {
    /// Whether it forwards at layer 3.
    pub const fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::Middlebox)
    }

    /// Whether every arriving packet is passed to the driver.
    pub const fn hands_out(self) -> bool {
        matches!(self, Self::Edge | Self::Middlebox)
    }
}

/// The network that a fabric is built from. Indices are identifiers: node *i* is `NodeId(i)`, link
/// *l* is `LinkId(l)`, and link *l*'s ends are interfaces `2l` (first) and `2l + 1` (second).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Kinds of the nodes.
    pub nodes: Vec<NodeKind>,
    /// The links, in the order of their identifiers.
    pub links: Vec<Wire>,
    /// Bytes on the wire per packet, beyond layer 3 (38 for Ethernet: preamble and start 8, header
    /// 14, check sequence 4, inter-frame gap 12).
    pub overhead: Bytes,
    /// Emulate whole paths by this model; `None`: every queue of every hop.
    pub collapsed: Option<Collapsed>,
}

/// The collapsed model: each flow crosses one link with its path's delay and loss, whose rate
/// is its present share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collapsed {
    /// The sharing rule.
    pub sharing: Sharing,
    /// The window limit of a TCP flow.
    pub window: Window,
    /// Whether segments without payload share the links of their direction; otherwise the capacity
    /// of the return direction counts as sufficient.
    pub acks: bool,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Name of the link, which is the key of its random streams.
    pub name: String,
    /// First and second end.
    pub ends: [NodeId; 2],
    /// Properties from the first end to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Whether it is up at the start.
    pub up: bool,
}
