//! Many synthetic peers: their packets are generated and collected like captured ones.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use base::Time;
use bgp::attribute::{AsPathBuf, Attribute, Origin};
use bgp::capability::Capability;
use bgp::negotiated::Families;
use bgp::nlri::Nlri;
use bgp::notification::{Notification, cease, code};
use bgp::open::OpenBuilder;
use bgp::update::UpdateBuilder;
use bgp::{Asn, Family, Negotiated, Prefix, message};
use collector::capture::write::{Wrapper, pcap_frame, pcap_header};
use collector::integrity::Integrity;
use collector::rib::Rib;
use collector::{Frame, LinkType};
use collector_live::Writer;
use collector_live::archive::{Archive, Options};
use collector_live::pipeline::{Pipeline, Settings};

use super::{Failure, frames};
use crate::{Outcome, print};

#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) peers: u32,
    pub(super) prefixes: u32,
}

/// Prefixes in an UPDATE of a table, as in real tables.
const PREFIXES_PER_UPDATE: u32 = 6;
/// UPDATEs of a peer per second.
const UPDATES_PER_SECOND: u32 = 100;
/// Distinct prefixes of all peers, for each prefix of one peer.
const SPREAD: u32 = 10;
/// Duration of the table transfer in s.
const TABLE_SECONDS: u32 = 20;
/// Unix time of 2026-01-01.
const START: u64 = 1_767_225_600;

const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 255, 255, 254));

type Sink = ((Writer, Rib), Integrity);

/// Packets of one virtual second, and the collector that receives them.
struct Population {
    size: Size,
    wrapper: Wrapper,
    packets: Vec<u8>,
    pipeline: Pipeline<Sink>,
    /// Messages sent so far.
    sent: u64,
}

/// Transfers the tables, sends updates for `seconds` s, resets all sessions, and prints the costs.
pub(super) fn run(folder: &Path, size: Size, seconds: u32) -> Outcome {
    let archive = Archive::open(folder, Options::default())?;
    let writer = Writer::new(archive, collector::archive::Settings::default());
    let integrity = Integrity::new(collector::integrity::Settings::default());
    let pipeline = Pipeline::new(Settings::default(), ((writer, Rib::new()), integrity));
    let wrapper = Wrapper::new();
    let mut population = Population { size, wrapper, packets: Vec::new(), pipeline, sent: 0 };
    let begin = sys::clock::process_cpu();
    let mut generating = 0;
    let mut measure = |population: &mut Population,
                       second: u32,
                       work: &dyn Fn(&mut Population, u32) -> Outcome| {
        let before = sys::clock::thread_cpu();
        population.packets.clear();
        pcap_header(LinkType::ETHERNET, &mut population.packets);
        work(population, second)?;
        let between = sys::clock::thread_cpu();
        generating += between - before;
        population.collect(second)?;
        Ok::<u64, Failure>(sys::clock::thread_cpu() - between)
    };
    let mut tables = measure(&mut population, 0, &Population::open)?;
    for second in 0..TABLE_SECONDS {
        tables += measure(&mut population, second, &Population::tables)?;
    }
    let ((_, rib), _) = population.pipeline.sessions().sink();
    let (routes, memory) = (rib.len(), rib.memory().total());
    let mut updates = Vec::new();
    for second in TABLE_SECONDS..TABLE_SECONDS + seconds {
        updates.push(measure(&mut population, second, &Population::updates)?);
    }
    let resident = crate::memory::resident()?;
    let reset = measure(&mut population, TABLE_SECONDS + seconds, &Population::reset)?;
    let messages = population.pipeline.reassembler().statistics().messages;
    let missing = population.pipeline.reassembler().statistics().missing_bytes;
    population.pipeline.finish();
    let sent = population.sent;
    let ((writer, rib), _) = population.pipeline.into_sink();
    let left = rib.len();
    let status = writer.close()?;
    let total = sys::clock::process_cpu() - begin - generating;
    updates.sort_unstable();
    let (median, max) = (updates[updates.len() / 2], updates[updates.len() - 1]);
    print(&format!(
        "{{\"routes\":{routes},\"rib_bytes\":{memory},\"resident_bytes\":{resident},\
         \"tables_cpu_ns\":{tables},\"second_cpu_ns\":{median},\"second_cpu_max_ns\":{max},\
         \"reset_cpu_ns\":{reset},\"total_cpu_ns\":{total},\"virtual_s\":{},\
         \"sent\":{sent},\"messages\":{messages},\"missing_bytes\":{missing},\
         \"records\":{},\"lost\":{},\"waited_ns\":{},\"left\":{left}}}",
        TABLE_SECONDS + seconds + 1,
        status.records,
        status.lost,
        status.waited.as_nanos(),
    ));
    Ok(())
}

impl Population {
    /// Collects the packets of a second like the live collector.
    fn collect(&mut self, second: u32) -> Outcome {
        let pipeline = &mut self.pipeline;
        frames(&self.packets, |frame| pipeline.frame(frame))?;
        let now = Time::from_nanos((START + u64::from(second) + 1) * 1_000_000_000);
        pipeline.advance(now);
        let ((writer, rib), integrity) = pipeline.sink_mut();
        writer.flush();
        writer.advance(now);
        rib.advance(now);
        integrity.advance(now);
        Ok(())
    }

