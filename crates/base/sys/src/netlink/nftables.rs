//! nftables chains (`linux/netfilter/nf_tables.h`), which `iptables-nft` creates too.

use super::{Socket, message};
use crate::{Error, Result};

const SUBSYSTEM: u16 = 10;
const GET_CHAIN: u16 = 4;
/// `struct nfgenmsg`: any family, version 0.
const FIXED: [u8; 4] = [0; 4];
const TABLE: u16 = 1;
const NAME: u16 = 3;
const HOOK: u16 = 4;
const USE: u16 = 6;
const TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const POST_ROUTING: u32 = 4;

impl Socket {
    /// Chains of this network namespace with rules that translate source addresses of forwarded
    /// packets: table and name. Empty if the kernel has no nftables.
    ///
    /// # Errors
    /// Without `CAP_NET_ADMIN`.
    pub fn source_translation() -> Result<Vec<(String, String)>> {
        let absent =
            |error: &Error| matches!(error.errno(), Some(libc::EPROTONOSUPPORT | libc::EINVAL));
        let mut chains = Vec::new();
        let dumped = Self::of(libc::NETLINK_NETFILTER).and_then(|mut socket| {
            socket.dump(SUBSYSTEM << 8 | GET_CHAIN, &FIXED, |answer| chains.extend(chain(answer)))
        });
        match dumped {
            Err(error) if !absent(&error) => Err(error),
            _ => Ok(chains),
        }
    }
}

fn chain(answer: &message::Answer<'_>) -> Option<(String, String)> {
    let attribute = |kind| answer.attribute(FIXED.len(), kind);
    let text = |kind| {
        let bytes = attribute(kind)?;
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let hook = message::attribute_in(attribute(HOOK)?, HOOK_NUMBER).and_then(number)?;
    let translates = text(TYPE)? == "nat" && hook == POST_ROUTING;
    let has_rules = attribute(USE).and_then(number)? > 0;
    (translates && has_rules).then_some((text(TABLE)?, text(NAME)?))
}
