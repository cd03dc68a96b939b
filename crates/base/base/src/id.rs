//! Identifiers: indices into the plan's tables, with separate types so that they cannot
//! be mixed up.

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u32);

        impl $name {
            /// Index in the table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The identifier of the entry at `index`.
            ///
            /// # Panics
            /// If `index` exceeds `u32::MAX`, which no plan that fits in memory reaches.
            pub const fn at(index: usize) -> Self {
                assert!(index <= u32::MAX as usize);
                Self(index as u32)
            }
        }
    )+};
}

id! {
    /// A host, router or switch.
    NodeId,
    /// A bidirectional link.
    LinkId,
    /// One end of a link: the interface that a node has on it.
    IfaceId,
    /// A built-in flow.
    FlowId,
    /// A real program.
    ProgramId,
    /// A mirror session on a link.
    MirrorId,
}

/// An agent, by its index among the agents of one lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AgentId(pub u16);

impl AgentId {
    /// The agent at `index`, which is at most `u16::MAX`.
    pub const fn at(index: usize) -> Self {
        Self(index as u16)
    }

    /// Index among the agents of the lab.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for AgentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Direction of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end in the lab file to the second.
    Up,
    /// From the second end to the first.
    Down,
}

impl Direction {
    /// Both directions, `Up` first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// 0 for `Up`, 1 for `Down`: the index of the *sending* end.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The opposite direction.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// Name in the lab file: `up` or `down`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
