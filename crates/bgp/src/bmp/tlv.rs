//! Type, length, value (RFC 7854 §4.4).

use crate::Result;
use crate::mrt::Fields;

/// Types in Initiation and Peer Up (RFC 7854 §4.4, RFC 9069 §5.2.1).
pub mod information {
    /// Free text.
    pub const STRING: u16 = 0;
    /// What the router is (`sysDescr`).
    pub const SYS_DESCR: u16 = 1;
    /// The router's name (`sysName`).
    pub const SYS_NAME: u16 = 2;
    /// Name of the VRF or table.
    pub const VRF_NAME: u16 = 3;
}

/// One of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// What it is: by the packet that it is in.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
}

/// Some in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// In `bytes`; what is wrong with them, iterating says.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// All bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The value of the first of type `kind`.
    pub fn first(self, kind: u16) -> Option<&'a [u8]> {
        let mut whole = self.map_while(Result::ok);
        whole.find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut fields = Fields::new(self.0);
        let tlv = tlv(&mut fields);
        self.0 = if tlv.is_ok() { fields.rest() } else { &[] };
        Some(tlv)
    }
}

pub(super) fn tlv<'a>(fields: &mut Fields<'a>) -> Result<Tlv<'a>> {
    let kind = fields.u16("type")?;
    let length = fields.u16("length")?;
    Ok(Tlv { kind, value: fields.take("value", length.into())? })
}
