//! Generates random sessions between host places at routers.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, NodeId, RandomStream, Span, Time};

use crate::plan::Drawing;

/// A host place at a router, numbered from 0.
pub(super) type Place = (NodeId, u32);

/// A session whose hosts are not nodes yet.
pub(super) struct Drawn {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) start: Time,
    pub(super) leave: Option<Time>,
    pub(super) size: Option<Bytes>,
    pub(super) demand: Option<Bandwidth>,
}

/// The use of a place.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    source: bool,
    used: bool,
    /// Its node, if it has been created.
    pub(super) host: Option<NodeId>,
}

/// The places of all session generators.
#[derive(Default)]
pub(super) struct Places {
    slots: BTreeMap<NodeId, Vec<Slot>>,
}

impl Places {
    /// Adds the places of a session generator.
    pub(super) fn add(&mut self, rules: &Drawing) {
        for router in &rules.routers {
            let slots = self.slots.entry(*router).or_default();
            let hosts = slots.len().max(rules.hosts as usize);
            slots.resize(hosts, Slot::default());
        }
    }

    /// Number of a generator's places that are not used by a source.
    pub(super) fn free(&self, rules: &Drawing) -> u64 {
        let own = rules.routers.iter().filter_map(|router| self.slots.get(router));
        let free = own.flat_map(|slots| slots.iter().take(rules.hosts as usize));
        free.filter(|slot| !slot.source).count() as u64
    }

    /// Used places, in order.
    pub(super) fn used(&mut self) -> impl Iterator<Item = (Place, &mut Slot)> {
        self.slots.iter_mut().flat_map(|(router, slots)| {
            let numbered = (0..).zip(slots.iter_mut());
            numbered.filter(|(_, slot)| slot.used).map(|(number, slot)| ((*router, number), slot))
        })
    }

    /// The node of a place.
    pub(super) fn host(&self, (router, number): Place) -> Option<NodeId> {
        self.slots.get(&router)?.get(number as usize)?.host
    }

    fn slot(&mut self, (router, number): Place) -> &mut Slot {
        let slots = self.slots.get_mut(&router).expect("drawn from routers that were added");
        &mut slots[number as usize]
    }
}

/// Generates the sessions of a generator. There must be enough places: `count` that are not used by
/// a source, and two in total.
///
/// Each property has a separate random stream, so that a change of one does not change the others.
pub(super) fn draw(name: &str, rules: &Drawing, seed: u64, places: &mut Places) -> Vec<Drawn> {
    let stream = |what| RandomStream::new(seed, &format!("sessions/{name}/{what}"));
    let (mut from, mut to) = (stream("from"), stream("to"));
    let (mut start, mut leave) = (stream("start"), stream("leave"));
    let (mut size, mut demand) = (stream("size"), stream("demand"));
    let leaves = leavers(rules, &mut stream("leavers"));
    let place = |random: &mut RandomStream| -> Place {
        let hosts = u64::from(rules.hosts);
        let at = random.below(hosts * rules.routers.len() as u64);
        (rules.routers[(at / hosts) as usize], (at % hosts) as u32)
    };
    let mut session = |leaves: bool| {
        let source = loop {
            let place = place(&mut from);
            if !places.slot(place).source {
                break place;
            }
        };
        let target = loop {
            let place = place(&mut to);
            if place != source {
                break place;
            }
        };
        *places.slot(source) = Slot { source: true, used: true, host: None };
        places.slot(target).used = true;
        let left = rules.leave.map(|bounds| moment(bounds, &mut leave));
        Drawn {
            from: source,
            to: target,
            start: moment(rules.start, &mut start),
            leave: left.filter(|_| leaves),
            size: rules.size.as_ref().map(|sizes| Bytes::new(sizes.draw(&mut size).max(1))),
            demand: rules.demand.map(|(min, max)| {
                let (min, max) = (min.bits_per_sec(), max.bits_per_sec());
                Bandwidth::from_bits_per_sec(min + demand.below(max - min + 1))
            }),
        }
    };
    leaves.into_iter().map(&mut session).collect()
}

/// Selects the sessions that leave; all subsets of this size are equally likely (Knuth,
/// TAOCP 2, 3.4.2 S).
fn leavers(rules: &Drawing, random: &mut RandomStream) -> Vec<bool> {
    let mut wanted = rules.leave_count;
    let chosen = (0..rules.count).map(|index| {
        let chosen = random.below(u64::from(rules.count - index)) < u64::from(wanted);
        wanted -= u32::from(chosen);
        chosen
    });
    chosen.collect()
}

fn moment((first, last): (Time, Time), random: &mut RandomStream) -> Time {
    let span = last.since(first).as_nanos();
    first + Span::from_nanos(random.below(span + 1))
}
