//! Address prefixes, and the bundle of a packet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use wire::Address;

/// An address prefix without bits after its length, such as `10.2.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(IpNet);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Neither an address nor an address with a valid length.
    #[error("`{0}` is not an address prefix")]
    Form(String),
    /// Bits after the length are set.
    #[error("`{text}` has bits set after the prefix length; the prefix is `{prefix}`")]
    HostBits {
        text: String,
        /// The prefix with these bits cleared.
        prefix: IpNet,
    },
}

impl Prefix {
    /// The address; bits after the length are 0.
    pub fn address(&self) -> IpAddr {
        self.0.addr()
    }

    /// Length of the prefix in bits.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// The prefix shortened to at most `length` bits.
    pub(crate) fn shortened(&self, length: u8) -> Self {
        let length = self.length().min(length);
        Self(IpNet::new_assert(self.address(), length).trunc())
    }

    /// Whether it is an IPv6 prefix.
    pub fn is_ipv6(&self) -> bool {
        matches!(self.0, IpNet::V6(_))
    }

    /// The mask of the prefix in the data path's format.
    fn mask(&self) -> Address {
        let free = self.0.max_prefix_len() - self.length();
        Address::MAX.checked_shl(free.into()).unwrap_or(0)
    }

    fn bits(&self) -> Address {
        match self.address() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    pub fn contains(&self, address: Address) -> bool {
        address & self.mask() == self.bits()
    }

    /// Whether the prefixes have common addresses.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.contains(&other.0) || other.0.contains(&self.0)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map_err(|_| PrefixError::Form(text.to_owned()))?;
        let prefix = network.trunc();
        if prefix == network {
            Ok(Self(prefix))
        } else {
            Err(PrefixError::HostBits { text: text.to_owned(), prefix })
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Entries by the bits of their prefix.
type Level<T> = BTreeMap<Address, Vec<Entry<T>>>;

/// Bundles by the addresses of their packets: the longest prefix of the destination decides, then
/// the first bundle with the source.
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

    /// The bundle of packets from `source` to `destination`.
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
    fn longest_destination_prefix_wins_then_source() {
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
