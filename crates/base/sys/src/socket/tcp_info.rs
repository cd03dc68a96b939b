//! The kernel's state of a TCP connection (`TCP_INFO`).

use std::os::fd::BorrowedFd;

use super::get;
use crate::Result;

/// A part of the kernel's `struct tcp_info` (`linux/tcp.h`). Fields that an old kernel does not
/// support are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Sender's maximum segment size in bytes.
    pub segment_bytes: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_micros: u32,
    /// Mean deviation of the round-trip time in microseconds.
    pub rtt_deviation_micros: u32,
    /// Minimum round-trip time in microseconds; `u32::MAX` before the first sample.
    pub min_rtt_micros: u32,
    /// Congestion window in segments.
    pub window_segments: u32,
    /// Sent and unacknowledged segments.
    pub unacknowledged_segments: u32,
    /// Written and unsent bytes.
    pub unsent_bytes: u32,
    /// Latest delivery rate in bytes per second.
    pub delivery_bytes_per_second: u64,
    /// Segments retransmitted since the start of the connection.
    pub retransmits: u32,
    /// Payload bytes that the peer has acknowledged.
    pub acknowledged_bytes: u64,
    /// Payload bytes received in order.
    pub received_bytes: u64,
    /// Payload bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Retransmitted payload bytes.
    pub resent_bytes: u64,
    /// Whether the connection is established and open both ways.
    pub is_established: bool,
    /// Whether a maximum pacing rate is set, so that TCP paces segments (`SO_MAX_PACING_RATE`).
    pub is_paced: bool,
    /// Number of backoffs of the retransmission timer since the last acknowledgement.
    pub backoff: u8,
    /// Microseconds for which the peer's receive window limited the sender.
    pub receiver_limited_micros: u64,
}

impl TcpInfo {
    /// Queries the kernel's state of a connected socket.
    pub fn read(socket: BorrowedFd<'_>) -> Result<Self> {
        let mut info = [0_u8; 256];
        let call = "getsockopt(TCP_INFO)";
        get(&socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info, call)?;
        Ok(Self::parse(&info))
    }

    /// Reads the kernel's structure.
    pub(super) fn parse(info: &[u8; 256]) -> Self {
        let word = |offset: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&info[offset..offset + 4]);
            u32::from_ne_bytes(bytes)
        };
        let long = |offset: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&info[offset..offset + 8]);
            u64::from_ne_bytes(bytes)
        };
        // Offsets of tcpi_snd_mss, tcpi_rtt, tcpi_min_rtt, …: fixed, the structure only grows.
        Self {
            segment_bytes: word(16),
            srtt_micros: word(68),
            rtt_deviation_micros: word(72),
            min_rtt_micros: word(148),
            window_segments: word(80),
            unacknowledged_segments: word(24),
            unsent_bytes: word(144),
            delivery_bytes_per_second: long(160),
            retransmits: word(100),
            acknowledged_bytes: long(120),
            receiver_limited_micros: long(176),
            received_bytes: long(128),
            sent_bytes: long(200),
            resent_bytes: long(208),
            is_established: info[0] == 1,
            is_paced: ![0, u64::MAX].contains(&long(112)),
            backoff: info[4],
        }
    }
}
