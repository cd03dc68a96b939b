//! The last delivered bytes, to detect retransmissions with other content.

/// A ring of the last delivered bytes.
#[derive(Debug)]
pub(super) struct History {
    ring: Vec<u8>,
    limit: usize,
    /// Start of the ring's content, as far as it reaches back.
    from: u64,
}

impl History {
    pub(super) const fn new(limit: usize) -> Self {
        Self { ring: Vec::new(), limit, from: 0 }
    }

    pub(super) const fn memory(&self) -> usize {
        self.ring.capacity()
    }

    /// Clears the content before `position`.
    pub(super) fn begin(&mut self, position: u64) {
        self.from = position;
    }

    /// Appends `bytes` at `position`, the end of those of the last call.
    #[inline]
    pub(super) fn push(&mut self, position: u64, bytes: &[u8]) {
        if self.ring.len() < self.limit {
            self.grow(position, bytes.len());
        }
        let size = self.ring.len() as u64;
        if size == 0 {
            return;
        }
        let skipped = bytes.len().saturating_sub(self.ring.len());
        let bytes = &bytes[skipped..];
        let at = ((position + skipped as u64) % size) as usize;
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    /// Grows the ring. The position of bytes depends on its size, so its content is cleared, which
    /// happens a few times per stream.
    #[cold]
    fn grow(&mut self, position: u64, need: usize) {
        let size = (self.ring.len() * 4).max(need.next_power_of_two()).max(64);
        self.ring.resize(size.min(self.limit), 0);
        self.from = position;
    }

    /// Number of bytes between `position` and `next` that differ from the delivered ones.
    pub(super) fn differing(&self, position: u64, bytes: &[u8], next: u64) -> u64 {
        let size = self.ring.len() as u64;
        let known = self.from.max(next.saturating_sub(size));
        let positions = position..position + bytes.len() as u64;
        let differs = |(at, byte): &(u64, &u8)| {
            *at >= known && *at < next && self.ring[(at % size) as usize] != **byte
        };
        positions.zip(bytes).filter(differs).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retains_only_last_bytes() {
        let mut history = History::new(512);
        history.begin(1000);
        let stream: Vec<u8> = (0..2000u32).map(|at| (at % 251) as u8).collect();
        let mut at = 0;
        for length in [10, 300, 1, 7, 600, 64, 65, 300, 400] {
            history.push(1000 + at as u64, &stream[at..at + length]);
            at += length;
        }
        let next = 1000 + at as u64;
        let other: Vec<u8> = stream.iter().map(|byte| byte ^ 1).collect();
        assert_eq!(history.differing(1000, &stream[..at], next), 0);
        assert_eq!(history.differing(1000, &other[..at], next), 512);
        history.begin(next - 5);
        assert_eq!(history.differing(1000, &other[..at], next), 5);
        assert_eq!(History::new(512).differing(0, &other, 2000), 0);
    }
}
