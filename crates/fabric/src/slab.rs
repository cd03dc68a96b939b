//! Where packets are while they cross the fabric: links hold positions, which are cheap to move.

use crate::packet::Packet;

/// The position of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Packets at positions that are used again.
#[derive(Debug)]
pub(crate) struct Slab<B> {
    packets: Vec<Option<Packet<B>>>,
    free: Vec<u32>,
}

impl<B> Default for Slab<B> {
    fn default() -> Self {
        Self { packets: Vec::new(), free: Vec::new() }
    }
}

const HELD: &str = "a slot is given up once, by its only holder";

impl<B> Slab<B> {
    pub(crate) fn put(&mut self, packet: Packet<B>) -> Slot {
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

    pub(crate) fn take(&mut self, slot: Slot) -> Packet<B> {
        let packet = self.packets[slot.0 as usize].take().expect(HELD);
        self.free.push(slot.0);
        packet
    }

    pub(crate) fn get(&self, slot: Slot) -> &Packet<B> {
        self.packets[slot.0 as usize].as_ref().expect(HELD)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Packet<B> {
        self.packets[slot.0 as usize].as_mut().expect(HELD)
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        let packets = self.packets.capacity() * size_of::<Option<Packet<B>>>();
        (packets + self.free.capacity() * size_of::<u32>()) as u64
    }
}

impl<B: Clone> Slab<B> {
    pub(crate) fn copy(&mut self, slot: Slot) -> Slot {
        let packet = self.get(slot).clone();
        self.put(packet)
    }
}
