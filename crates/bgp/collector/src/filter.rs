//! A classic BPF program that drops, in the kernel, the packets that the collector cannot use.
//!
//! # Accepted packets
//!
//! Ethernet frames or bare packets with TCP from or to the ports of BGP, in IPv4 or IPv6,
//! with up to two VLAN tags (one less where the kernel removes the outer tag), all frames with
//! other tags (VN-Tag, E-Tag, Cisco metadata, Arista time stamps), and all packets of the selected
//! tunnels. The filter accepts everything that [`crate::decapsulate`]
//! reads, and some packets that it does not: the content of tunnels and of IPv6 with
//! extension headers is not examined.
//!
//! # Source
//!
//! "The BSD Packet Filter: A New Architecture for User-level Packet Capture", USENIX Winter 1993;
//! Linux `Documentation/networking/filter.rst`.

#[cfg(test)]
mod tests;

use crate::decapsulate::{OTHER_TAGS, Tunnels};

/// An instruction in the format of `SO_ATTACH_FILTER` (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub ports: Vec<u16>,
    pub tunnels: Tunnels,
    /// Accept all TCP fragments: only the first one contains the ports.
    pub fragments: bool,
    pub snap: u32,
    /// Frames start with the IP header, as those of TUN devices, instead of an Ethernet header.
    pub bare: bool,
}

impl Wanted {
    /// Offset of the IP header in a frame without tags.
    fn network(&self) -> u32 {
        if self.bare { 0 } else { 14 }
    }
}

impl Default for Wanted {
    fn default() -> Self {
        let tunnels = Tunnels::none();
        Self { ports: vec![179], tunnels, fragments: true, snap: 262_144, bare: false }
    }
}

mod op {
    pub(super) const LOAD: u16 = 0x00;
    pub(super) const LOAD_16: u16 = 0x28;
    pub(super) const LOAD_8: u16 = 0x30;
    pub(super) const LOAD_16_INDEXED: u16 = 0x48;
    pub(super) const LOAD_8_INDEXED: u16 = 0x50;
    pub(super) const LOAD_32_INDEXED: u16 = 0x40;
    pub(super) const LOAD_X: u16 = 0x01;
    pub(super) const AND: u16 = 0x54;
    pub(super) const SHIFT_LEFT: u16 = 0x64;
    pub(super) const SHIFT_RIGHT: u16 = 0x74;
    pub(super) const ADD_X: u16 = 0x0c;
    pub(super) const TO_X: u16 = 0x07;
    pub(super) const JUMP: u16 = 0x05;
    pub(super) const IF_EQUAL: u16 = 0x15;
    pub(super) const IF_GREATER: u16 = 0x25;
    pub(super) const IF_ANY: u16 = 0x45;
    pub(super) const RETURN: u16 = 0x06;
}

/// Ethernet types of VLAN tags that [`crate::decapsulate`] decodes.
const TAGS: [u32; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// IPv6 extension headers that may precede TCP, except the fragment header.
const EXTENSIONS: [u32; 7] = [0, 43, 51, 60, 135, 139, 140];

/// A jump target, which may follow the jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FirstTag,
    SecondTag,
    Type,
    V4,
    V6,
    Ports,
    Udp,
    Accept,
    Refuse,
}

#[derive(Default)]
struct Program {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Place)>,
    places: Vec<(Place, usize)>,
}

impl Program {
    fn push(&mut self, code: u16, k: u32) {
        self.code.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn here(&mut self, place: Place) {
        self.places.push((place, self.code.len()));
    }

    fn jump(&mut self, place: Place) {
        self.jumps.push((self.code.len(), place));
        self.push(op::JUMP, 0);
    }

    /// Conditional jumps reach 255 instructions; unconditional ones are unlimited.
    fn jump_if(&mut self, condition: u16, k: u32, place: Place) {
        self.code.push(Instruction { code: condition, jt: 0, jf: 1, k });
        self.jump(place);
    }

    fn jump_if_one_of(&mut self, all: impl IntoIterator<Item = u32>, place: Place) {
        for k in all {
            self.jump_if(op::IF_EQUAL, k, place);
        }
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, place) in self.jumps {
            let target = self.places.iter().find(|(other, _)| *other == place);
            let target = target.expect("all places are in the program").1;
            self.code[at].k = (target - at - 1) as u32;
        }
        self.code
    }
}

/// Builds the program: about `2 * ports + 2 * UDP ports + 100` instructions. Linux accepts 4,096.
pub fn program(wanted: &Wanted) -> Vec<Instruction> {
    let mut program = Program::default();
    if wanted.bare {
        version(&mut program);
    } else {
        ethernet(&mut program, wanted);
    }
    v4(&mut program, wanted);
    v6(&mut program, wanted);
    program.here(Place::Ports);
    for at in [0, 2] {
        program.push(op::LOAD_16_INDEXED, wanted.network() + at);
        program.jump_if_one_of(wanted.ports.iter().copied().map(u32::from), Place::Accept);
    }
    program.jump(Place::Refuse);
    program.here(Place::Udp);
    program.push(op::LOAD_16_INDEXED, wanted.network() + 2);
    program.jump_if_one_of(wanted.tunnels.udp_ports().map(u32::from), Place::Accept);
    program.here(Place::Refuse);
    program.push(op::RETURN, 0);
    program.here(Place::Accept);
    program.push(op::RETURN, wanted.snap);
    program.finish()
}

