//! Counters of one direction of a link.

/// Why a packet went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management signalled congestion.
    Early,
    /// It exceeded a policer's bucket.
    Policed,
    /// The loss process took it.
    Loss,
    /// The link was, or went, out of service.
    LinkDown,
    /// It is larger than the link's MTU and its sender is no router.
    TooBig,
    /// No route leads to its destination.
    NoRoute,
    /// Its TTL ran out.
    TtlExceeded,
}

impl DropReason {
    /// All of them, in the order of [`LinkStats::drops`].
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::Early,
        Self::Policed,
        Self::Loss,
        Self::LinkDown,
        Self::TooBig,
        Self::NoRoute,
        Self::TtlExceeded,
    ];

    /// Position in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for records and captures.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue full",
            Self::Early => "aqm",
            Self::Policed => "policed",
            Self::Loss => "loss",
            Self::LinkDown => "link down",
            Self::TooBig => "too big",
            Self::NoRoute => "no route",
            Self::TtlExceeded => "ttl exceeded",
        }
    }
}

/// Counters of one direction of a link since the fabric was built. Packets are MTU-sized segments,
/// bytes are wire bytes (overhead included).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that reached the link.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that were transmitted (later loss included).
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that reached the far end, duplicates included.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets by the reason for which they went no further, as in [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Packets that a queue marked with congestion experienced.
    pub marked: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back for others to overtake.
    pub reordered: u64,
}

impl LinkStats {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// The queue's length now, and its largest since the peak was last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLevel {
    /// Packets that wait.
    pub packets: u64,
    /// Wire bytes that wait.
    pub bytes: u64,
    /// Most packets that waited.
    pub peak_packets: u64,
    /// Most wire bytes that waited.
    pub peak_bytes: u64,
}
