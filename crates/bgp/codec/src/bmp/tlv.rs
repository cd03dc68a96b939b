//! Type, length, value (RFC 7854 §4.4).

use crate::Result;
use crate::cursor::Cursor;

/// Types in Initiation and Peer Up (RFC 7854 §4.4, RFC 9069 §5.2.1).
pub mod information {
    /// Free-form text.
    pub const STRING: u16 = 0;
    /// System description (`sysDescr`).
    pub const SYS_DESCR: u16 = 1;
    /// System name (`sysName`).
    pub const SYS_NAME: u16 = 2;
}

/// A TLV (type, length, value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type; its meaning depends on the packet.
    pub kind: u16,
    /// Value of the TLV.
    pub value: &'a [u8],
}

/// A sequence of TLVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// TLVs in `bytes`; [`Tlvs::iter`] reports malformed ones.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// All bytes, encoded.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Value of the first TLV of type `kind`.
    pub fn first(self, kind: u16) -> Option<&'a [u8]> {
        let mut whole = self.iter().map_while(Result::ok);
        whole.find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// Iterates over the TLVs. The first malformed one is the last item.
    pub fn iter(self) -> impl Iterator<Item = Result<Tlv<'a>>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let mut fields = Cursor::new(rest, 0);
            let tlv = tlv(&mut fields);
            rest = if tlv.is_ok() { fields.rest() } else { &[] };
            Some(tlv)
        })
    }
}

fn tlv<'a>(fields: &mut Cursor<'a>) -> Result<Tlv<'a>> {
    let kind = fields.u16("type")?;
    let length = fields.u16("length")?;
    Ok(Tlv { kind, value: fields.take(length.into(), "value")? })
}
