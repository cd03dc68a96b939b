//! Reads fields as bgpdump does: missing bytes are zero.

#[derive(Clone, Copy)]
pub(super) struct Octets<'a>(pub &'a [u8]);

impl<'a> Octets<'a> {
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` octets, or all if there are fewer.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Octets<'a> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        Octets(taken)
    }

    /// The next `N` octets; missing ones are zero.
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

    #[inline]
    pub(super) fn asn(&mut self, width: usize) -> u32 {
        if width == 4 { self.u32() } else { u32::from(self.u16()) }
    }
}
