//! Messages between agents that store all flows.
//!
//! ```text
//! message  = kind (1) body            numbers are LEB128: 7 bits a byte, lowest first
//! Notices  : at  first  notice*       at: lab time, ns; first: sequence number of the first notice
//! Digest   : next count digest (8)    next: sequence number of the next notice
//! Ask      : next                     the first missing sequence number
//! Snapshot : next part parts notice*  all flows as they were before the notice `next`
//! notice   = flags (1) number [from to hash (4)] [most]
//! flags    : 0-1: 0 ended, 1 rate, 2 started; 4: windowed; 8: `most` follows
//! ```

use base::{AgentId, Bandwidth, IfaceId, Time};
use sharing::{FlowName, Notice};

use crate::Result;
use crate::wire::{Reader, Writer};

const NOTICES: u8 = 1;
const DIGEST: u8 = 2;
const ASK: u8 = 3;
const SNAPSHOT: u8 = 4;

const ENDED: u8 = 0;
const RATE: u8 = 1;
const STARTED: u8 = 2;
const KIND: u8 = 3;
const WINDOWED: u8 = 4;
const LIMITED: u8 = 8;

pub(super) const MAX_PARTS: u64 = 4096;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    Notices { at: Time, first: u64, notices: Vec<Notice> },
    Digest { next: u64, count: u64, digest: u64 },
    Ask { next: u64 },
    Snapshot { next: u64, part: u64, parts: u64, flows: Vec<Notice> },
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Notices { at, first, notices } => {
                out.byte(NOTICES);
                out.number(at.as_nanos());
                out.number(*first);
                for notice in notices {
                    put(&mut out, notice);
                }
            }
            Self::Digest { next, count, digest } => {
                out.byte(DIGEST);
                out.number(*next);
                out.number(*count);
                out.fixed(&digest.to_le_bytes());
            }
            Self::Ask { next } => {
                out.byte(ASK);
                out.number(*next);
            }
            Self::Snapshot { next, part, parts, flows } => {
                out.byte(SNAPSHOT);
                for number in [*next, *part, *parts] {
                    out.number(number);
                }
                for flow in flows {
                    put(&mut out, flow);
                }
            }
        }
        out.finish()
    }

    pub(super) fn decode(from: AgentId, bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::new(from, bytes);
        let message = match bytes.byte()? {
            NOTICES => Self::Notices {
                at: Time::from_nanos(bytes.number()?),
                first: bytes.number()?,
                notices: get_all(&mut bytes)?,
            },
            DIGEST => Self::Digest {
                next: bytes.number()?,
                count: bytes.number()?,
                digest: u64::from_le_bytes(bytes.fixed()?),
            },
            ASK => Self::Ask { next: bytes.number()? },
            SNAPSHOT => {
                let (next, part, parts) = (bytes.number()?, bytes.number()?, bytes.number()?);
                if part >= parts || parts > MAX_PARTS {
                    return Err(bytes.malformed("invalid part of a snapshot"));
                }
                Self::Snapshot { next, part, parts, flows: get_all(&mut bytes)? }
            }
            _ => return Err(bytes.malformed("unknown message kind")),
        };
        bytes.end()?;
        Ok(message)
    }
}

fn put(out: &mut Writer, notice: &Notice) {
    let limit = |most: &Option<Bandwidth>| if most.is_some() { LIMITED } else { 0 };
    let most = match notice {
        Notice::Started { flow, from, to, hash, windowed, most } => {
            out.byte(STARTED | limit(most) | if *windowed { WINDOWED } else { 0 });
            for number in [flow.number, from.0, to.0] {
                out.number(u64::from(number));
            }
            out.fixed(&hash.to_le_bytes());
            most
        }
        Notice::Rate { flow, most } => {
            out.byte(RATE | limit(most));
            out.number(u64::from(flow.number));
            most
        }
        Notice::Ended { flow } => {
            out.byte(ENDED);
            out.number(u64::from(flow.number));
            &None
        }
    };
    if let Some(most) = most {
        out.number(most.bits_per_sec());
    }
}

fn get_all(bytes: &mut Reader<'_>) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    while !bytes.is_empty() {
        notices.push(get(bytes)?);
    }
    Ok(notices)
}

fn get(bytes: &mut Reader<'_>) -> Result<Notice> {
    let flags = bytes.byte()?;
    let flow = FlowName { sender: u32::from(bytes.from().0), number: bytes.small()? };
    let most = |bytes: &mut Reader<'_>| -> Result<Option<Bandwidth>> {
        let limited = flags & LIMITED != 0;
        limited.then(|| bytes.number().map(Bandwidth::from_bits_per_sec)).transpose()
    };
    Ok(match flags & KIND {
        ENDED => Notice::Ended { flow },
        RATE => Notice::Rate { flow, most: most(bytes)? },
        STARTED => Notice::Started {
            flow,
            from: IfaceId(bytes.small()?),
            to: IfaceId(bytes.small()?),
            hash: u32::from_le_bytes(bytes.fixed()?),
            windowed: flags & WINDOWED != 0,
            most: most(bytes)?,
        },
        _ => return Err(bytes.malformed("unknown notice kind")),
    })
}
