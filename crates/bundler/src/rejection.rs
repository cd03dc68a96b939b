//! Why bytes that claim to come from the other box were refused, and how often.

/// Why a message or an encapsulated packet was refused. Nothing else came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The bytes end too early.
    #[error("ends within the {field} at byte {at}")]
    Truncated {
        /// The field that is cut short.
        field: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// Bytes follow the end.
    #[error("{0} bytes follow the end")]
    TrailingBytes(usize),
    /// Something else was sent to this port.
    #[error("begins with {0:#06x}, which no message does")]
    Foreign(u16),
    /// Another version of the protocol.
    #[error("is of version {0}, which is unknown")]
    UnknownVersion(u8),
    /// No such type of message.
    #[error("is of type {0}, which is unknown")]
    UnknownType(u8),
    /// A field has a value that it must not have.
    #[error("{value} is no {field}, at byte {at}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// Where it begins.
        at: usize,
        /// What it says.
        value: u8,
    },
    /// It belongs to no bundle of this box.
    #[error("belongs to bundle {0}, which is unknown")]
    UnknownBundle(u32),
    /// It was not made by who has the key, or has been changed since.
    #[error("is not authentic")]
    BadTag,
    /// This box sends such messages and does not take them.
    #[error("is a message that this box sends itself")]
    WrongDirection,
    /// It is meant for an earlier life of this box, or comes from an earlier life of the other.
    #[error("is of an earlier incarnation")]
    StaleIncarnation,
    /// It is a packet of an incarnation of the sendbox that this receivebox has not adopted.
    #[error("is of an incarnation that is not adopted")]
    NotAdopted,
    /// It answers a question of long ago.
    #[error("answers what was sent long ago")]
    StaleAnswer,
    /// It has been received before.
    #[error("has been received before")]
    Replayed,
    /// It is too old to tell whether it has been received before.
    #[error("is older than the replay window")]
    TooOld,
    /// A newer one of its kind has been received.
    #[error("has been overtaken by a newer one")]
    Overtaken,
}

/// How often what was refused, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// Cut short.
    pub truncated: u64,
    /// Malformed otherwise: bytes behind the end, foreign, or a field with a wrong value.
    pub malformed: u64,
    /// Of an unknown version or type.
    pub unknown_version: u64,
    /// Of an unknown bundle.
    pub unknown_bundle: u64,
    /// Forged or changed.
    pub bad_tag: u64,
    /// Sent back to their sender.
    pub wrong_direction: u64,
    /// Of an earlier incarnation of either box, or the answer to what was sent long ago.
    pub stale: u64,
    /// Packets of an incarnation that is not adopted.
    pub not_adopted: u64,
    /// Received before.
    pub replayed: u64,
    /// Older than the replay window, or than a newer one of the kind.
    pub late: u64,
}

impl Rejections {
    /// Counts one.
    pub fn count(&mut self, rejection: Rejection) {
        let counter = match rejection {
            Rejection::Truncated { .. } => &mut self.truncated,
            Rejection::TrailingBytes(_) | Rejection::Foreign(_) | Rejection::BadValue { .. } => {
                &mut self.malformed
            }
            Rejection::UnknownVersion(_) | Rejection::UnknownType(_) => &mut self.unknown_version,
            Rejection::UnknownBundle(_) => &mut self.unknown_bundle,
            Rejection::BadTag => &mut self.bad_tag,
            Rejection::WrongDirection => &mut self.wrong_direction,
            Rejection::StaleIncarnation | Rejection::StaleAnswer => &mut self.stale,
            Rejection::NotAdopted => &mut self.not_adopted,
            Rejection::Replayed => &mut self.replayed,
            Rejection::TooOld | Rejection::Overtaken => &mut self.late,
        };
        *counter += 1;
    }

    /// Each cause by name, for metrics and tables.
    pub const fn by_cause(&self) -> [(&'static str, u64); 10] {
        [
            ("truncated", self.truncated),
            ("malformed", self.malformed),
            ("unknown-version", self.unknown_version),
            ("unknown-bundle", self.unknown_bundle),
            ("bad-tag", self.bad_tag),
            ("wrong-direction", self.wrong_direction),
            ("stale", self.stale),
            ("not-adopted", self.not_adopted),
            ("replayed", self.replayed),
            ("late", self.late),
        ]
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.by_cause().iter().map(|(_, count)| count).sum()
    }
}
