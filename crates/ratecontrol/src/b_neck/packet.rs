//! What its packets carry.

/// Which of the session's links has the smallest share (η).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// None: the demand is less.
    Demand,
    /// The link at this place in the path.
    Link(u8),
}

/// What a response says about its rate (τ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All links so far agree.
    Response,
    /// It is out of date: probe again.
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
        /// Whose it is.
        limiter: Limiter,
    },
    /// A later one.
    Probe {
        /// The least share so far, bit/s (λ).
        rate: u64,
        /// Whose it is.
        limiter: Limiter,
    },
    /// The answer.
    Response {
        /// What it says.
        verdict: Verdict,
        /// The rate, bit/s.
        rate: u64,
        /// Whose share it is.
        limiter: Limiter,
    },
    /// The rate may change.
    Update,
    /// The rate is final.
    Bottleneck,
    /// The same, for the links.
    SetBottleneck {
        /// Whether the link that limits the session has confirmed it (β).
        confirmed: bool,
    },
    /// The end.
    Leave,
}
