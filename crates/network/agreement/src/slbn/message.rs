//! Messages of agents: claims on links, and offers of links.
//!
//! ```text
//! message   version (1 byte), number, known, knows, highest, missing, entry …
//! entry     link · 4 + kind, as the difference to the entry before (zigzag), then
//! none    nothing: no flow of the sender crosses the link
//! claim   used, top if used > 0, limited, all
//! asking  as claim, of an agent without an offer of the link
//!   offer   level, limited, slack (1 byte)
//! ```
//! Numbers are LEB128 unless a size is given.

use base::AgentId;

use crate::Result;
use crate::wire::{Reader, Writer};

const VERSION: u8 = 3;

const MAX_MESSAGE_BYTES: usize = 1 << 16;

const NONE: u64 = 0;
const CLAIM: u64 = 1;
const OFFER: u64 = 2;
const ASKING: u64 = 3;

/// The use of a link by an agent's flows: SLBN's three integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// Rate of flows that another link limits, bit/s (BF).
    pub(super) used: u64,
    /// The highest of these rates, bit/s.
    pub(super) top: u64,
    /// Flows that the link limits (NR).
    pub(super) limited: u32,
    /// All flows across it (N).
    pub(super) all: u32,
    /// Whether the agent has no offer: an earlier empty claim may have been lost.
    pub(super) asks: bool,
}

impl Claim {
    /// Levels from here on do not limit these flows, even if their rates rise slightly.
    pub(super) fn relevant_level(self) -> u64 {
        self.top.saturating_add(self.top >> 4)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// Rate of each flow that the link limits, bit/s.
    pub(super) level: u64,
    /// The number of these flows.
    pub(super) limited: u32,
    /// Binary logarithm of the error, in bit/s, that an agent's claim may have.
    pub(super) slack: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Claim(u32, Claim),
    Offer(u32, Offer),
}

impl Entry {
    pub(super) fn link(&self) -> u32 {
        let (Self::Claim(link, _) | Self::Offer(link, _)) = self;
        *link
    }

    fn write(&self, before: u32, out: &mut Writer) {
        let kind = match self {
            Self::Claim(_, claim) if claim.all == 0 => NONE,
            Self::Claim(_, claim) if claim.asks => ASKING,
            Self::Claim(..) => CLAIM,
            Self::Offer(..) => OFFER,
        };
        let step = i64::from(self.link()) - i64::from(before);
        out.number(((step << 1 ^ step >> 63) as u64) << 2 | kind);
        match self {
            Self::Claim(_, Claim { all: 0, .. }) => {}
            Self::Claim(_, claim) => {
                out.number(claim.used);
                if claim.used > 0 {
                    out.number(claim.top);
                }
                out.number(u64::from(claim.limited));
                out.number(u64::from(claim.all));
            }
            Self::Offer(_, offer) => {
                out.number(offer.level);
                out.number(u64::from(offer.limited));
                out.byte(offer.slack);
            }
        }
    }

    fn read(before: u32, reader: &mut Reader<'_>) -> Result<Self> {
        let head = reader.number()?;
        let step = (head >> 3) as i64 ^ -((head >> 2 & 1) as i64);
        let link = i64::from(before).checked_add(step).and_then(|link| u32::try_from(link).ok());
        let link = link.ok_or_else(|| reader.malformed("link number out of range"))?;
        Ok(match head & 3 {
            NONE => Self::Claim(link, Claim::default()),
            OFFER => {
                let (level, limited, slack) = (reader.number()?, reader.small()?, reader.byte()?);
                Self::Offer(link, Offer { level, limited, slack: slack.min(63) })
            }
            kind => {
                let asks = kind == ASKING;
                let used = reader.number()?;
                let top = if used > 0 { reader.number()? } else { 0 };
                let (limited, all) = (reader.small()?, reader.small()?);
                if all == 0 || limited > all || top > used {
                    return Err(reader.malformed("contradictory claim"));
                }
                Self::Claim(link, Claim { used, top, limited, all, asks })
            }
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// From 1 for messages with entries; 0 for a mere acknowledgement.
    pub(super) number: u64,
    /// The sender's resets of state received from the recipient.
    pub(super) known: u64,
    /// The recipient's number of resets, as received by the sender.
    pub(super) knows: u64,
    /// The highest message number received from the recipient.
    pub(super) highest: u64,
    /// Bit *i*: number `highest` − 1 − *i* is missing.
    pub(super) missing: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) head: Head,
    pub(super) entries: Vec<Entry>,
}

impl Message {
    pub(super) fn encode(head: Head, entries: &[Entry]) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION);
        let Head { number, known, knows, highest, missing } = head;
        for field in [number, known, knows, highest, missing] {
            out.number(field);
        }
        let mut before = 0;
        for entry in entries {
            entry.write(before, &mut out);
            before = entry.link();
        }
        out.finish()
    }

    pub(super) fn decode(from: AgentId, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(from, bytes);
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(reader.malformed("message above 64 KiB"));
        }
        if reader.byte()? != VERSION {
            return Err(reader.malformed("unsupported version"));
        }
        let mut fields = [0; 5];
        for field in &mut fields {
            *field = reader.number()?;
        }
        let [number, known, knows, highest, missing] = fields;
        let mut entries: Vec<Entry> = Vec::new();
        let mut before = 0;
        while !reader.is_empty() {
            let entry = Entry::read(before, &mut reader)?;
            before = entry.link();
            entries.push(entry);
        }
        Ok(Self { head: Head { number, known, knows, highest, missing }, entries })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn entries() -> impl Strategy<Value = Entry> {
        let rate = || prop_oneof![Just(0_u64), 0_u64..1 << 40, any::<u64>()];
        let claim = (any::<u32>(), rate(), any::<u64>(), any::<[u32; 2]>(), any::<bool>())
            .prop_map(|(link, used, top, [a, b], asks)| {
                let all = a.max(b);
                let claim = Claim { used, top: top.min(used), limited: a.min(b), all, asks };
                Entry::Claim(link, if all == 0 { Claim::default() } else { claim })
            });
        let offer = (any::<u32>(), rate(), any::<u32>(), 0_u8..64);
        let offer = offer.prop_map(|(link, level, limited, slack)| {
            Entry::Offer(link, Offer { level, limited, slack })
        });
        let none = any::<u32>().prop_map(|link| Entry::Claim(link, Claim::default()));
        prop_oneof![claim, offer, none]
    }

    pub(in super::super) fn heads() -> impl Strategy<Value = Head> {
        let small = || prop_oneof![Just(0), 0_u64..5, any::<u64>()];
        (small(), small(), small(), small(), any::<u64>()).prop_map(
            |(number, known, knows, highest, missing)| Head {
                number,
                known,
                knows,
                highest,
                missing,
            },
        )
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            head in heads(),
            entries in prop::collection::vec(entries(), 0..20),
        ) {
            let read = Message::decode(AgentId(0), &Message::encode(head, &entries));
            prop_assert_eq!(read, Ok(Message { head, entries }));
        }

        #[test]
        fn decodes_or_rejects_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode(AgentId(1), &bytes);
            let _ = Message::decode(AgentId(1), &[&[VERSION, 1, 0, 0, 0, 0], &bytes[..]].concat());
        }
    }
}
