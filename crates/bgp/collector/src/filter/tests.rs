use std::net::SocketAddr;
use std::process::Command;

use super::*;
use crate::decapsulate::tests::encapsulate::{self, all, fragments, packet, plain, vlan};
use crate::decapsulate::{Decapsulator, Settings};
use crate::{Frame, LinkType};

/// Runs a program as the kernel does; returns the number of accepted bytes of the frame.
fn run(program: &[Instruction], frame: &[u8]) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
    let load = |at: u32, size: usize| -> Option<u32> {
        let bytes = frame.get(at as usize..(at as usize).checked_add(size)?)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    };
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let source = if code & 8 == 0 { k } else { x };
        let size = [4, 2, 1][usize::from(code >> 3 & 3) % 3];
        let loaded = match code & 0xe0 {
            0x00 => Some(k),
            0x20 => load(k, size),
            0x40 => x.checked_add(k).and_then(|at| load(at, size)),
            0x60 => Some(memory[k as usize]),
            0x80 => Some(frame.len() as u32),
            _ => Some(0),
        };
        match code & 7 {
            0 => match loaded {
                Some(value) => a = value,
                None => return 0,
            },
            1 if code == 0xb1 => match load(k, 1) {
                Some(byte) => x = 4 * (byte & 0xf),
                None => return 0,
            },
            1 => x = loaded.unwrap(),
            2 => memory[k as usize] = a,
            3 => memory[k as usize] = x,
            4 => {
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(source),
                    0x10 => a.wrapping_sub(source),
                    0x40 => a | source,
                    0x50 => a & source,
                    0x60 => a << source,
                    0x70 => a >> source,
                    other => panic!("operation {other:x}"),
                }
            }
            5 if code == op::JUMP => at += k as usize,
            5 => {
                let holds = match code & 0xf0 {
                    0x10 => a == source,
                    0x20 => a > source,
                    0x30 => a >= source,
                    0x40 => a & source != 0,
                    other => panic!("condition {other:x}"),
                };
                at += usize::from(if holds { jt } else { jf });
            }
            6 => return if code & 0x18 == 0x10 { a } else { k },
            _ if code == op::TO_X => x = a,
            _ => a = x,
        }
    }
}

fn ends(port: u16) -> [(SocketAddr, SocketAddr); 4] {
    let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
    [
        (at("10.9.1.2", 40_001), at("10.9.1.1", port)),
        (at("10.9.1.1", port), at("10.9.1.2", 40_001)),
        (at("2001:db8::1", 40_001), at("2001:db8::2", port)),
        (at("2001:db8::2", port), at("2001:db8::1", 40_001)),
    ]
}

fn read(wanted: &Wanted, data: &[u8]) -> bool {
    let (ports, tunnels) = (wanted.ports.clone(), wanted.tunnels.clone());
    let mut decapsulator = Decapsulator::new(Settings { ports, tunnels, ..Settings::default() });
    let frame = Frame::whole(base::Time::ZERO, LinkType::ETHERNET, data);
    let mut found = false;
    decapsulator.segments(&frame, &mut |_| found = true);
    found
}

