//! Compact encoding of connections at rest.
//!
//! Most fields of an idle end are zeros, bounds that were never reached, duplicates of other
//! fields, and times and sequence numbers close to each other. Therefore a number begins with four
//! bits for its encoding:
//!
//! | bits | number |
//! |---|---|
//! | 0, 1, 2 | the largest, zero, one |
//! | 3, 4 | one of the last 32; four more bits say which |
//! | 5 to 12 | itself, in one to eight bytes |
//! | 13 to 15 | its difference from the last large one, in one to three bytes |

use base::{Span, Time};

/// Numbers from here on may be encoded as a difference.
const LARGE: u64 = 1 << 28;
/// Numbers from here on are stored for references.
const NOTABLE: u64 = 1 << 4;
/// The numbers of the shortest encoding.
const COMMON: [u64; 3] = [u64::MAX, 0, 1];
const RECENT: u8 = 3;
const PLAIN: u8 = 5;
const DIFFERENCE: u8 = 13;

/// The recent numbers, which both sides store.
#[derive(Clone, Debug, Default)]
struct Memory {
    recent: [u64; 32],
    next: usize,
    large: u64,
}

impl Memory {
    /// Stores a number that was encoded in full.
    fn note(&mut self, value: u64) {
        if value >= NOTABLE {
            self.recent[self.next % 32] = value;
            self.next += 1;
        }
        self.touch(value);
    }

    fn touch(&mut self, value: u64) {
        if value >= LARGE {
            self.large = value;
        }
    }
}

/// Length of a number in bytes, at least one.
const fn bytes_of(value: u64) -> u8 {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(8) as u8
}

/// Encodes numbers; [`Unpacker`] returns the same numbers in the same order.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
    /// Whether the last byte has only four bits so far.
    half: bool,
    memory: Memory,
}

impl Packer {
    /// Adds a number.
    pub fn number(&mut self, value: u64) {
        if let Some(common) = COMMON.iter().position(|common| *common == value) {
            self.put(common as u8);
            return;
        }
        let recent = self.memory.recent.iter().position(|recent| *recent == value);
        if let Some(index) = recent {
            self.put(RECENT + (index / 16) as u8);
            self.put((index % 16) as u8);
            self.memory.touch(value);
            return;
        }
        let difference = value.wrapping_sub(self.memory.large).cast_signed();
        let zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        let (long, short) = (bytes_of(value), bytes_of(zigzag));
        let (kind, length, coded) = if short < long && short <= 3 {
            (DIFFERENCE, short, zigzag)
        } else {
            (PLAIN, long, value)
        };
        self.put(kind + length - 1);
        for byte in &coded.to_le_bytes()[..usize::from(length)] {
            self.put(byte & 15);
            self.put(byte >> 4);
        }
        self.memory.note(value);
    }

    fn put(&mut self, four: u8) {
        match self.bytes.last_mut() {
            Some(last) if self.half => *last |= four << 4,
            _ => self.bytes.push(four),
        }
        self.half = !self.half;
    }

    /// The encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the content and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.half = false;
        self.memory = Memory::default();
    }
}

/// Decodes the numbers of a [`Packer`].
#[derive(Clone, Debug)]
pub struct Unpacker<'a> {
    bytes: &'a [u8],
    /// Number of decoded groups of four bits.
    taken: usize,
    memory: Memory,
}

impl<'a> Unpacker<'a> {
    /// Decodes a packer's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, taken: 0, memory: Memory::default() }
    }

    /// The next number; arbitrary after the last one.
    pub fn number(&mut self) -> u64 {
        let kind = self.take();
        if let Some(common) = COMMON.get(usize::from(kind)) {
            return *common;
        }
        if kind < PLAIN {
            let index = (kind - RECENT) * 16 + self.take();
            let value = self.memory.recent[usize::from(index)];
            self.memory.touch(value);
            return value;
        }
        let value = if kind >= DIFFERENCE {
            let zigzag = self.long(kind - DIFFERENCE);
            let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            self.memory.large.wrapping_add(difference)
        } else {
            self.long(kind - PLAIN)
        };
        self.memory.note(value);
        value
    }

    /// A number of `more` + 1 bytes.
    fn long(&mut self, more: u8) -> u64 {
        (0..=u32::from(more)).fold(0, |value, index| {
            let byte = self.take() | self.take() << 4;
            value | u64::from(byte) << (8 * index)
        })
    }

    fn take(&mut self) -> u8 {
        let byte = self.bytes.get(self.taken / 2).copied().unwrap_or(0);
        self.taken += 1;
        if self.taken % 2 == 1 { byte & 15 } else { byte >> 4 }
    }
}

