//! The last bytes that were handed out, so that a retransmission that says otherwise is noticed.

/// A ring of the bytes before the next one in order.
#[derive(Debug)]
pub(super) struct History {
    ring: Vec<u8>,
    /// The most that it grows to.
    limit: usize,
    /// Bytes from this position on are in the ring, as far as it reaches back.
    from: u64,
}

impl History {
    pub(super) const fn new(limit: usize) -> Self {
        Self { ring: Vec::new(), limit, from: 0 }
    }

    /// Bytes of memory that it holds.
    pub(super) const fn memory(&self) -> usize {
        self.ring.capacity()
    }

    /// Nothing before `position` is known.
    pub(super) fn begin(&mut self, position: u64) {
        self.from = position;
    }

    /// `bytes` begin at `position`, right behind those of the last call.
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

    /// Makes the ring larger. Where bytes lie changes with its size, so those in it are forgotten;
    /// that happens a few times in the life of a stream.
    #[cold]
    fn grow(&mut self, position: u64, need: usize) {
        let size = (self.ring.len() * 4).max(need.next_power_of_two()).max(64);
        self.ring.resize(size.min(self.limit), 0);
        self.from = position;
    }

    /// How many of `bytes`, which begin at `position` and end before `next`, are known to differ
    /// from what was handed out.
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
    fn remembers_the_last_bytes_and_no_others() {
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
