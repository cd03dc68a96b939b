use super::*;
use bundler::digest::Key;
use proptest::prelude::*;

/// Offsets of the checksums of TCP and UDP.
const TCP_SUM: u16 = 16;
const UDP_SUM: u16 = 6;
const NEEDS_CHECKSUM: u8 = 1;

/// A packet without a complete checksum, or a super-packet, as from a TUN device.
fn made(v6: bool, tcp: bool, payload: &[u8], segment: u16, id: u16) -> Vec<u8> {
    let (transport, sum, protocol) = if tcp { (32, TCP_SUM, 6) } else { (8, UDP_SUM, 17) };
    let ip = if v6 { 40 } else { 20 };
    let length = transport + payload.len();
    let mut packet = vec![0; ip];
    if v6 {
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&[protocol, 64]);
        packet[23] = 1;
        packet[39] = 2;
    } else {
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((ip + length) as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6] = 0x40;
        packet[8..10].copy_from_slice(&[64, protocol]);
        packet[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 2]);
        let sum = checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let mut header = vec![0; transport];
    header[..4].copy_from_slice(&[0x30, 0x39, 0, 80]);
    if tcp {
        header[4..8].copy_from_slice(&77_u32.to_be_bytes());
        header[12..14].copy_from_slice(&[8 << 4, 0x18]);
    } else {
        header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    let addresses = if v6 { 8..40 } else { 12..20 };
    let pseudo = checksum::pseudo_header(&packet[addresses], protocol, length as u32);
    let at = usize::from(sum);
    header[at..at + 2].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
    packet.extend(header);
    packet.extend(payload);
    let mut virtio = [0; VIRTIO_HEADER];
    virtio[0] = NEEDS_CHECKSUM;
    virtio[6..8].copy_from_slice(&(ip as u16).to_ne_bytes());
    virtio[8..10].copy_from_slice(&sum.to_ne_bytes());
    if payload.len() > usize::from(segment) {
        virtio[1] = match (tcp, v6) {
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        };
        virtio[2..4].copy_from_slice(&((ip + transport) as u16).to_ne_bytes());
        virtio[4..6].copy_from_slice(&segment.to_ne_bytes());
    }
    [&virtio, &packet[..]].concat()
}

fn read(pool: &Pool, bytes: &[u8]) -> Option<Rc<Packet>> {
    let read = |into: &mut Vec<u8>| {
        into.extend_from_slice(bytes);
        Ok::<_, ()>(bytes.len())
    };
    pool.read(read).unwrap()
}

fn key() -> DigestKey {
    Key::from_secret("a key of a test").digest()
}

/// The bytes of a packet as sent by a network card.
fn finished(parts: [&[u8]; 3]) -> Vec<u8> {
    let [virtio, headers, payload] = parts;
    let mut packet = [headers, payload].concat();
    let offload = Offload::read(*virtio.first_chunk().unwrap(), 0);
    assert_eq!(offload.segment, None);
    wire::finish_checksum(&mut packet, offload);
    packet
}

