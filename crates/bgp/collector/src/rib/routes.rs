//! Routes of one peering in one table: from prefix numbers to announcements.

/// A sparse array from prefix numbers to announcements, in pages of 256.
///
/// Prefixes that were announced together have neighbouring numbers, so a page has few distinct
/// announcements. It stores one octet per route, if that is smaller.
#[derive(Debug, Default)]
pub(super) struct Routes {
    groups: Vec<Option<Box<Group>>>,
    count: usize,
}

const PAGE: usize = 256;
const PAGES: usize = 64;

#[derive(Debug)]
struct Group {
    pages: [Page; PAGES],
    count: usize,
}

/// Empty, or a header word (kind, and routes in use) followed by the content of its kind:
///
/// - sparse: pairs of slot and announcement;
/// - coded: 64 words of four codes each (0 for none), and the announcements of the codes from 1 on;
/// - plain: 256 announcements.
#[derive(Debug, Default)]
struct Page(Vec<u32>);

const SPARSE: u32 = 0;
const CODED: u32 = 1;
const PLAIN: u32 = 2;
const NONE: u32 = u32::MAX;
/// Maximum number of pairs of a sparse page.
const PAIRS: usize = 32;
/// Index of the first announcement of a coded page.
const CODES: usize = 1 + PAGE / 4;
/// Maximum number of announcements of a coded page; with more, a plain page is as small.
const CODED_MAX: usize = 190;

impl Page {
    fn kind(&self) -> u32 {
        self.0[0] & 3
    }

    fn code(&self, slot: usize) -> usize {
        (self.0[1 + slot / 4] >> (slot % 4 * 8) & 0xff) as usize
    }

    fn set_code(&mut self, slot: usize, code: usize) {
        let (word, shift) = (&mut self.0[1 + slot / 4], slot % 4 * 8);
        *word = *word & !(0xff << shift) | (code as u32) << shift;
    }

    #[inline]
    fn get(&self, slot: usize) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        match self.kind() {
            SPARSE => self.pair(slot).map(|at| self.0[at + 1]),
            CODED => match self.code(slot) {
                0 => None,
                code => Some(self.0[CODES + code - 1]),
            },
            _ => Some(self.0[1 + slot]).filter(|announcement| *announcement != NONE),
        }
    }

    fn pair(&self, slot: usize) -> Option<usize> {
        let at = self.0[1..].chunks(2).position(|pair| pair[0] == slot as u32)?;
        Some(1 + at * 2)
    }

    #[inline]
    fn set(&mut self, slot: usize, announcement: u32) -> Option<u32> {
        if self.0.is_empty() {
            self.0.reserve_exact(1 + 2 * 4);
            self.0.push(SPARSE);
        }
        let old = match self.kind() {
            SPARSE => self.set_pair(slot, announcement),
            CODED => self.set_coded(slot, announcement),
            _ => Some(std::mem::replace(&mut self.0[1 + slot], announcement)),
        };
        let old = old.filter(|old| *old != NONE);
        if old.is_none() {
            self.0[0] += 4;
        }
        old
    }

    fn set_pair(&mut self, slot: usize, announcement: u32) -> Option<u32> {
        if let Some(at) = self.pair(slot) {
            return Some(std::mem::replace(&mut self.0[at + 1], announcement));
        }
        if self.0.len() == 1 + PAIRS * 2 {
            self.encode();
            return self.set_coded(slot, announcement);
        }
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(self.0.len() - 1);
        }
        self.0.extend_from_slice(&[slot as u32, announcement]);
        None
    }

    /// Calls `each` with each used slot and its announcement.
    fn visit(&self, mut each: impl FnMut(usize, u32)) {
        match self.0.first().map(|header| header & 3) {
            None => {}
            Some(SPARSE) => {
                self.0[1..].chunks_exact(2).for_each(|pair| each(pair[0] as usize, pair[1]));
            }
            Some(CODED) => {
                let (codes, announcements) = self.0[1..].split_at(PAGE / 4);
                let codes = codes.iter().flat_map(|word| word.to_le_bytes());
                for (slot, code) in codes.enumerate().filter(|(_, code)| *code != 0) {
                    each(slot, announcements[usize::from(code) - 1]);
                }
            }
            Some(_) => {
                let all = self.0[1..].iter().enumerate();
                all.filter(|(_, value)| **value != NONE)
                    .for_each(|(slot, value)| each(slot, *value));
            }
        }
    }

    /// Encodes the page without unused announcements: as coded, or as plain if it has too
    /// many different ones.
    fn encode(&mut self) {
        let mut values = Vec::with_capacity(PAGE);
        self.visit(|slot, value| values.push((slot, value)));
        let mut distinct: Vec<u32> = values.iter().map(|(_, value)| *value).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let used = self.0[0] & !3;
        if distinct.len() > CODED_MAX - CODED_MAX / 5 {
            let mut page = vec![NONE; 1 + PAGE];
            page[0] = used | PLAIN;
            for (slot, value) in values {
                page[1 + slot] = value;
            }
            self.0 = page;
            return;
        }
        let mut page = Vec::with_capacity(CODES + distinct.len() + 12);
        page.push(used | CODED);
        page.resize(CODES, 0);
        page.extend_from_slice(&distinct);
        *self = Self(page);
        for (slot, value) in values {
            let code = distinct.binary_search(&value).map_or(0, |at| at + 1);
            self.set_code(slot, code);
        }
    }

    fn set_coded(&mut self, slot: usize, announcement: u32) -> Option<u32> {
        // The prefixes of an announcement are consecutive: the announcement is either the last code
        // or new in this page.
        if self.0.len() == CODES || self.0.last() != Some(&announcement) {
            if self.0.len() == CODES + CODED_MAX {
                self.encode();
                if self.kind() == PLAIN {
                    return Some(std::mem::replace(&mut self.0[1 + slot], announcement));
                }
            }
            if self.0.len() == self.0.capacity() {
                self.0.reserve_exact(12);
            }
            self.0.push(announcement);
        }
        let old = self.get(slot);
        self.set_code(slot, self.0.len() - CODES);
        old
    }

    fn clear(&mut self, slot: usize) -> Option<u32> {
        let old = self.get(slot)?;
        match self.kind() {
            SPARSE => {
                if let Some(at) = self.pair(slot) {
                    let last = self.0.len() - 2;
                    self.0.swap(at, last);
                    self.0.swap(at + 1, last + 1);
                    self.0.truncate(last);
                }
            }
            CODED => self.set_code(slot, 0),
            _ => self.0[1 + slot] = NONE,
        }
        self.0[0] -= 4;
        if self.0[0] >> 2 == 0 {
            self.0 = Vec::new();
        }
        Some(old)
    }
}

