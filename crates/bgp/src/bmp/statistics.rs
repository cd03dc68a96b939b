//! Counters and gauges of a peer (RFC 7854 §4.8, RFC 8671 §6.2).

use super::tlv::tlv;
use crate::mrt::Fields;
use crate::{Afi, Family, Result, Safi};

/// What routers count, by type: name, as the registry describes it.
const NAMES: [&str; 18] = [
    "prefixes rejected by inbound policy",
    "duplicate prefix advertisements",
    "duplicate withdraws",
    "updates invalidated by CLUSTER_LIST loop",
    "updates invalidated by AS_PATH loop",
    "updates invalidated by ORIGINATOR_ID",
    "updates invalidated by AS_CONFED loop",
    "routes in Adj-RIBs-In",
    "routes in Loc-RIB",
    "routes in Adj-RIB-In of a family",
    "routes in Loc-RIB of a family",
    "updates subjected to treat-as-withdraw",
    "prefixes subjected to treat-as-withdraw",
    "duplicate update messages",
    "routes in pre-policy Adj-RIBs-Out",
    "routes in post-policy Adj-RIBs-Out",
    "routes in pre-policy Adj-RIB-Out of a family",
    "routes in post-policy Adj-RIB-Out of a family",
];

/// What a statistic says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Counts events (32 bits).
    Counter(u32),
    /// How many there are (64 bits).
    Gauge(u64),
    /// How many there are of a family.
    OfFamily(Family, u64),
    /// Of another length.
    Opaque(&'a [u8]),
}

/// One counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic<'a> {
    /// What is counted, as IANA numbers it.
    pub kind: u16,
    /// How many.
    pub value: Value<'a>,
}

impl Statistic<'_> {
    /// What is counted, in words; `None` for types that are not known here.
    pub fn name(&self) -> Option<&'static str> {
        NAMES.get(usize::from(self.kind)).copied()
    }
}

/// All of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Statistics<'a> {
    pub(super) const fn new(count: u32, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// One after the other. It ends behind the first that does not fit.
    pub fn iter(self) -> impl Iterator<Item = Result<Statistic<'a>>> + use<'a> {
        let (mut left, mut rest) = (self.count, self.bytes);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let mut fields = Fields::new(rest);
            let tlv = tlv(&mut fields);
            if tlv.is_err() {
                left = 0;
            }
            rest = fields.rest();
            Some(tlv.map(|tlv| Statistic { kind: tlv.kind, value: value(tlv.value) }))
        })
    }
}

/// The registry tells the form of each type, and the length alone tells the forms apart.
fn value(bytes: &[u8]) -> Value<'_> {
    if let Ok(counter) = bytes.try_into() {
        return Value::Counter(u32::from_be_bytes(counter));
    }
    if let Ok(gauge) = bytes.try_into() {
        return Value::Gauge(u64::from_be_bytes(gauge));
    }
    match bytes.split_first_chunk() {
        Some(([high, low, safi], gauge)) => match gauge.try_into() {
            Ok(gauge) => {
                let afi = Afi(u16::from_be_bytes([*high, *low]));
                Value::OfFamily(Family { afi, safi: Safi(*safi) }, u64::from_be_bytes(gauge))
            }
            Err(_) => Value::Opaque(bytes),
        },
        None => Value::Opaque(bytes),
    }
}
