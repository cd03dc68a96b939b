//! Reading as bgpdump reads: whatever is not there is zero, and reading goes on.

/// Octets that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Octets<'a>(pub &'a [u8]);

impl<'a> Octets<'a> {
    /// Whether none is left.
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next `count`, or as many as there are.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Octets<'a> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        Octets(taken)
    }

    /// The next `N`, with zeros for what is not there.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        if let Some((array, rest)) = self.0.split_first_chunk() {
            self.0 = rest;
            return *array;
        }
        let mut array = [0; N];
        array[..self.0.len()].copy_from_slice(self.0);
        self.0 = &[];
        array
    }

    #[inline]
    pub(super) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    #[inline]
    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    #[inline]
    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// An AS number of two or four octets.
    #[inline]
    pub(super) fn asn(&mut self, width: usize) -> u32 {
        if width == 4 { self.u32() } else { u32::from(self.u16()) }
    }
}
