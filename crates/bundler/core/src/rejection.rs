//! Reasons and counters for rejected messages and packets.

/// Reason why a message or an encapsulated packet was rejected. It has no other effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The message is truncated.
    #[error("ends within the {field} at byte {at}")]
    Truncated {
        /// The truncated field.
        field: &'static str,
        /// Offset of the field.
        at: usize,
    },
    /// Bytes follow the end.
    #[error("{0} bytes follow the end")]
    TrailingBytes(usize),
    /// Not a message of this protocol; contains the magic number.
    #[error("begins with {0:#06x}, which is not the magic number")]
    Foreign(u16),
    /// Another version of the protocol.
    #[error("has the unknown version {0}")]
    UnknownVersion(u8),
    /// Unknown message type.
    #[error("has the unknown type {0}")]
    UnknownType(u8),
    /// A field has an invalid value.
    #[error("has the invalid {field} {value} at byte {at}")]
    BadValue {
        /// Name of the field.
        field: &'static str,
        /// Offset of the field.
        at: usize,
        /// The rejected value of the field.
        value: u8,
    },
    /// It belongs to no bundle of this gateway.
    #[error("belongs to the unknown bundle {0}")]
    UnknownBundle(u32),
    /// The message was created without the key, or modified.
    #[error("is not authentic")]
    BadTag,
    /// This gateway sends this type of message and does not receive it.
    #[error("has a type that this gateway only sends")]
    WrongDirection,
    /// The message is for an earlier incarnation of this gateway, or from an earlier one
    /// of the other.
    #[error("is from an earlier incarnation")]
    StaleIncarnation,
    /// The packet is from an incarnation of the sendbox that this receivebox has not adopted.
    #[error("is from an incarnation that is not adopted")]
    NotAdopted,
    /// The message answers an outdated heartbeat.
    #[error("answers an outdated heartbeat")]
    StaleAnswer,
    /// The message is a duplicate.
    #[error("is a duplicate")]
    Replayed,
    /// The message is below the replay window.
    #[error("is older than the replay window")]
    TooOld,
    /// A newer message of the same type was received.
    #[error("is older than a received message of the same type")]
    Overtaken,
}

/// Number of rejected messages and packets by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// Messages shorter than their type requires.
    pub truncated: u64,
    /// Otherwise malformed messages: trailing bytes, another protocol, or an invalid field.
    pub malformed: u64,
    /// Messages of an unknown version or type.
    pub unknown_version: u64,
    /// Messages of an unknown bundle.
    pub unknown_bundle: u64,
    /// Forged or modified messages.
    pub bad_tag: u64,
    /// Messages returned to their sender.
    pub wrong_direction: u64,
    /// Messages of an earlier incarnation of either gateway, or answers to outdated messages.
    pub stale: u64,
    /// Packets of an incarnation that is not adopted.
    pub not_adopted: u64,
    /// Number of duplicates.
    pub replayed: u64,
    /// Messages below the replay window, or older than a newer one of the type.
    pub late: u64,
}

impl Rejections {
    /// Counts a rejected message.
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

    /// The number for each reason, with its name in metrics and tables.
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

    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        self.by_cause().iter().map(|(_, count)| count).sum()
    }
}
