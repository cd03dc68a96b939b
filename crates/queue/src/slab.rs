//! Where packets are while their descriptions wait: queues hold positions, which are cheap to move.

/// The position of a packet in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Packets at positions that are used again.
/// A slot has one holder, who gives it up once.
#[derive(Debug)]
pub struct Slab<T> {
    packets: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { packets: Vec::new(), free: Vec::new() }
    }
}

const HELD: &str = "a slot is given up once, by its only holder";

impl<T> Slab<T> {
    /// Holds a packet.
    ///
    /// # Panics
    /// With 2³² packets held already.
    pub fn put(&mut self, packet: T) -> Slot {
        if let Some(at) = self.free.pop() {
            self.packets[at as usize] = Some(packet);
            return Slot(at);
        }
        if self.packets.len() == self.packets.capacity() {
            // Doubling would leave up to half of a large slab unused.
            self.packets.reserve_exact((self.packets.len() / 8).max(1024));
        }
        let at = u32::try_from(self.packets.len()).expect("fewer than 2^32 packets in flight");
        self.packets.push(Some(packet));
        Slot(at)
    }

    /// Gives a packet up; its slot may be used again.
    ///
    /// # Panics
    /// With a slot that was given up.
    pub fn take(&mut self, slot: Slot) -> T {
        let packet = self.packets[slot.0 as usize].take().expect(HELD);
        self.free.push(slot.0);
        packet
    }

    /// A packet that is held.
    ///
    /// # Panics
    /// With a slot that was given up.
    pub fn get(&self, slot: Slot) -> &T {
        self.packets[slot.0 as usize].as_ref().expect(HELD)
    }

    /// A packet that is held, to change it.
    ///
    /// # Panics
    /// With a slot that was given up.
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        self.packets[slot.0 as usize].as_mut().expect(HELD)
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        let packets = self.packets.capacity() * size_of::<Option<T>>();
        (packets + self.free.capacity() * size_of::<u32>()) as u64
    }
}

impl<T: Clone> Slab<T> {
    /// Holds a second copy of a packet.
    ///
    /// # Panics
    /// With a slot that was given up.
    pub fn copy(&mut self, slot: Slot) -> Slot {
        let packet = self.get(slot).clone();
        self.put(packet)
    }
}
