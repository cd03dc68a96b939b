//! Announcements: the content that all prefixes of one UPDATE share.

use base::Time;

use super::column::Column;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) attributes: u32,
    /// Time of the announcement in units of [`TICK`].
    ticks: u64,
    /// Generation of the peering's routes; there are two, which alternate.
    pub(super) generation: bool,
}

/// Time resolution of announcements in nanoseconds.
const TICK: u64 = 100_000;

impl Announcement {
    pub(super) const fn new(attributes: u32, time: Time, generation: bool) -> Self {
        Self { attributes, ticks: time.as_nanos() / TICK, generation }
    }

    pub(super) const fn time(self) -> Time {
        Time::from_nanos(self.ticks * TICK)
    }

    pub(super) const fn of_generation(self, generation: bool) -> Self {
        Self { generation, ..self }
    }

    const fn pack(self, uses: u16) -> Packed {
        // 47 bits of ticks reach to the year 2415.
        let high = (self.ticks >> 32) as u16 & 0x7fff | (self.generation as u16) << 15;
        Packed { attributes: self.attributes, low: self.ticks as u32, high, uses }
    }
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    attributes: u32,
    low: u32,
    high: u16,
    uses: u16,
}

#[derive(Debug)]
pub(super) struct Announcements {
    all: Column<Packed>,
    /// The first free number. Each free entry holds the next one in `attributes`.
    free: u32,
    live: usize,
}

const NONE: u32 = u32::MAX;

impl Default for Announcements {
    fn default() -> Self {
        Self::new()
    }
}

impl Announcements {
    pub(super) const fn new() -> Self {
        Self { all: Column::new(), free: NONE, live: 0 }
    }

    /// Adds an announcement without routes; returns its number.
    pub(super) fn add(&mut self, announcement: Announcement) -> u32 {
        self.live += 1;
        let packed = announcement.pack(0);
        if self.free == NONE {
            self.all.push(packed);
            return self.all.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.all[number as usize].attributes;
        self.all[number as usize] = packed;
        number
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Announcement {
        let Packed { attributes, low, high, .. } = self.all[number as usize];
        let ticks = u64::from(high & 0x7fff) << 32 | u64::from(low);
        Announcement { attributes, ticks, generation: high >> 15 != 0 }
    }

    /// Whether `number` is in use for `announcement` and can get `routes` more routes.
    pub(super) fn may_take(&self, number: u32, announcement: Announcement, routes: usize) -> bool {
        self.all.get(number as usize).is_some_and(|packed| {
            packed.uses > 0
                && u16::try_from(usize::from(packed.uses) + routes).is_ok()
                && self.get(number) == announcement
        })
    }

    pub(super) fn hold(&mut self, number: u32, routes: u16) {
        self.all[number as usize].uses += routes;
    }

    /// Removes one route from `number`. After the last one the number is free, and the attribute
    /// set, which lost one use, is returned.
    #[inline]
    pub(super) fn release(&mut self, number: u32) -> Option<u32> {
        let packed = &mut self.all[number as usize];
        packed.uses -= 1;
        if packed.uses > 0 {
            return None;
        }
        let attributes = packed.attributes;
        self.remove(number);
        Some(attributes)
    }

    fn remove(&mut self, number: u32) {
        self.all[number as usize] = Packed { attributes: self.free, low: 0, high: 0, uses: 0 };
        self.free = number;
        self.live -= 1;
        if self.live == 0 {
            *self = Self::new();
        }
    }

    /// Frees `number` if no route has it; returns whether it did.
    pub(super) fn remove_unused(&mut self, number: u32) -> bool {
        let unused = self.all[number as usize].uses == 0;
        if unused {
            self.remove(number);
        }
        unused
    }

    pub(super) fn memory(&self) -> usize {
        self.all.memory()
    }
}
