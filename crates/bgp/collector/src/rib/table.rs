//! Numbered prefixes of one family, shared by the routes of all peerings.

use bgp::nlri::{Nlri, Prefixes};
use bgp::{Afi, Family, Prefix, Safi};

use super::interner::Interner;
use super::keys::{Block, Keys};

/// All prefixes of a family, either with or without path identifiers.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) family: Family,
    pub(super) add_path: bool,
    keys: Store,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Store {
    V4(Keys<5>),
    V4Path(Keys<9>),
    V6(Keys<17>),
    V6Path(Keys<21>),
    /// Path identifier if the table has them, then the key of the NLRI.
    Other(Interner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Prefix(Nlri),
    /// Path identifier, and the part of the NLRI that identifies the route.
    Other(Option<u32>, &'a [u8]),
}

fn v4(bits: u32, length: u8) -> [u8; 5] {
    let [a, b, c, d] = bits.to_be_bytes();
    [length, a, b, c, d]
}

fn v6(bits: u128, length: u8) -> [u8; 17] {
    let mut key = [length; 17];
    key[1..].copy_from_slice(&bits.to_be_bytes());
    key
}

#[inline]
fn v4_of(nlri: Nlri) -> Option<[u8; 5]> {
    match nlri.prefix.masked() {
        Prefix::V4(bits, length) => Some(v4(bits, length)),
        Prefix::V6(..) => None,
    }
}

#[inline]
fn v6_of(nlri: Nlri) -> Option<[u8; 17]> {
    match nlri.prefix.masked() {
        Prefix::V6(bits, length) => Some(v6(bits, length)),
        Prefix::V4(..) => None,
    }
}

fn with_path<const N: usize, const M: usize>(key: [u8; N], path: Option<u32>) -> [u8; M] {
    let mut long = [0; M];
    long[..N].copy_from_slice(&key);
    long[N..].copy_from_slice(&path.unwrap_or(0).to_be_bytes());
    long
}

fn prefix(key: &[u8]) -> Prefix {
    match *key {
        [length, a, b, c, d] => Prefix::V4(u32::from_be_bytes([a, b, c, d]), length),
        [length, ref bits @ ..] => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bits[..16]);
            Prefix::V6(u128::from_be_bytes(octets), length)
        }
        [] => Prefix::V4(0, 0),
    }
}

/// Prefix and path identifier of a key with a prefix of `size` octets.
fn split(key: &[u8], size: usize) -> Nlri {
    let path_id = key[size..].first_chunk().map(|id| u32::from_be_bytes(*id));
    Nlri { path_id, prefix: prefix(&key[..size]) }
}

macro_rules! each {
    ($store:expr, $keys:ident => $call:expr) => {
        match $store {
            Store::V4($keys) => $call,
            Store::V4Path($keys) => $call,
            Store::V6($keys) => $call,
            Store::V6Path($keys) => $call,
            Store::Other($keys) => $call,
        }
    };
}

impl Table {
    pub(super) fn new(family: Family, add_path: bool) -> Self {
        let keys = match (family.afi, family.safi) {
            (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST) if add_path => Store::V4Path(Keys::new()),
            (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST) => Store::V4(Keys::new()),
            (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST) if add_path => Store::V6Path(Keys::new()),
            (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST) => Store::V6(Keys::new()),
            _ => Store::Other(Interner::new()),
        };
        Self { family, add_path, keys, scratch: Vec::new() }
    }

    /// The number of a prefix; `hint` is tried first.
    #[inline]
    pub(super) fn find(&self, nlri: &Nlri, hint: u32) -> Option<u32> {
        match &self.keys {
            Store::V4(keys) => keys.find(&v4_of(*nlri)?, hint),
            Store::V6(keys) => keys.find(&v6_of(*nlri)?, hint),
            Store::V4Path(keys) => keys.find(&with_path(v4_of(*nlri)?, nlri.path_id), hint),
            Store::V6Path(keys) => keys.find(&with_path(v6_of(*nlri)?, nlri.path_id), hint),
            Store::Other(_) => None,
        }
    }

    /// Appends the numbers of the readable `prefixes`, and assigns new ones from `block`. `hint` is
    /// tried first; then the number after the last one.
    pub(super) fn intern(
        &mut self,
        prefixes: Prefixes<'_>,
        hint: u32,
        block: &mut Block,
        to: &mut Vec<u32>,
    ) {
        fn each<const N: usize>(
            keys: &mut Keys<N>,
            prefixes: Prefixes<'_>,
            (mut hint, block): (u32, &mut Block),
            to: &mut Vec<u32>,
            key: impl Fn(Nlri) -> Option<[u8; N]>,
        ) {
            for nlri in prefixes.map_while(|nlri| key(nlri.ok()?)) {
                let number = keys.intern(&nlri, hint, block);
                hint = number + 1;
                to.push(number);
            }
        }
        let hint = (hint, block);
        match &mut self.keys {
            Store::V4(keys) => each(keys, prefixes, hint, to, v4_of),
            Store::V6(keys) => each(keys, prefixes, hint, to, v6_of),
            Store::V4Path(keys) => {
                each(keys, prefixes, hint, to, |nlri| Some(with_path(v4_of(nlri)?, nlri.path_id)));
            }
            Store::V6Path(keys) => {
                each(keys, prefixes, hint, to, |nlri| Some(with_path(v6_of(nlri)?, nlri.path_id)));
            }
            Store::Other(_) => {}
        }
    }

