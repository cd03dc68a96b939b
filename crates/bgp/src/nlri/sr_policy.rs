//! Segment routing policies (RFC 9830 §2.1): which candidate path of which policy the attributes
//! describe.

use std::fmt;
use std::net::IpAddr;

use super::labelled::put_bits;
use crate::Result;
use crate::cursor::Cursor;
use crate::fields::put_address;

/// A candidate path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SrPolicy {
    /// Keeps candidate paths of the same policy apart.
    pub distinguisher: u32,
    /// What the traffic is to be treated like; with the endpoint it names the policy.
    pub color: u32,
    /// Where the policy leads.
    pub endpoint: IpAddr,
}

impl SrPolicy {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let field = "length of an SR policy";
        let octets = match cursor.u8(field)? {
            96 => 4,
            192 => 16,
            bits => return Err(cursor.wrong(field, bits.into(), "not 96 or 192")),
        };
        Ok(Self {
            distinguisher: cursor.u32("distinguisher of an SR policy")?,
            color: cursor.u32("color of an SR policy")?,
            endpoint: cursor.address(octets, "endpoint of an SR policy")?,
        })
    }

    /// Appends length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_bits(out, if self.endpoint.is_ipv4() { 96 } else { 192 })?;
        out.extend(self.distinguisher.to_be_bytes());
        out.extend(self.color.to_be_bytes());
        put_address(out, self.endpoint);
        Ok(())
    }
}

/// `[1][100][10.0.0.1]/96`: distinguisher, color, endpoint.
impl fmt::Display for SrPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.endpoint.is_ipv4() { 96 } else { 192 };
        write!(f, "[{}][{}][{}]/{bits}", self.distinguisher, self.color, self.endpoint)
    }
}