proptest! {
    #[test]
    fn digests_equal_those_of_packets_on_the_wire(
        v6: bool,
        tcp: bool,
        payload in proptest::collection::vec(any::<u8>(), 1..9000),
        segment in 100_u16..1400,
        id in prop_oneof![Just(0_u16), any::<u16>()],
    ) {
        let (pool, key) = (Pool::default(), key());
        let bytes = made(v6, tcp, &payload, segment, id);
        let packet = read(&pool, &bytes).unwrap();
        let count = payload.len().div_ceil(usize::from(segment)) as u16;
        prop_assert_eq!(packet.count(), count);
        let offload = Offload::read(*bytes.first_chunk().unwrap(), 0);
        let mut seen = Vec::new();
        let (whole, header) = (&bytes[VIRTIO_HEADER..], packet.header);
        each_segment(&key, whole, &header, offload, |size, digest| seen.push((size, digest)));
        prop_assert_eq!(seen.len(), usize::from(count));
        let mut ids = Vec::new();
        for number in 0..count {
            let wire = packet.pieces(number, 1, false, finished);
            let mut assembled = vec![9];
            packet.assemble(number, false, &mut assembled);
            prop_assert_eq!(&assembled[1..], &wire);
            let digest = digest::of_packet(&key, &wire).unwrap();
            prop_assert_eq!(packet.digest(&key, number), Some(digest));
            prop_assert_eq!(seen[usize::from(number)], (wire.len() as u32, digest));
            prop_assert_eq!(packet.size(number) as usize, wire.len());
            let ip = usize::from(header.ip_length);
            if !v6 {
                prop_assert_eq!(checksum::of(&wire[..ip]), 0);
                ids.push(u16::from_be_bytes([wire[4], wire[5]]));
            }
            let addresses = if v6 { 8..40 } else { 12..20 };
            let length = (wire.len() - ip) as u32;
            let pseudo = checksum::pseudo_header(&wire[addresses], header.protocol, length);
            prop_assert_eq!(checksum::fold(checksum::add(pseudo, &wire[ip..])), 0xffff);
        }
        let step = u16::from(id != 0);
        prop_assert!(ids.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(step)));
        drop(packet);
        prop_assert_eq!(pool.held(), 0);
    }

    #[test]
    fn rejects_foreign_bytes_as_packets(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let pool = Pool::default();
        if let Some(packet) = read(&pool, &bytes) {
            for number in 0..packet.count() {
                let _ = packet.digest(&key(), number);
                packet.assemble(number, true, &mut Vec::new());
            }
        }
        if let Some(header) = Header::parse(&bytes) {
            let virtio = bytes.first_chunk().copied().unwrap_or_default();
            each_segment(&key(), &bytes, &header, Offload::read(virtio, 14), |_, _| {});
            clamp_segment_size(&mut bytes.clone(), &header, 1400);
        }
    }
}

#[test]
fn coalesced_segments_leave_together_and_are_marked() {
    let pool = Pool::default();
    let bytes = made(false, true, &[7; 3000], 1000, 5);
    let packet = read(&pool, &bytes).unwrap();
    packet.pieces(0, 3, false, |[virtio, whole, rest]| {
        assert_eq!((virtio, whole, rest.len()), (&bytes[..10], &bytes[10..], 0));
    });
    packet.pieces(1, 2, true, |[virtio, headers, payload]| {
        let offload = Offload::read(*virtio.first_chunk().unwrap(), 0);
        assert_eq!((offload.segment, payload.len()), (Some(1000), 2000));
        assert_eq!((headers[1] & 3, headers[5]), (3, 6));
    });
    let fixed = read(&pool, &made(false, true, &[7; 3000], 1000, 0)).unwrap();
    assert!(packet.can_be_joined() && !fixed.can_be_joined());
}

#[test]
fn lowers_the_maximum_segment_size() {
    let (mss, options) = ([2, 4, 5, 180], 4);
    for before in [vec![], vec![1], vec![1, 1], vec![8, 10, 0, 0, 0, 0, 0, 0, 0, 0]] {
        for (size, wanted) in [(1460_u16, 1340_u16), (1300, 1300)] {
            let mut list = before.clone();
            list.extend(&mss);
            let at = list.len() - 2;
            list[at..].copy_from_slice(&size.to_be_bytes());
            list.resize((list.len() + options).next_multiple_of(4), 0);
            let mut packet = made(false, true, &[], 1000, 5)[VIRTIO_HEADER..].to_vec();
            packet.truncate(40);
            packet.extend(&list);
            packet[32] = ((20 + list.len()) as u8 / 4) << 4;
            packet[33] = 2;
            let length = (packet.len() - 20) as u32;
            packet[36..38].fill(0);
            let pseudo = checksum::pseudo_header(&packet[12..20], 6, length);
            let sum = !checksum::fold(checksum::add(pseudo, &packet[20..]));
            packet[36..38].copy_from_slice(&sum.to_be_bytes());
            let header = Header::parse(&packet).unwrap();
            clamp_segment_size(&mut packet, &header, 1380);
            let found = u16::from_be_bytes([packet[40 + at], packet[41 + at]]);
            assert_eq!(found, wanted, "{before:?}");
            assert_eq!(checksum::fold(checksum::add(pseudo, &packet[20..])), 0xffff, "{before:?}");
        }
    }
}
