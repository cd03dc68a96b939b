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
    /// In `bytes`; what is wrong with them, [`Tlvs::iter`] says.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// All bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The value of the first of type `kind`.
    pub fn first(self, kind: u16) -> Option<&'a [u8]> {
        let mut whole = self.iter().map_while(Result::ok);
        whole.find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// One after the other. It ends behind the first that does not fit.
    pub fn iter(self) -> impl Iterator<Item = Result<Tlv<'a>>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let mut fields = Fields::new(rest);
            let tlv = tlv(&mut fields);
            rest = if tlv.is_ok() { fields.rest() } else { &[] };
            Some(tlv)
        })
    }
}

pub(super) fn tlv<'a>(fields: &mut Fields<'a>) -> Result<Tlv<'a>> {
    let kind = fields.u16("type")?;
    let length = fields.u16("length")?;
    Ok(Tlv { kind, value: fields.take("value", length.into())? })
}