impl Routes {
    fn page(&self, number: u32) -> Option<&Page> {
        let group = self.groups.get(number as usize / (PAGE * PAGES))?.as_deref()?;
        Some(&group.pages[number as usize / PAGE % PAGES])
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<u32> {
        self.page(number)?.get(number as usize % PAGE)
    }

    /// Whether the page of prefix `number` has routes.
    pub(super) fn has_page(&self, number: u32) -> bool {
        self.page(number).is_some_and(|page| !page.0.is_empty())
    }

    /// Sets the announcement of prefix `number`; returns the previous one.
    #[inline]
    pub(super) fn set(&mut self, number: u32, announcement: u32) -> Option<u32> {
        let at = number as usize / (PAGE * PAGES);
        if at >= self.groups.len() {
            self.groups.reserve_exact(at + 1 - self.groups.len());
            self.groups.resize_with(at + 1, || None);
        }
        let group = self.groups[at].get_or_insert_with(|| {
            Box::new(Group { pages: std::array::from_fn(|_| Page::default()), count: 0 })
        });
        let page = &mut group.pages[number as usize / PAGE % PAGES];
        let old = page.set(number as usize % PAGE, announcement);
        if old.is_none() {
            group.count += 1;
            self.count += 1;
        }
        old
    }

    /// Removes prefix `number`; returns its announcement.
    pub(super) fn clear(&mut self, number: u32) -> Option<u32> {
        let place = self.groups.get_mut(number as usize / (PAGE * PAGES))?;
        let group = place.as_deref_mut()?;
        let old = group.pages[number as usize / PAGE % PAGES].clear(number as usize % PAGE)?;
        group.count -= 1;
        if group.count == 0 {
            *place = None;
        }
        self.count -= 1;
        Some(old)
    }

    pub(super) fn visit(&self, mut each: impl FnMut(u32, u32)) {
        for (at, group) in self.groups.iter().enumerate() {
            let pages = group.iter().flat_map(|group| group.pages.iter().enumerate());
            for (page, content) in pages {
                let first = (at * PAGES + page) * PAGE;
                content.visit(|slot, value| each((first + slot) as u32, value));
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn memory(&self) -> usize {
        let groups = self.groups.iter().flatten();
        let pages = groups.flat_map(|group| &group.pages);
        let words: usize = pages.map(|page| page.0.capacity()).sum();
        words * size_of::<u32>()
            + self.groups.capacity() * size_of::<Option<Box<Group>>>()
            + self.groups.iter().flatten().count() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agree_with_a_map(
            spread in prop::sample::select(vec![40_u32, 300, 1000, 100_000]),
            steps in prop::collection::vec((0_u8..5, any::<u32>(), any::<u16>()), 1..3000),
        ) {
            let mut routes = Routes::default();
            let mut model = BTreeMap::new();
            for (kind, number, announcement) in steps {
                let number = number % spread;
                if kind == 0 {
                    prop_assert_eq!(routes.clear(number), model.remove(&number));
                } else {
                    let value = u32::from(announcement) >> (kind * 3);
                    prop_assert_eq!(routes.set(number, value), model.insert(number, value));
                }
                prop_assert_eq!(routes.get(number), model.get(&number).copied());
                prop_assert_eq!(routes.len(), model.len());
            }
            let mut all = BTreeMap::new();
            routes.visit(|number, value| assert_eq!(all.insert(number, value), None));
            prop_assert_eq!(&all, &model);
            for number in model.into_keys() {
                routes.clear(number);
            }
            prop_assert_eq!(routes.len(), 0);
            routes.visit(|number, _| panic!("{number} is still there"));
        }
    }
}
