//! Storage of packets while they are queued: queues contain slots, which are cheap to move.

/// The position of a packet in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Packets at reusable positions. A slot has one owner, which releases it once.
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
    /// Stores a packet.
    ///
    /// # Panics
    /// If 2³² packets are stored already.
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

    /// Removes a packet; its slot may be reused.
    ///
    /// # Panics
    /// If the slot is not in use.
    pub fn take(&mut self, slot: Slot) -> T {
        let packet = self.packets[slot.0 as usize].take().expect(HELD);
        self.free.push(slot.0);
        packet
    }

    /// The packet of a slot.
    ///
    /// # Panics
    /// If the slot is not in use.
    pub fn get(&self, slot: Slot) -> &T {
        self.packets[slot.0 as usize].as_ref().expect(HELD)
    }

    /// Mutable access to the packet of a slot.
    ///
    /// # Panics
    /// If the slot is not in use.
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
    /// Stores a copy of a packet.
    ///
    /// # Panics
    /// If the slot is not in use.
    pub fn copy(&mut self, slot: Slot) -> Slot {
        let packet = self.get(slot).clone();
        self.put(packet)
    }
}
