//! Address prefixes, and which bundle a packet belongs to.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use wire::Address;

/// An address prefix, such as `10.2.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Neither an address nor an address, a slash and a length.
    #[error("`{0}` is no address prefix")]
    Form(String),
    /// The length is more than the address has bits.
    #[error("`{0}` has more bits than its address")]
    Length(String),
    /// Bits behind the length are set.
    #[error("`{text}` has bits behind its length; the prefix is `{prefix}`")]
    HostBits {
        /// What was read.
        text: String,
        /// What was meant.
        prefix: Prefix,
    },
}

impl Prefix {
    /// The address; bits behind the length are 0.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The prefix of at most `length` bits that it lies in.
    pub(crate) fn shortened(&self, length: u8) -> Self {
        let length = self.length.min(length);
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Self { address, length }
    }

    /// Whether it is one of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// Bits that count of an address in the data path's form.
    fn mask(&self) -> Address {
        let bits = if self.is_ipv6() { self.length } else { self.length + 96 };
        match bits {
            0 => 0,
            bits => Address::MAX << (128 - u32::from(bits)),
        }
    }

    fn bits(&self) -> Address {
        match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: Address) -> bool {
        address & self.mask() == self.bits()
    }

    /// Whether they have addresses in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_ipv6() == other.is_ipv6()
            && (self.contains(other.bits()) || other.contains(self.bits()))
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let form = || PrefixError::Form(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => {
                let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
                (address, Some(length.parse::<u8>().ok().filter(|_| digits).ok_or_else(form)?))
            }
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let all = if address.is_ipv6() { 128 } else { 32 };
        let length = length.unwrap_or(all);
        if length > all {
            return Err(PrefixError::Length(text.to_owned()));
        }
        let prefix = Self { address, length };
        let bits = prefix.bits() & prefix.mask();
        if bits != prefix.bits() {
            let address = match address {
                IpAddr::V4(_) => IpAddr::V4((bits as u32).into()),
                IpAddr::V6(_) => IpAddr::V6(bits.into()),
            };
            let prefix = Self { address, length };
            return Err(PrefixError::HostBits { text: text.to_owned(), prefix });
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Entries by the bits of their prefix.
type Level<T> = BTreeMap<Address, Vec<Entry<T>>>;

/// Bundles by the addresses of their packets: the longest prefix of the destination decides, then
/// the first bundle that the source is of.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// By mask, the longest first.
    levels: Vec<(Address, Level<T>)>,
}

#[derive(Debug)]
struct Entry<T> {
    /// Any source if empty.
    sources: Vec<Prefix>,
    value: T,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { levels: Vec::new() }
    }
}

impl<T: Copy> Table<T> {
    pub(crate) fn insert(&mut self, to: &Prefix, sources: &[Prefix], value: T) {
        let mask = to.mask();
        let place = match self.levels.binary_search_by(|(other, _)| mask.cmp(other)) {
            Ok(place) => place,
            Err(place) => {
                self.levels.insert(place, (mask, BTreeMap::new()));
                place
            }
        };
        let entry = Entry { sources: sources.to_vec(), value };
        self.levels[place].1.entry(to.bits()).or_default().push(entry);
    }

    /// Whose the packet from `source` to `destination` is.
    pub(crate) fn find(&self, source: Address, destination: Address) -> Option<T> {
        self.levels.iter().find_map(|(mask, entries)| {
            let entries = entries.get(&(destination & mask))?;
            let is_of = |entry: &&Entry<T>| {
                entry.sources.is_empty() || entry.sources.iter().any(|it| it.contains(source))
            };
            entries.iter().find(is_of).map(|entry| entry.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn bits(text: &str) -> Address {
        prefix(text).bits()
    }

    #[test]
    fn texts() {
        assert_eq!(prefix("10.2.0.0/16").to_string(), "10.2.0.0/16");
        assert_eq!(prefix("10.2.0.7").to_string(), "10.2.0.7/32");
        assert_eq!(prefix("2001:db8::/32").to_string(), "2001:db8::/32");
        assert!(prefix("0.0.0.0/0").contains(bits("8.8.8.8")));
        assert!(!prefix("0.0.0.0/0").contains(bits("2001:db8::1")));
        for wrong in ["", "10.2.0.0/", "10.2.0.0/+8", "10.2/16", "10.0.0.0/33", "::/129"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        let error = "10.2.3.4/16".parse::<Prefix>().unwrap_err();
        assert!(error.to_string().ends_with("the prefix is `10.2.0.0/16`"), "{error}");
    }

    #[test]
    fn the_longest_destination_decides_then_the_source() {
        let mut table = Table::default();
        table.insert(&prefix("10.0.0.0/8"), &[], 1);
        table.insert(&prefix("10.2.0.0/16"), &[prefix("192.0.2.0/24")], 2);
        table.insert(&prefix("10.2.0.0/16"), &[prefix("198.51.100.0/24")], 3);
        table.insert(&prefix("2001:db8::/32"), &[], 4);
        let find = |from: &str, to: &str| table.find(bits(from), bits(to));
        assert_eq!(find("192.0.2.1", "10.2.9.9"), Some(2));
        assert_eq!(find("198.51.100.1", "10.2.9.9"), Some(3));
        assert_eq!(find("203.0.113.1", "10.2.9.9"), Some(1));
        assert_eq!(find("203.0.113.1", "11.2.9.9"), None);
        assert_eq!(find("2001:db8:1::", "2001:db8:2::"), Some(4));
        assert!(prefix("10.0.0.0/8").overlaps(&prefix("10.2.0.0/16")));
        assert!(!prefix("10.3.0.0/16").overlaps(&prefix("10.2.0.0/16")));
    }
}
