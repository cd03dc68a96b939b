//! Identifiers are indices into the plan's tables; a newtype each so that they cannot be mixed.

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table that this identifier names.
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

/// Which way a packet crosses a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end that the lab file names to the second.
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

    /// The other way.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// The word of the lab file: `up` or `down`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