/// Types that a [`Packer`] can encode.
pub(super) trait Packed: Sized {
    fn pack(&self, to: &mut Packer);
    fn unpack(from: &mut Unpacker<'_>) -> Self;
}

/// Packs the fields of a type one after another. Similar fields (times, sequence
/// numbers) should be neighbours.
macro_rules! packed {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::tcp::packed::Packed for $type {
            fn pack(&self, to: &mut $crate::tcp::packed::Packer) {
                $($crate::tcp::packed::Packed::pack(&self.$field, to);)*
            }

            fn unpack(from: &mut $crate::tcp::packed::Unpacker<'_>) -> Self {
                $(let $field = $crate::tcp::packed::Packed::unpack(from);)*
                Self { $($field),* }
            }
        }
    };
}
pub(super) use packed;

/// Packs a fieldless enum; all variants must be listed.
macro_rules! packed_choice {
    ($type:ty { $($variant:ident),* $(,)? }) => {
        impl $crate::tcp::packed::Packed for $type {
            fn pack(&self, to: &mut $crate::tcp::packed::Packer) {
                let at = [$(Self::$variant),*].iter().position(|choice| choice == self);
                to.number(at.map_or(u64::MAX, |at| at as u64));
            }

            fn unpack(from: &mut $crate::tcp::packed::Unpacker<'_>) -> Self {
                let choices = [$(Self::$variant),*];
                choices[from.number() as usize % choices.len()]
            }
        }
    };
}
pub(super) use packed_choice;

/// Packs a smaller integer; its maximum means "none" here too.
macro_rules! packed_number {
    ($($type:ty),*) => {$(
        impl Packed for $type {
            fn pack(&self, to: &mut Packer) {
                to.number(if *self == Self::MAX { u64::MAX } else { u64::from(*self) });
            }

            fn unpack(from: &mut Unpacker<'_>) -> Self {
                from.number() as Self
            }
        }
    )*};
}

packed_number!(u8, u16, u32, u64);

impl Packed for bool {
    fn pack(&self, to: &mut Packer) {
        to.number(u64::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.number() == 1
    }
}

impl Packed for f64 {
    fn pack(&self, to: &mut Packer) {
        // Round numbers end in zeros.
        to.number(self.to_bits().swap_bytes());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_bits(from.number().swap_bytes())
    }
}

impl Packed for Time {
    fn pack(&self, to: &mut Packer) {
        to.number(self.as_nanos());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_nanos(from.number())
    }
}

impl Packed for Span {
    fn pack(&self, to: &mut Packer) {
        to.number(self.as_nanos());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self::from_nanos(from.number())
    }
}

impl<T: Packed> Packed for Option<T> {
    fn pack(&self, to: &mut Packer) {
        self.is_some().pack(to);
        if let Some(value) = self {
            value.pack(to);
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        bool::unpack(from).then(|| T::unpack(from))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(
            prop_oneof![any::<u64>(), 0..300u64, Just(u64::MAX), (1u64 << 32)..(1 << 32) + 99],
            0..40,
        )) {
            let mut packer = Packer::default();
            for number in &numbers {
                packer.number(*number);
            }
            let mut unpacker = Unpacker::new(packer.bytes());
            for number in numbers {
                prop_assert_eq!(unpacker.number(), number);
            }
        }

        #[test]
        fn fractions_come_back(fraction in any::<f64>()) {
            let mut packer = Packer::default();
            fraction.pack(&mut packer);
            let back = f64::unpack(&mut Unpacker::new(packer.bytes()));
            prop_assert_eq!(back.to_bits(), fraction.to_bits());
        }
    }

    #[test]
    fn packs_common_values_in_one_byte() {
        let mut packer = Packer::default();
        for number in [0, u64::MAX, 1] {
            packer.number(number);
        }
        Time::MAX.pack(&mut packer);
        u32::MAX.pack(&mut packer);
        false.pack(&mut packer);
        assert_eq!(packer.bytes().len(), 3);
        packer.number(1 << 32);
        packer.number((1 << 32) + 30);
        packer.number(1 << 32);
        assert_eq!(packer.bytes().len(), 3 + 8);
    }
}