fn version(program: &mut Program) {
    program.push(op::LOAD_X, 0);
    program.push(op::LOAD_8, 0);
    program.push(op::SHIFT_RIGHT, 4);
    program.jump_if(op::IF_EQUAL, 4, Place::V4);
    program.jump_if(op::IF_EQUAL, 6, Place::V6);
    program.jump(Place::Refuse);
}

/// Filters an Ethernet frame. X holds the number of bytes of its tags.
fn ethernet(program: &mut Program, wanted: &Wanted) {
    program.push(op::LOAD_X, 0);
    program.push(op::LOAD_16, 12);
    program.jump_if_one_of(TAGS, Place::FirstTag);
    program.jump(Place::Type);
    program.here(Place::FirstTag);
    program.push(op::LOAD_X, 4);
    program.push(op::LOAD_16, 16);
    program.jump_if_one_of(TAGS, Place::SecondTag);
    program.jump(Place::Type);
    program.here(Place::SecondTag);
    program.push(op::LOAD_X, 8);
    program.push(op::LOAD_16, 20);
    // A frame with a third tag is accepted without a check.
    program.jump_if_one_of(TAGS, Place::Accept);
    program.here(Place::Type);
    program.jump_if(op::IF_EQUAL, 0x0800, Place::V4);
    program.jump_if(op::IF_EQUAL, 0x86dd, Place::V6);
    program.jump_if_one_of(OTHER_TAGS.map(u32::from), Place::Accept);
    if wanted.tunnels.mpls {
        program.jump_if_one_of([0x8847, 0x8848], Place::Accept);
    }
    if wanted.tunnels.pppoe {
        program.jump_if(op::IF_EQUAL, 0x8864, Place::Accept);
    }
    // A length instead of a type: LLC with SNAP may contain IP.
    program.code.push(Instruction { code: op::IF_GREATER, jt: 3, jf: 0, k: 0x05ff });
    program.push(op::LOAD_32_INDEXED, 14);
    program.jump_if(op::IF_EQUAL, 0xaaaa_0300, Place::Accept);
    program.jump(Place::Refuse);
}

fn whole(tunnels: &Tunnels) -> impl Iterator<Item = u32> {
    let ip = tunnels.ip.then_some([4, 41]).into_iter().flatten();
    ip.chain(tunnels.gre.then_some(47)).chain(tunnels.mpls.then_some(137))
}

/// IPv4 at [`Wanted::network`] plus X. Sets X so that the transport header is at a fixed offset.
fn v4(program: &mut Program, wanted: &Wanted) {
    program.here(Place::V4);
    let network = wanted.network();
    let udp = wanted.tunnels.udp_ports().next().is_some();
    program.push(op::LOAD_8_INDEXED, network + 9);
    program.jump_if_one_of(whole(&wanted.tunnels), Place::Accept);
    // An authentication header may precede TCP.
    program.jump_if(op::IF_EQUAL, 51, Place::Accept);
    let protocols = if udp { &[6, 17][..] } else { &[6] };
    for protocol in protocols {
        // Skips the jump below.
        program.code.push(Instruction { code: op::IF_EQUAL, jt: 0, jf: 9, k: *protocol });
        program.push(op::LOAD_16_INDEXED, network + 6);
        let (bits, place) =
            if wanted.fragments { (0x3fff, Place::Accept) } else { (0x1fff, Place::Refuse) };
        program.jump_if(op::IF_ANY, bits, place);
        program.push(op::LOAD_8_INDEXED, network);
        program.push(op::AND, 0xf);
        program.push(op::SHIFT_LEFT, 2);
        program.push(op::ADD_X, 0);
        program.push(op::TO_X, 0);
        program.jump(if *protocol == 6 { Place::Ports } else { Place::Udp });
    }
    program.jump(Place::Refuse);
}

/// IPv6 at [`Wanted::network`] plus X.
fn v6(program: &mut Program, wanted: &Wanted) {
    program.here(Place::V6);
    program.push(op::LOAD_8_INDEXED, wanted.network() + 6);
    program.jump_if_one_of(whole(&wanted.tunnels), Place::Accept);
    program.jump_if_one_of(EXTENSIONS, Place::Accept);
    if wanted.fragments {
        program.jump_if(op::IF_EQUAL, 44, Place::Accept);
    }
    let transports: &[(u32, Place)] = match wanted.tunnels.udp_ports().next() {
        Some(_) => &[(6, Place::Ports), (17, Place::Udp)],
        None => &[(6, Place::Ports)],
    };
    for (protocol, place) in transports {
        // The transport header is 40 bytes after the start of the IP header.
        program.code.push(Instruction { code: op::IF_EQUAL, jt: 0, jf: 4, k: *protocol });
        program.push(op::LOAD, 40);
        program.push(op::ADD_X, 0);
        program.push(op::TO_X, 0);
        program.jump(*place);
    }
    program.jump(Place::Refuse);
}
