//! Parts of JSON, appended to bytes.

use std::io::Write as _;
use std::net::IpAddr;

use base::Time;
use bgp::attribute::as_path::Segment;
use bgp::attribute::{Communities, SegmentKind};
use bgp::nlri::{Destination, Route, Routes};
use bgp::{Family, Prefix};

use super::digits::{self, Zeros};

/// A string, quoted and escaped (RFC 8259 §7), also what changes the direction of text on a
/// terminal; invalid UTF-8 is replaced.
pub(super) fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => out.extend([b'\\', character as u8]),
            '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                out.extend_from_slice(b"\\u");
                digits::hex(&(character as u16).to_be_bytes(), out);
            }
            _ => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    out.push(b'"');
}

/// `,"name":`, without the comma behind an opening bracket.
pub(super) fn key(name: &str, out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{')) {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(super) fn number(name: &str, value: impl Into<u64>, out: &mut Vec<u8>) {
    key(name, out);
    digits::decimal(value.into(), out);
}

pub(super) fn text(name: &str, value: &str, out: &mut Vec<u8>) {
    key(name, out);
    string(value.as_bytes(), out);
}

pub(super) fn hex(name: &str, octets: &[u8], out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'"');
    digits::hex(octets, out);
    out.push(b'"');
}

pub(super) fn flag(name: &str, value: bool, out: &mut Vec<u8>) {
    key(name, out);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(super) fn array<T>(
    name: &str,
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    item: impl FnMut(T, &mut Vec<u8>),
) {
    key(name, out);
    list(items, out, item);
}

pub(super) fn list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut item: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (at, value) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        item(value, out);
    }
    out.push(b']');
}

pub(super) fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => digits::ipv4(address.octets(), out),
        IpAddr::V6(address) => digits::ipv6(address.octets(), Zeros::Standard, out),
    }
}

pub(super) fn address_member(name: &str, value: IpAddr, out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'"');
    address(value, out);
    out.push(b'"');
}

#[inline]
pub(super) fn prefix(prefix: Prefix, out: &mut Vec<u8>) {
    match prefix.masked() {
        Prefix::V4(bits, length) => {
            let mut text = [0; digits::IPV4_PREFIX + 1];
            text[0] = b'"';
            let end = digits::ipv4_prefix(bits.to_be_bytes(), length, b'"', &mut text[1..]);
            out.extend_from_slice(&text[..=end]);
        }
        Prefix::V6(bits, length) => {
            out.push(b'"');
            digits::ipv6(bits.to_be_bytes(), Zeros::Standard, out);
            out.push(b'/');
            digits::decimal(u64::from(length), out);
            out.push(b'"');
        }
    }
}

/// Seconds since 1970 with `places` decimals (at most 9).
pub(super) fn time(time: Time, places: u32, out: &mut Vec<u8>) {
    let nanos = time.as_nanos();
    digits::decimal(nanos / 1_000_000_000, out);
    out.push(b'.');
    let parts = nanos % 1_000_000_000 / 10_u64.pow(9 - places);
    digits::padded(parts, places as usize, out);
}

/// An AS path as an array: numbers of sequences in their order, sets as arrays in it.
pub(super) fn path<'a>(segments: impl Iterator<Item = Segment<'a>>, out: &mut Vec<u8>) {
    out.push(b'[');
    for segment in segments {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        let set = matches!(segment.kind, SegmentKind::Set | SegmentKind::ConfedSet);
        if set {
            out.push(b'[');
        }
        for (at, asn) in segment.asns.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            digits::decimal(u64::from(asn.0), out);
        }
        if set {
            out.push(b']');
        }
    }
    out.push(b']');
}

pub(super) fn community_pairs(communities: Communities<'_>, out: &mut Vec<u8>) {
    list(communities.iter(), out, |community, out| {
        out.push(b'[');
        digits::decimal(u64::from(community.upper()), out);
        out.push(b',');
        digits::decimal(u64::from(community.lower()), out);
        out.push(b']');
    });
}

pub(super) fn family(family: Family, out: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = write!(out, "\"{family}\"");
}

/// Writes a route of any family: text, or hexadecimal digits if it cannot be decoded; with a path
/// identifier as an object.
pub(super) fn route(route: &Route<'_>, family: Family, out: &mut Vec<u8>) {
    if let Some(path_id) = route.path_id {
        out.push(b'{');
        number("path_id", path_id, out);
        key("prefix", out);
    }
    match Destination::decode(route, family) {
        Ok(Destination::Prefix(plain)) => prefix(plain, out),
        Ok(Destination::Opaque(_)) | Err(_) => {
            out.push(b'"');
            digits::hex(route.bytes, out);
            out.push(b'"');
        }
        Ok(destination) => string(destination.to_string().as_bytes(), out),
    }
    if route.path_id.is_some() {
        out.push(b'}');
    }
}

/// Writes routes up to the first malformed one; the rest is in `raw`.
pub(super) fn routes(key: &str, routes: Routes<'_>, family: Family, out: &mut Vec<u8>) {
    array(key, routes.map_while(Result::ok), out, |one, out| route(&one, family, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_contain_nothing_that_a_terminal_executes() {
        let mut out = Vec::new();
        let text = "a\"\\\u{1b}[2J\u{7f}\u{9b}\u{202e}ü\u{2066}";
        string(&[text.as_bytes(), &[0xff]].concat(), &mut out);
        let escaped = r#""a\"\\\u001b[2J\u007f\u009b\u202eü\u2066�""#;
        assert_eq!(String::from_utf8(out).unwrap(), escaped);
    }
}