    fn send(&mut self, time: Time, (from, to): (IpAddr, IpAddr), bytes: &[u8]) {
        let Self { wrapper, packets, .. } = self;
        wrapper.message(time, from, to, bytes, &mut |frame: &Frame<'_>| pcap_frame(frame, packets));
        self.sent += 1;
    }

    fn open(&mut self, second: u32) -> Outcome {
        let time = moment(second, 0, 1);
        for peer in 0..self.size.peers {
            let address = address(peer);
            let router = (ROUTER, address);
            self.send(time, (address, ROUTER), &open(asn(peer), bits(address))?);
            self.send(time, router, &open(Asn(64_500), bits(ROUTER))?);
            self.send(time, (address, ROUTER), &message::keepalive());
            self.send(time, router, &message::keepalive());
        }
        Ok(())
    }

    /// Sends a part of all tables.
    fn tables(&mut self, second: u32) -> Outcome {
        let share = self.size.prefixes.div_ceil(TABLE_SECONDS);
        let (first, end) = (second * share, ((second + 1) * share).min(self.size.prefixes));
        let count = (end - first).div_ceil(PREFIXES_PER_UPDATE) * self.size.peers;
        let mut at = 0;
        for start in (first..end).step_by(PREFIXES_PER_UPDATE as usize) {
            let numbers = start..(start + PREFIXES_PER_UPDATE).min(end);
            for peer in 0..self.size.peers {
                let prefixes = numbers.clone().map(|number| self.prefix(peer, number));
                let update = announce(peer, start, prefixes)?;
                self.send(moment(second, at, count), (address(peer), ROUTER), &update);
                at += 1;
            }
        }
        Ok(())
    }

    /// Changes routes: withdraws a tenth of them, and announces another path for the rest.
    fn updates(&mut self, second: u32) -> Outcome {
        let count = UPDATES_PER_SECOND * self.size.peers;
        for turn in 0..UPDATES_PER_SECOND {
            for peer in 0..self.size.peers {
                let number = mix(second * UPDATES_PER_SECOND + turn, peer) % self.size.prefixes;
                let prefix = self.prefix(peer, number);
                let update = if turn % 10 == 9 {
                    UpdateBuilder::new(FOUR_OCTETS).withdraw(&nlri(prefix))?.build()?
                } else {
                    announce(peer, mix(number, second), std::iter::once(prefix))?
                };
                let time = moment(second, turn * self.size.peers + peer, count);
                self.send(time, (address(peer), ROUTER), &update);
            }
        }
        Ok(())
    }

    fn reset(&mut self, second: u32) -> Outcome {
        let (code, subcode) = (code::CEASE, cease::ADMINISTRATIVE_RESET);
        let bytes = Notification { code, subcode, data: &[] }.build()?;
        let time = moment(second, 0, 1);
        for peer in 0..self.size.peers {
            let address = address(peer);
            self.send(time, (ROUTER, address), &bytes);
            let Self { wrapper, packets, .. } = self;
            wrapper.close(time, ROUTER, address, true, &mut |frame| pcap_frame(frame, packets));
        }
        Ok(())
    }

    /// Peers with close numbers share most prefixes, others none.
    fn prefix(&self, peer: u32, number: u32) -> Prefix {
        let all = self.size.prefixes * SPREAD;
        let each = all / self.size.peers.max(1);
        Prefix::V4((1 << 24) + (((peer * each + number) % all) << 8), 24)
    }
}

/// The capabilities of all sessions.
const FOUR_OCTETS: Negotiated =
    Negotiated { four_octet_as: true, extended_message: false, add_path: Families::NONE };

/// The time of event `at` of `count` events that are evenly spread over a second.
fn moment(second: u32, at: u32, count: u32) -> Time {
    let part = u64::from(at) * 1_000_000_000 / u64::from(count);
    Time::from_nanos((START + u64::from(second)) * 1_000_000_000 + part)
}

fn address(peer: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits((10 << 24) + peer + 1))
}

fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(_) => 0,
    }
}

fn asn(peer: u32) -> Asn {
    Asn(4_200_000_000 + peer)
}

fn nlri(prefix: Prefix) -> Nlri {
    Nlri { path_id: None, prefix }
}

fn open(asn: Asn, id: u32) -> Result<Vec<u8>, Failure> {
    let mut open = OpenBuilder::new(asn, 90, id);
    open.capability(&Capability::Multiprotocol(Family::IPV4_UNICAST))?;
    open.capability(&Capability::FourOctetAs(asn))?;
    Ok(open.build()?)
}

/// Routes with an AS path of four, which depends on `variant`.
fn announce(
    peer: u32,
    variant: u32,
    prefixes: impl Iterator<Item = Prefix>,
) -> Result<Vec<u8>, Failure> {
    let hop = |turn: u32| Asn(1 + mix(variant, turn) % 400_000);
    let path = AsPathBuf::sequence(&[asn(peer), hop(1), hop(2), hop(3)]);
    let mut update = UpdateBuilder::new(FOUR_OCTETS);
    update.attribute(&Attribute::Origin(Origin::Igp))?;
    update.attribute(&Attribute::AsPath(path.view()))?;
    update.attribute(&Attribute::NextHop(Ipv4Addr::from_bits(bits(address(peer)))))?;
    for prefix in prefixes {
        update.announce(&nlri(prefix))?;
    }
    Ok(update.build()?)
}

/// A hash of two numbers.
fn mix(a: u32, b: u32) -> u32 {
    let mixed = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}
