//! Messages between agents and coordinators: decoded, checked and handled in any order. A line is a
//! message: its first byte is the type, the rest is JSON or, for clock pings, the datagram.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use base::{Span, Time};
use cluster::AgentId;
use cluster::clock::Pinger;
use cluster::control::{
    AgentStatus, Heartbeat, LabOrder, OnLoss, Prepare, ProgramEvent, Refusal, Report, Reserve,
    Reserved, Start, Started,
};
use cluster::coordinator::{Coordinator, Output, Terms};
use cluster::detector::{Change, Detector};
use serde::de::DeserializeOwned;

const AGENTS: usize = 3;
const SECRET: [u8; 32] = [7; 32];
const PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));

fn read<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

struct World {
    coordinator: Coordinator,
    detector: Detector,
    pinger: Pinger,
    reserve: Option<Reserve>,
}

impl World {
    fn new(now: Time) -> Self {
        let terms = Terms {
            instances: (0..AGENTS as u64).collect(),
            duration: Span::from_secs(10),
            grace: Span::from_secs(1),
            stay: false,
            waits_for_begin: false,
            on_loss: OnLoss::Continue,
        };
        let mut pinger = Pinger::new(0);
        pinger.add(now, "a", PEER, &SECRET);
        pinger.answer_to("a", &SECRET);
        Self {
            coordinator: Coordinator::new(now, terms),
            detector: Detector::new(),
            pinger,
            reserve: None,
        }
    }

    fn handle(&mut self, now: Time, kind: u8, text: &[u8]) -> Option<()> {
        let agent = AgentId(u16::from(kind) % 4);
        let coordinator = &mut self.coordinator;
        match kind & !3 {
            b'@' => {
                let beat: Heartbeat = read(text)?;
                let name = (kind as char).to_string();
                let change = if beat.leaves {
                    self.detector.leave(&name)
                } else {
                    self.detector.on_heartbeat(now, &name, beat.instance)
                };
                self.changed(now, change?);
            }
            b'D' => coordinator.report(now, &read::<Report>(text)?),
            b'H' => coordinator.reserved(now, agent, read::<Reserved>(text)?),
            b'L' => coordinator.started(now, agent, read::<Started>(text)?.origin_ns),
            b'P' => coordinator.refused(now, agent, read::<Refusal>(text)?),
            b'T' => self.reserve = Some(read::<Reserve>(text)?).filter(Reserve::is_valid),
            b'X' => {
                let (prepare, reserve) = (read::<Prepare>(text)?, self.reserve.as_ref()?);
                if prepare.fits(reserve) {
                    assert!(reserve.agents.len() == prepare.trunks.len());
                }
            }
            b'`' => drop(self.pinger.on_datagram(now, PEER, text)),
            b'd' => drop(read::<(Start, LabOrder)>(text)),
            b'h' => drop(read::<ProgramEvent>(text)),
            b'l' => drop(read::<AgentStatus>(text)),
            b'p' => coordinator.fetched(now, agent, Ok(())),
            b't' => coordinator.interrupt(now),
            _ => {}
        }
        Some(())
    }

    fn changed(&mut self, now: Time, change: Change) {
        let position = |name: &str| AgentId(u16::from(name.as_bytes()[0]) % 4);
        match change {
            Change::Lost(name) => self.coordinator.lost(now, position(&name)),
            Change::Alive(name) => self.coordinator.regained(now, position(&name)),
            Change::Replaced(name) => self.coordinator.replaced(now, position(&name)),
        }
    }
}

pub(crate) fn target(bytes: &[u8]) {
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut world = World::new(now);
    let mut ends = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((kind, text)) = line.split_first() else { continue };
        now += Span::from_millis(200);
        world.handle(now, *kind, text);
        for change in world.detector.expire(now) {
            world.changed(now, change);
        }
        world.coordinator.on_wake(now);
        let _ = world.pinger.poll(now);
        while let Some(output) = world.coordinator.poll() {
            match output {
                Output::Ended(_) => ends += 1,
                Output::Reserve(agent) | Output::Prepare(agent) | Output::Fetch(agent) => {
                    assert!(agent.index() < AGENTS);
                }
                _ => {}
            }
        }
        assert!(ends <= 1, "a run ends once");
    }
}
