//! Connections at rest, in few bytes.
//!
//! Most of what an idle end knows are zeros, bounds that were never reached, and moments and
//! sequence numbers close to one another. Each number takes as many bytes as it needs, by itself
//! or as the difference from the last large one, whichever is shorter.

use base::{Span, Time};

/// Numbers from here on are worth a difference.
const LARGE: u64 = 1 << 28;
/// Each byte carries so many bits; its highest says that another follows.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Takes numbers, of which [`Unpacker`] gives the same back in the same order.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
    last: u64,
}

impl Packer {
    /// Adds a number.
    pub fn number(&mut self, value: u64) {
        // The largest number means "none" in many places.
        let value = value.wrapping_add(1);
        let difference = value.wrapping_sub(self.last).cast_signed();
        let zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        let mut rest = (u128::from(value) << 1).min(u128::from(zigzag) << 1 | 1);
        while rest >= u128::from(MORE) {
            self.bytes.push(rest as u8 | MORE);
            rest >>= BITS;
        }
        self.bytes.push(rest as u8);
        if value >= LARGE {
            self.last = value;
        }
    }

    /// What was added so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins anew and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }
}

/// Gives back what a [`Packer`] took.
#[derive(Clone, Debug)]
pub struct Unpacker<'a> {
    bytes: std::slice::Iter<'a, u8>,
    last: u64,
}

impl<'a> Unpacker<'a> {
    /// From a packer's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), last: 0 }
    }

    /// The next number; after the last some other.
    pub fn number(&mut self) -> u64 {
        let (mut coded, mut shift) = (0_u128, 0);
        for byte in self.bytes.by_ref() {
            coded |= u128::from(byte & !MORE) << (shift % u128::BITS);
            shift += BITS;
            if byte & MORE == 0 {
                break;
            }
        }
        let number = (coded >> 1) as u64;
        let value = if coded & 1 == 0 {
            number
        } else {
            let difference = (number >> 1) ^ (number & 1).wrapping_neg();
            self.last.wrapping_add(difference)
        };
        if value >= LARGE {
            self.last = value;
        }
        value.wrapping_sub(1)
    }
}

/// What can be put into a [`Packer`].
pub(super) trait Packed: Sized {
    fn pack(&self, to: &mut Packer);
    fn unpack(from: &mut Unpacker<'_>) -> Self;
}

/// Packs the fields of a type one after the other. Those that are like each other (moments,
/// sequence numbers) should be neighbours.
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

/// Packs an enum without fields, all of whose variants are listed.
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

/// Packs a number of fewer bits; the largest means "none" here too.
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
    fn what_is_common_is_short() {
        let mut packer = Packer::default();
        for number in [0, u64::MAX, 1, 62] {
            packer.number(number);
        }
        Time::MAX.pack(&mut packer);
        u32::MAX.pack(&mut packer);
        assert_eq!(packer.bytes().len(), 6);
        packer.number(1 << 32);
        packer.number((1 << 32) + 30);
        assert_eq!(packer.bytes().len(), 6 + 5 + 1);
    }
}
