//! Appends numbers and addresses as text; used by all formats.

/// Each octet in decimal followed by a dot, and its length in bytes.
static OCTETS: [([u8; 4], u32); 256] = octets();

const fn octets() -> [([u8; 4], u32); 256] {
    let mut table = [([b'.'; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [b'0' + (octet / 100) as u8, b'0' + (octet / 10 % 10) as u8];
        let last = b'0' + (octet % 10) as u8;
        table[octet] = if octet > 99 {
            ([digits[0], digits[1], last, b'.'], 4)
        } else if octet > 9 {
            ([digits[1], last, b'.', b'.'], 3)
        } else {
            ([last, b'.', b'.', b'.'], 2)
        };
        octet += 1;
    }
    table
}

/// Two decimal digits of each number below 100.
static PAIRS: [[u8; 2]; 100] = pairs();

const fn pairs() -> [[u8; 2]; 100] {
    let mut table = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        table[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    table
}

/// Two hexadecimal digits of each octet.
static HEX: [[u8; 2]; 256] = hex_pairs();

const fn hex_pairs() -> [[u8; 2]; 256] {
    let digits = *b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut octet = 0;
    while octet < 256 {
        table[octet] = [digits[octet >> 4], digits[octet & 15]];
        octet += 1;
    }
    table
}

#[inline]
pub(super) fn decimal(value: u64, out: &mut Vec<u8>) {
    if value < 256 {
        let (digits, length) = OCTETS[value as usize];
        out.extend_from_slice(&digits);
        out.truncate(out.len() + length as usize - 5);
        return;
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value;
    while rest > 9 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest > 0 {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// A number in decimal, with zeros in front to make `width` digits.
pub(super) fn padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut limit = 10_u64.pow(width as u32 - 1);
    while limit > value.max(1) {
        out.push(b'0');
        limit /= 10;
    }
    decimal(value, out);
}

pub(super) fn hex(octets: &[u8], out: &mut Vec<u8>) {
    out.reserve(octets.len() * 2);
    for octet in octets {
        out.extend_from_slice(&HEX[usize::from(*octet)]);
    }
}

#[inline]
pub(super) fn ipv4(address: [u8; 4], out: &mut Vec<u8>) {
    let mut text = [0; 16];
    let mut at = 0;
    for octet in address {
        at += dotted(octet, &mut text, at);
    }
    out.extend_from_slice(&text);
    out.truncate(out.len() - text.len() + at - 1);
}

/// Writes an octet followed by a dot at `at`; returns the number of bytes.
#[inline]
fn dotted(octet: u8, text: &mut [u8], at: usize) -> usize {
    let (digits, length) = OCTETS[usize::from(octet)];
    text[at..at + 4].copy_from_slice(&digits);
    length as usize
}

/// Buffer space that [`ipv4_prefix`] requires.
pub(super) const IPV4_PREFIX: usize = 20;

/// Writes `192.0.2.0/24` and `end` at `at`, where [`IPV4_PREFIX`] bytes must be available;
/// returns the end.
#[inline]
pub(super) fn ipv4_prefix(address: [u8; 4], length: u8, end: u8, text: &mut [u8]) -> usize {
    let text = &mut text[..IPV4_PREFIX];
    let mut at = 0;
    for octet in address {
        at += dotted(octet, text, at);
    }
    text[at - 1] = b'/';
    at += dotted(length, text, at);
    text[at - 1] = end;
    at
}

/// Compression of the zeros of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    /// At least two groups (RFC 5952 §4.2.2).
    Standard,
    /// One group is sufficient; embedded IPv4 addresses are written in decimal.
    Bgpdump,
}

pub(super) fn ipv6(address: [u8; 16], zeros: Zeros, out: &mut Vec<u8>) {
    let bits = u128::from_be_bytes(address);
    let embedded = [address[12], address[13], address[14], address[15]];
    if bits >> 32 == 0xffff {
        out.extend_from_slice(b"::ffff:");
        return ipv4(embedded, out);
    }
    if zeros == Zeros::Bgpdump && bits >> 32 == 0 && bits > 1 {
        out.extend_from_slice(b"::");
        return ipv4(embedded, out);
    }
    let groups: [u16; 8] = std::array::from_fn(|at| (bits >> (112 - 16 * at)) as u16);
    let shortest = if zeros == Zeros::Standard { 2 } else { 1 };
    let (start, count) = longest_run(groups, shortest);
    let mut text = [b':'; 48];
    let mut length = 0;
    let mut at = 0;
    while at < 8 {
        if at == start {
            // The previous group, if there is one, already has a colon after it.
            length += if at == 0 { 2 } else { 1 };
            at += count;
            continue;
        }
        let [high, low] = groups[at].to_be_bytes();
        let digits = [HEX[usize::from(high)], HEX[usize::from(low)]];
        let digits = [digits[0][0], digits[0][1], digits[1][0], digits[1][1]];
        let skipped = (groups[at].leading_zeros() as usize / 4).min(3);
        text[length..length + 4 - skipped].copy_from_slice(&digits[skipped..]);
        length += 4 - skipped;
        at += 1;
        if at < 8 {
            length += 1;
        }
    }
    out.extend_from_slice(&text[..length]);
}

/// Start and length of the first longest run of zero groups, if it has at least `shortest` groups.
fn longest_run(groups: [u16; 8], shortest: usize) -> (usize, usize) {
    let (mut best, mut count, mut run) = (usize::MAX, shortest - 1, 0);
    for (at, group) in groups.into_iter().enumerate() {
        run = if group == 0 { run + 1 } else { 0 };
        if run > count {
            (best, count) = (at + 1 - run, run);
        }
    }
    (best, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b">".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 99, 100, 255, 256, 1_000, 4_294_967_295, u64::MAX] {
            assert_eq!(text(|out| decimal(value, out)), format!(">{value}"));
            assert_eq!(text(|out| padded(value, 6, out)), format!(">{value:06}"));
        }
        let mut alone = Vec::new();
        decimal(7, &mut alone);
        assert_eq!(alone, b"7");
        assert_eq!(text(|out| hex(&[0, 0x1f, 0xff], out)), ">001fff");
        assert_eq!(text(|out| ipv4([1, 20, 255, 0], out)), ">1.20.255.0");
        let mut text = [0; IPV4_PREFIX];
        let length = ipv4_prefix([10, 0, 0, 0], 8, b'|', &mut text);
        assert_eq!(&text[..length], b"10.0.0.0/8|");
        let length = ipv4_prefix([192, 168, 255, 255], 255, b'|', &mut text);
        assert_eq!(&text[..length], b"192.168.255.255/255|");
    }

    #[test]
    fn formats_ipv6_like_standard_library() {
        for address in [
            "::",
            "::1",
            "1::",
            "2001:db8::1",
            "2001:db8:0:1:0:0:0:1",
            "1:0:2:0:0:3:0:0",
            "1:2:3:4:5:6:7:8",
            "0:1:0:1:0:1:0:1",
            "fe80::1234:0:0:1",
            "::ffff:192.0.2.1",
        ] {
            let address: Ipv6Addr = address.parse().unwrap();
            let ours = text(|out| ipv6(address.octets(), Zeros::Standard, out));
            assert_eq!(ours, format!(">{address}"));
        }
        let single: Ipv6Addr = "2001:7f8:30:0:2:1:0:8447".parse().unwrap();
        let ours = text(|out| ipv6(single.octets(), Zeros::Bgpdump, out));
        assert_eq!(ours, ">2001:7f8:30::2:1:0:8447");
        let inside: Ipv6Addr = "::c000:201".parse().unwrap();
        let ours = text(|out| ipv6(inside.octets(), Zeros::Bgpdump, out));
        assert_eq!(ours, ">::192.0.2.1");
    }
}