    /// The number of an opaque route, if it has one.
    pub(super) fn find_other(&mut self, path_id: Option<u32>, nlri: &[u8]) -> Option<u32> {
        self.fill(path_id, nlri);
        let Store::Other(keys) = &self.keys else { return None };
        keys.find(&self.scratch)
    }

    pub(super) fn find_key(&self, path_id: Option<u32>, key: &[u8]) -> Option<u32> {
        let Store::Other(keys) = &self.keys else { return None };
        let id = path_id.map(u32::to_be_bytes);
        let id = id.as_ref().map_or(&[][..], |id| id);
        keys.find(&[id, key].concat())
    }

    /// The number of an opaque route, and whether its key holds all of `nlri`.
    pub(super) fn intern_other(&mut self, id: Option<u32>, nlri: &[u8]) -> Option<(u32, bool)> {
        let whole = self.fill(id, nlri);
        let Store::Other(keys) = &mut self.keys else { return None };
        Some((keys.intern(&self.scratch).0, whole))
    }

    fn fill(&mut self, path_id: Option<u32>, nlri: &[u8]) -> bool {
        self.scratch.clear();
        if self.add_path {
            self.scratch.extend_from_slice(&path_id.unwrap_or(0).to_be_bytes());
        }
        distinguish(self.family, nlri, &mut self.scratch)
    }