#[test]
fn passes_only_bgp_ports_and_tunnels() {
    let ports: Vec<u16> = vec![179, 1179];
    for tunnels in [Tunnels::none(), Tunnels::all()] {
        let wanted = Wanted { ports: ports.clone(), tunnels: tunnels.clone(), ..Wanted::default() };
        let program = program(&wanted);
        for port in [179, 1179, 80] {
            for (from, to) in ends(port) {
                for (name, link, data) in all(&packet(from, to, 1, b"payload")) {
                    if link != LinkType::ETHERNET {
                        continue;
                    }
                    let passes = run(&program, &data) > 0;
                    let reads = read(&wanted, &data);
                    assert!(passes || !reads, "{name} to {port} is held back");
                    let bare = ["plain", "vlan", "priority"].contains(&name);
                    if bare || name.starts_with("qinq") {
                        assert_eq!(passes, reads, "{name} to {port}");
                    }
                    let tunnelled = ["vxlan", "geneve", "tzsp", "gre", "erspan ii", "ip in ipv4"];
                    if tunnelled.contains(&name) {
                        assert_eq!(passes, tunnels == Tunnels::all(), "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn passes_selected_tunnels() {
    let (from, to) = ends(179)[0];
    let inner = plain(&packet(from, to, 1, b""));
    let vxlan = plain(&encapsulate::vxlan(1, &inner));
    let tagged = vlan(0x8100, 4, &encapsulate::vxlan(1, &inner));
    let gre = plain(&encapsulate::erspan_2(1, 1, &inner));
    let passes = |tunnels: Tunnels, data: &[u8]| {
        run(&program(&Wanted { tunnels, ..Wanted::default() }), data) > 0
    };
    let only_vxlan = || Tunnels { vxlan: vec![4789], ..Tunnels::none() };
    assert!(passes(only_vxlan(), &vxlan) && passes(only_vxlan(), &tagged));
    assert!(!passes(only_vxlan(), &gre) && !passes(Tunnels::none(), &vxlan));
    assert!(!passes(Tunnels { vxlan: vec![1], ..Tunnels::none() }, &vxlan));
    assert!(passes(Tunnels { gre: true, ..Tunnels::none() }, &gre));
}

#[test]
fn passes_fragments_if_selected() {
    for (from, to) in ends(179) {
        let pieces = fragments(&packet(from, to, 1, &[1; 600]), 256);
        for fragments in [true, false] {
            let program = program(&Wanted { fragments, ..Wanted::default() });
            let passed: Vec<_> =
                pieces.iter().map(|piece| run(&program, &plain(piece)) > 0).collect();
            let first = fragments || from.is_ipv4();
            assert_eq!(passed, [first, fragments, fragments]);
        }
    }
}

#[test]
fn drops_truncated_frames() {
    let program = program(&Wanted::default());
    let (from, to) = ends(179)[0];
    let data = plain(&packet(from, to, 1, b"payload"));
    for length in 0..38 {
        assert_eq!(run(&program, &data[..length]), 0);
    }
    assert_eq!(run(&program, &data), 262_144);
}

#[test]
fn passes_bare_packets() {
    for tunnels in [Tunnels::none(), Tunnels::all()] {
        let framed = Wanted { tunnels, ..Wanted::default() };
        let bare = program(&Wanted { bare: true, ..framed.clone() });
        let framed = program(&framed);
        for (from, to) in [179, 80].into_iter().flat_map(ends) {
            let inner = plain(&packet(from, to, 1, b""));
            let whole = packet(from, to, 1, b"payload");
            let pieces = fragments(&packet(from, to, 1, &[1; 600]), 256);
            let tunnelled = [encapsulate::vxlan(1, &inner), encapsulate::erspan_2(1, 1, &inner)];
            for packet in pieces.into_iter().chain(tunnelled).chain([whole]) {
                assert_eq!(run(&bare, &packet) > 0, run(&framed, &plain(&packet)) > 0);
            }
        }
    }
    assert_eq!(run(&program(&Wanted { bare: true, ..Wanted::default() }), &[]), 0);
}

#[test]
fn produces_programs_valid_for_kernel() {
    for ports in [0, 1, 500] {
        for tunnels in [Tunnels::none(), Tunnels::all()] {
            let ports = (1..=ports).collect();
            let program = program(&Wanted { ports, tunnels, ..Wanted::default() });
            assert!(program.len() < 4_096);
            assert_eq!(program.last().unwrap().code, op::RETURN);
            for (at, instruction) in program.iter().enumerate() {
                let Instruction { code, jt, jf, k } = *instruction;
                let furthest = match code {
                    op::JUMP => k as usize,
                    _ => usize::from(jt.max(jf)),
                };
                assert!(at + 1 + furthest < program.len() || code == op::RETURN);
            }
        }
    }
}

#[test]
fn tcpdump_passes_the_same_frames() {
    // Each `vlan` shifts the following tests by one tag: the last one means two tags.
    let expression = "tcp port 179 or (vlan and tcp port 179) or (vlan and tcp port 179)";
    let output = Command::new("tcpdump").args(["-y", "EN10MB", "-ddd", expression]).output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        other => {
            eprintln!("SKIPPED tcpdump_passes_the_same_frames: {other:?}");
            return;
        }
    };
    let theirs: Vec<Instruction> = text
        .lines()
        .skip(1)
        .map(|line| {
            let number: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [code, jt, jf, k] = number[..] else { panic!("{line}") };
            Instruction { code: code as u16, jt: jt as u8, jf: jf as u8, k }
        })
        .collect();
    let ours = program(&Wanted { fragments: false, ..Wanted::default() });
    let mut passed = 0;
    for port in [179, 80, 178] {
        for (from, to) in ends(port) {
            for (name, link, data) in all(&packet(from, to, 1, b"payload")) {
                // The expression examines neither LLC nor extension headers nor other tags.
                let unlike = ["snap", "extension headers", "vn-tag"].contains(&name)
                    || ["e-tag", "cisco", "arista"].iter().any(|tag| name.starts_with(tag));
                if link == LinkType::ETHERNET && !unlike {
                    let theirs = run(&theirs, &data) > 0;
                    assert_eq!(run(&ours, &data) > 0, theirs, "{name} to {port}");
                    passed += u32::from(theirs);
                }
            }
        }
    }
    assert!(passed >= 12, "{passed}");
}
