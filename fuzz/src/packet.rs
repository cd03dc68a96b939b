//! Any packets are described, segmented, answered and fragmented without a panic, and the fragments
//! contain exactly the payload.

use wire::icmp::{self, Problem};
use wire::{Change, Header, Offload, SuperPacket, VIRTIO_HEADER};

pub(crate) fn target(bytes: &[u8]) {
    let Some((virtio, packet)) = bytes.split_first_chunk::<VIRTIO_HEADER>() else { return };
    let from = std::net::IpAddr::from([10, 0, 0, 1]);
    let _ = icmp::error(packet, Problem::TtlExceeded, from);
    let _ = icmp::answer(packet);
    let _ = wire::fragment(packet, 576);
    let Some(header) = Header::parse(packet) else { return };
    header.flow_hash();
    let offload = Offload::read(*virtio, 0);
    let Some(layout) = SuperPacket::new(packet, &header, offload) else { return };
    let mut carried = 0;
    for segment in 0..layout.count() {
        let piece = layout.piece(packet, segment, 1, Change { ttl: 9, marked: true });
        carried += piece.payload.len();
        let mut one = piece.headers[..piece.header_length].to_vec();
        one.extend_from_slice(&packet[piece.payload]);
        wire::finish_checksum(&mut one, piece.offload);
        wire::flip_bit(&mut one, 3);
    }
    let headers = layout.piece(packet, 0, 1, Change::default()).header_length;
    assert_eq!(carried + headers, packet.len());
}