    /// The key of `number`, which must be in use.
    pub(super) fn key(&self, number: u32) -> Option<Key<'_>> {
        Some(match &self.keys {
            Store::V4(keys) => Key::Prefix(split(keys.get(number)?, 5)),
            Store::V4Path(keys) => Key::Prefix(split(keys.get(number)?, 5)),
            Store::V6(keys) => Key::Prefix(split(keys.get(number)?, 17)),
            Store::V6Path(keys) => Key::Prefix(split(keys.get(number)?, 17)),
            Store::Other(keys) if keys.holds(number) => self.other(keys.get(number)),
            Store::Other(_) => return None,
        })
    }

    fn other<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        match bytes.split_first_chunk() {
            Some((id, rest)) if self.add_path => Key::Other(Some(u32::from_be_bytes(*id)), rest),
            _ => Key::Other(None, bytes),
        }
    }

    pub(super) fn end(&self) -> u32 {
        each!(&self.keys, keys => keys.end())
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (u32, Key<'_>)> + '_> {
        fn prefixes<const N: usize>(
            keys: &Keys<N>,
            size: usize,
        ) -> Box<dyn Iterator<Item = (u32, Key<'_>)> + '_> {
            Box::new(keys.iter().map(move |(at, key)| (at, Key::Prefix(split(key, size)))))
        }
        match &self.keys {
            Store::V4(keys) => prefixes(keys, 5),
            Store::V4Path(keys) => prefixes(keys, 5),
            Store::V6(keys) => prefixes(keys, 17),
            Store::V6Path(keys) => prefixes(keys, 17),
            Store::Other(keys) => {
                Box::new(keys.iter().map(|(number, bytes)| (number, self.other(bytes))))
            }
        }
    }

    pub(super) const fn has_prefixes(&self) -> bool {
        !matches!(self.keys, Store::Other(_))
    }

    #[inline]
    pub(super) fn hold(&mut self, number: u32) {
        each!(&mut self.keys, keys => keys.hold(number));
    }

    /// Removes one route from `number`; returns whether it was the last.
    #[inline]
    pub(super) fn release(&mut self, number: u32) -> bool {
        each!(&mut self.keys, keys => keys.release(number))
    }

    /// Frees the remaining numbers of a peering's block.
    pub(super) fn give_back(&mut self, block: &mut Block) {
        match &mut self.keys {
            Store::V4(keys) => keys.give_back(block),
            Store::V4Path(keys) => keys.give_back(block),
            Store::V6(keys) => keys.give_back(block),
            Store::V6Path(keys) => keys.give_back(block),
            Store::Other(_) => {}
        }
    }

    /// Frees `number` if no route has it.
    pub(super) fn remove_unused(&mut self, number: u32) {
        each!(&mut self.keys, keys => keys.remove_unused(number));
    }

    pub(super) const fn len(&self) -> usize {
        each!(&self.keys, keys => keys.len())
    }

    pub(super) fn memory(&self) -> usize {
        each!(&self.keys, keys => keys.memory()) + self.scratch.capacity()
    }
}

/// Appends the part of an NLRI that identifies the route: without labels (RFC 8277 §2.4), and for
/// EVPN without segments, gateways and labels (RFC 7432 §7, RFC 9136 §3). Returns whether it is
/// the whole NLRI.
fn distinguish(family: Family, nlri: &[u8], to: &mut Vec<u8>) -> bool {
    match family.safi {
        Safi::LABELLED | Safi::MPLS_VPN | Safi::MCAST_MPLS_VPN => {
            let [bits, rest @ ..] = nlri else { return true };
            let mut labels = 0;
            let mut stack = rest.chunks_exact(3);
            for label in &mut stack {
                labels += 1;
                // Bottom-of-stack bit, or the label of a withdrawal (RFC 8277 §2.4).
                if label[2] & 1 != 0 || matches!(label, [0x80 | 0, 0, 0]) {
                    break;
                }
            }
            to.push(bits.saturating_sub(24 * labels));
            to.extend_from_slice(&rest[3 * usize::from(labels)..]);
            labels == 0
        }
        Safi::EVPN => match *nlri {
            // Distinguisher, segment, tag; then a label.
            [kind @ 1, _, ref route @ ..] if route.len() >= 22 => {
                to.push(kind);
                to.extend_from_slice(&route[..22]);
                false
            }
            // Distinguisher, segment, tag, lengths and addresses, labels.
            [kind @ 2, _, ref route @ ..] if route.len() >= 30 => {
                let end = 30 + usize::from(route[29]).div_ceil(8);
                to.push(kind);
                to.extend_from_slice(&route[..8]);
                to.extend_from_slice(&route[18..end.min(route.len())]);
                false
            }
            // Distinguisher, segment, tag, length and prefix, gateway, label.
            [kind @ 5, _, ref route @ ..] if matches!(route.len(), 34 | 58) => {
                to.push(kind);
                to.extend_from_slice(&route[..8]);
                to.extend_from_slice(&route[18..if route.len() == 34 { 27 } else { 39 }]);
                false
            }
            _ => {
                to.extend_from_slice(nlri);
                true
            }
        },
        _ => {
            to.extend_from_slice(nlri);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(safi: Safi, nlri: &[u8]) -> (Vec<u8>, bool) {
        let mut key = Vec::new();
        let whole = distinguish(Family { afi: Afi::IPV4, safi }, nlri, &mut key);
        (key, whole)
    }

    #[test]
    fn ignores_labels_in_keys() {
        let one = [48, 0, 1, 1, 10, 1, 2];
        let gone = [48, 0x80, 0, 0, 10, 1, 2];
        let two = [72, 0, 1, 0, 0, 2, 1, 10, 1, 2];
        let expected = (vec![24, 10, 1, 2], false);
        assert_eq!(key(Safi::LABELLED, &one), expected);
        assert_eq!(key(Safi::LABELLED, &gone), expected);
        assert_eq!(key(Safi::LABELLED, &two), expected);
        assert_ne!(key(Safi::LABELLED, &[48, 0, 1, 1, 10, 1, 3]), expected);
    }

    #[test]
    fn ignores_segments_in_evpn_keys() {
        let mut route = vec![2, 33];
        route.extend(1..=8);
        route.extend([9; 10]);
        route.extend([0, 0, 0, 1, 48, 1, 2, 3, 4, 5, 6, 0, 0, 1, 1]);
        let mut other = route.clone();
        other[12] = 77;
        other[34] = 5;
        assert_eq!(key(Safi::EVPN, &route), key(Safi::EVPN, &other));
        other[27] = 9;
        assert_ne!(key(Safi::EVPN, &route), key(Safi::EVPN, &other));
        let opaque = [9, 1, 7];
        assert_eq!(key(Safi::EVPN, &opaque), (opaque.to_vec(), true));
    }

    #[test]
    fn frees_unused_prefixes() {
        let families = [
            (Family::IPV4_UNICAST, Prefix::V4(0x0a01_0000, 16)),
            (Family::IPV6_UNICAST, Prefix::V6(0x2a << 120, 32)),
        ];
        for (family, prefix) in families {
            for path_id in [None, Some(7)] {
                let mut table = Table::new(family, path_id.is_some());
                let nlri = Nlri { path_id, prefix };
                let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
                bgp::nlri::encode(&nlri, &mut bytes);
                let prefixes = Prefixes::new(&bytes, family.afi, path_id.is_some());
                table.intern(prefixes, 0, &mut Block::default(), &mut numbers);
                let number = numbers[0];
                table.hold(number);
                assert_eq!(table.key(number), Some(Key::Prefix(nlri)));
                assert_eq!(table.find(&nlri, 9), Some(number));
                assert_eq!(table.iter().count(), 1);
                assert!(table.release(number));
                table.remove_unused(number);
                assert_eq!((table.len(), table.find(&nlri, number)), (0, None));
            }
        }
    }
}
