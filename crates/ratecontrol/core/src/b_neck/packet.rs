//! Packets of B-Neck.

/// The link with the least share of the session's path (η).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// None: the demand is lower.
    Demand,
    /// The link with this index in the path.
    Link(u8),
}

/// Validity of the rate in a response (τ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All links so far accept it.
    Response,
    /// It is outdated: probe again.
    Update,
    /// It is final.
    Bottleneck,
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BNeckPacket {
    /// The first probe.
    Join {
        /// The least share so far, bit/s (λ).
        rate: u64,
        /// Limiting link of that share.
        limiter: Limiter,
    },
    /// A further probe.
    Probe {
        /// The least share so far, bit/s (λ).
        rate: u64,
        /// Limiting link of that share.
        limiter: Limiter,
    },
    /// The destination's answer to a probe.
    Response {
        /// Validity of the rate.
        verdict: Verdict,
        /// The rate, bit/s.
        rate: u64,
        /// Limiting link of the rate.
        limiter: Limiter,
    },
    /// The rate may change.
    Update,
    /// The rate is final.
    Bottleneck,
    /// The rate is final, for the links.
    SetBottleneck {
        /// Whether the link that limits the session has confirmed it (β).
        confirmed: bool,
    },
    /// The session has ended.
    Leave,
}
