//! Compares decoded frames and written files with the output of tshark.

use std::process::Command;

use super::encapsulate::{PSEUDOWIRE, PSEUDOWIRE_WORD, all, packet};
use super::*;
use crate::capture::{Interface, write};

/// Fields of the packets of a capture, one line each.
fn tshark(bytes: &[u8], fields: &[&str]) -> Option<Vec<String>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file.path()).args(["-o", "tcp.check_checksum:TRUE", "-T", "fields"]);
    for (label, kind) in [(PSEUDOWIRE, "pwethnocw"), (PSEUDOWIRE_WORD, "pwethcw")] {
        command.args(["-d", &format!("mpls.label=={label},{kind}")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            Some(text.lines().map(str::to_owned).collect())
        }
        Err(error) => {
            eprintln!("SKIPPED a second opinion: tshark: {error}");
            None
        }
    }
}

#[test]
fn tshark_finds_the_same_segments() {
    let mut links: Vec<LinkType> = Vec::new();
    let mut frames: Vec<(&str, LinkType, Vec<u8>)> = Vec::new();
    for (from, to) in ends() {
        // tshark 4.0 does not dissect pktap, and reads nflog only in the file's byte order.
        let all = all(&packet(from, to, 1, &[0xff; 100])).into_iter();
        for (name, link, data) in
            all.filter(|(name, ..)| !name.starts_with("pktap") && *name != "nflog big-endian")
        {
            if !links.contains(&link) {
                links.push(link);
            }
            frames.push((name, link, data));
        }
    }
    let interface = |link: &LinkType| Interface { link: *link, name: None, snap: 0, dropped: 0 };
    let interfaces: Vec<_> = links.iter().map(interface).collect();
    let mut file = Vec::new();
    write::pcapng_header(&interfaces, &mut file);
    for (_, link, data) in &frames {
        let number = links.iter().position(|other| other == link).unwrap() as u32;
        write::pcapng_frame(&Frame { interface: number, ..frame(*link, data) }, &mut file);
    }
    let fields = ["tcp.srcport", "tcp.dstport", "tcp.len", "tcp.checksum.status"];
    let Some(lines) = tshark(&file, &fields) else { return };
    assert_eq!(lines.len(), frames.len());
    let mut other = Vec::new();
    for (line, (name, link, data)) in lines.iter().zip(&frames) {
        let got = take(&mut new(), &frame(*link, data));
        let (from, to) = (got[0].0.port(), got[0].1.port());
        if *line != format!("{from}\t{to}\t{}\t1", got[0].5.len()) {
            other.push((*name, line));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}

#[test]
fn tshark_reads_wrapped_messages() {
    let keepalive = [&[0xff; 16][..], &[0, 19, 4]].concat();
    let long = [&[0xff; 16][..], &[0x10, 0, 3], &[6; 4096 - 19]].concat();
    let mut file = Vec::new();
    write::pcap_header(LinkType::ETHERNET, &mut file);
    let mut wrapper = write::Wrapper::new();
    let mut keep = |frame: &Frame<'_>| write::pcap_frame(frame, &mut file);
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::2", "2001:db8::1")] {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        for second in 1..=3 {
            let time = Time::from_nanos(second * 1_000_000_000);
            wrapper.message(time, from, to, &keepalive, &mut keep);
            wrapper.message(time, to, from, &long, &mut keep);
            if second == 2 {
                wrapper.close(time, from, to, false, &mut keep);
            }
        }
        wrapper.close(Time::from_nanos(4_000_000_000), to, from, true, &mut keep);
    }
    let fields = ["bgp.type", "tcp.analysis.flags", "tcp.checksum.status", "ip.checksum.status"];
    let Some(lines) = tshark(&file, &fields) else { return };
    let mut kinds = [0; 6];
    for line in &lines {
        let parts: Vec<&str> = line.split('\t').collect();
        for kind in parts[0].split(',').filter(|kind| !kind.is_empty()) {
            kinds[kind.parse::<usize>().unwrap()] += 1;
        }
        assert_eq!(parts[1..3], ["", "1"], "{line}");
    }
    assert_eq!(kinds, [0, 0, 0, 6, 6, 0]);
}
