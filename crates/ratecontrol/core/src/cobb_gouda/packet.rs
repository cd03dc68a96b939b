//! The protocol's message.

/// A packet of a session, sent once per round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Rate of the session in the last round, in bit/s.
    pub(super) last: u64,
    /// The least offer so far in bit/s; at first the demand.
    pub(super) rate: u64,
    /// The round in which it was sent.
    pub(super) round: u32,
    /// Index in the path of the link that limited the session in the last round.
    pub(super) last_limit: u8,
    /// The same for `rate`.
    pub(super) limit: u8,
    /// Whether all links of the path counted the last round's packet.
    pub(super) known: bool,
    /// Whether it was sent at the start of its round. Packets of sessions that join within a round
    /// request a rate but are not counted: they could miss the end of the round.
    pub(super) counts: bool,
}

impl Packet {
    /// Value instead of a link: the session's own demand limits it.
    pub(super) const SOURCE: u8 = u8::MAX;
}
