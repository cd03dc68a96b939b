//! A classic BPF filter, so that the kernel passes only packets to a bundle's prefixes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sys::ring::Instruction;

use crate::Prefix;

/// Maximum length of the filter: by default a socket has room for 20 KiB, and the kernel translates
/// the filter to more than twice its length.
const MAX_LEN: usize = 512;

const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// More than the length of any packet.
const WHOLE: u32 = 1 << 18;

fn step(code: u16, operand: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, operand }
}

fn equal(operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code: JUMP_EQUAL, jump_true, jump_false, operand }
}

/// A filter that accepts packets to these prefixes, after a link-layer header of `link` bytes (14
/// for Ethernet, or 0). If the program would exceed [`MAX_LEN`], prefixes are shortened until it
/// fits; the gateway then rejects the other packets itself.
pub(crate) fn to(prefixes: &[Prefix], link: usize) -> Vec<Instruction> {
    let fits = |filter: &Vec<Instruction>| filter.len() <= MAX_LEN;
    let shorter = (0..=64).rev().map(|length| {
        let shorter: BTreeSet<Prefix> = prefixes.iter().map(|it| it.shortened(length)).collect();
        program(&shorter.into_iter().collect::<Vec<_>>(), link)
    });
    std::iter::once(program(prefixes, link)).chain(shorter).find(fits).unwrap_or_default()
}

fn program(prefixes: &[Prefix], link: usize) -> Vec<Instruction> {
    let of = |six: bool| prefixes.iter().filter(move |it| it.is_ipv6() == six);
    let v4: Vec<Instruction> = of(false).flat_map(|it| test(it, link + 16)).collect();
    let v6: Vec<Instruction> = of(true).flat_map(|it| test(it, link + 24)).collect();
    let mut filter = Vec::new();
    if link == 0 {
        // Without a type field: use the version in the IP header.
        filter.extend([step(LOAD_BYTE, 0), step(SHIFT_RIGHT, 4)]);
    } else {
        filter.push(step(LOAD_HALF, link as u32 - 2));
    }
    let (four, six) = if link == 0 { (4, 6) } else { (0x0800, 0x86dd) };
    // Jumps count from the next instruction: over the rest of these five and the IPv4 tests.
    filter.extend([
        equal(four, 0, 1),
        step(JUMP, 3),
        equal(six, 0, 1),
        step(JUMP, v4.len() as u32 + 2),
        step(RETURN, 0),
    ]);
    filter.extend(v4);
    filter.push(step(RETURN, 0));
    filter.extend(v6);
    filter.push(step(RETURN, 0));
    filter
}

/// Returns the packet if the address at `at` is in the prefix, otherwise continues.
fn test(prefix: &Prefix, at: usize) -> Vec<Instruction> {
    let octets = match prefix.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let words = octets.chunks(4).zip(0_u32..).filter_map(|(word, number)| {
        let bits = u32::from(prefix.length()).saturating_sub(number * 32).min(32);
        let word = word.iter().fold(0, |word, octet| word << 8 | u32::from(*octet));
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        (bits > 0).then_some((at as u32 + number * 4, mask, word))
    });
    let words: Vec<(u32, u32, u32)> = words.collect();
    let mut steps = Vec::new();
    for (done, (at, mask, word)) in words.iter().enumerate() {
        // Three instructions for each remaining word, and the one that returns.
        let behind = (words.len() - done - 1) * 3 + 1;
        steps.extend([step(LOAD_WORD, *at), step(AND, *mask), equal(*word, 0, behind as u8)]);
    }
    steps.push(step(RETURN, WHOLE));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does.
    fn run(filter: &[Instruction], packet: &[u8]) -> u32 {
        let load = |at: u32, count: usize| {
            let bytes = packet.get(at as usize..at as usize + count)?;
            Some(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
        };
        let (mut at, mut register) = (0, 0);
        loop {
            let it = filter[at];
            at += 1;
            let value = match it.code {
                LOAD_BYTE => load(it.operand, 1),
                LOAD_HALF => load(it.operand, 2),
                LOAD_WORD => load(it.operand, 4),
                AND => Some(register & it.operand),
                SHIFT_RIGHT => Some(register >> it.operand),
                JUMP => {
                    at += it.operand as usize;
                    Some(register)
                }
                JUMP_EQUAL => {
                    let holds = register == it.operand;
                    at += usize::from(if holds { it.jump_true } else { it.jump_false });
                    Some(register)
                }
                RETURN => return it.operand,
                other => panic!("{other:#x}"),
            };
            let Some(value) = value else { return 0 };
            register = value;
        }
    }

    fn packet(to: &str, ethernet: bool) -> Vec<u8> {
        let to: IpAddr = to.parse().unwrap();
        let mut bytes = if ethernet { vec![0; 12] } else { Vec::new() };
        match to {
            IpAddr::V4(to) => {
                bytes.extend(ethernet.then_some([8, 0]).into_iter().flatten());
                bytes.extend([0x45; 16]);
                bytes.extend(to.octets());
            }
            IpAddr::V6(to) => {
                bytes.extend(ethernet.then_some([0x86, 0xdd]).into_iter().flatten());
                bytes.extend([0x60; 24]);
                bytes.extend(to.octets());
            }
        }
        bytes
    }

    #[test]
    fn matches_packets_to_the_prefixes() {
        let all = ["10.2.0.0/16", "192.0.2.7/32", "2001:db8::/33", "2001:db8:1:2::/64"];
        for link in [14, 0] {
            for (prefixes, wanted, unwanted) in [
                (
                    &all[..2],
                    vec!["10.2.3.4", "192.0.2.7"],
                    vec!["10.3.0.0", "192.0.2.6", "2001:db8::1"],
                ),
                (
                    &all[2..],
                    vec!["2001:db8::9", "2001:db8:1:2::1"],
                    vec!["2001:db8:8000::", "10.2.0.1"],
                ),
                (&all[..], vec!["10.2.3.4", "2001:db8::9"], vec!["10.1.3.4", "2001:db9::9"]),
                (&["0.0.0.0/0"][..], vec!["8.8.8.8"], vec!["::1"]),
            ] {
                let prefixes: Vec<Prefix> = prefixes.iter().map(|it| it.parse().unwrap()).collect();
                let filter = to(&prefixes, link);
                for to in wanted {
                    assert_eq!(run(&filter, &packet(to, link > 0)), WHOLE, "{to} {prefixes:?}");
                }
                for to in unwanted {
                    assert_eq!(run(&filter, &packet(to, link > 0)), 0, "{to} {prefixes:?}");
                }
                assert_eq!(run(&filter, &[0; 14]), 0);
            }
        }
        let many: Vec<Prefix> = (0..2000_u32)
            .map(|n| format!("10.{}.{}.0/24", n / 256, n % 256).parse().unwrap())
            .collect();
        let filter = to(&many, 14);
        assert!((64..=MAX_LEN).contains(&filter.len()), "{}", filter.len());
        for to in many.iter().map(|prefix| prefix.address().to_string()) {
            assert_eq!(run(&filter, &packet(&to, true)), WHOLE, "{to}");
        }
        assert_eq!(run(&filter, &packet("11.0.0.1", true)), 0);
    }
}
