//! The protocol's message.

/// What goes round once a round for each session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What the session got in the last round, bit/s.
    pub(super) last: u64,
    /// The least that is offered so far, bit/s; at first the demand.
    pub(super) rate: u64,
    /// The round in which it was sent.
    pub(super) round: u32,
    /// The link that limited the session in the last round: its place in the path.
    pub(super) last_limit: u8,
    /// Likewise for `rate`.
    pub(super) limit: u8,
    /// Whether the last round's packet was counted by all links of the path.
    pub(super) known: bool,
    /// Whether it was sent when its round began. Those of sessions that join amid a round ask for
    /// a rate but are not counted: they could miss the end of the round.
    pub(super) counts: bool,
}

impl Packet {
    /// In place of a link: the session's own demand limits it.
    pub(super) const SOURCE: u8 = u8::MAX;
}
