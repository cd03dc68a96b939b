//! The fluid engine: flows are rates, and time jumps from change to change of a rate.
//!
//! ```text
//! applications (bulk, transfers, rpc, paced)       flow.rs, connections.rs, paced.rs
//!        → streams (TCP: window, slow start) ...   net/streams.rs, tcp.rs
//!        → shares of links                         crate `sharing`
//!        → queues of streams                       net/queues.rs, backlog.rs
//!        → datagrams and their queues              links.rs
//! ```
//!
//! The fluid engine simulates the same plans as the packet engine, by these rules:
//!
//! - A TCP stream gets its weighted max-min share of the links on its path (`tcp.rs`), with all
//!   headers counted; acknowledgements use no capacity. A connection needs one RTT before it sends.
//! - Datagrams do not react to congestion; the excess over a link's capacity is queued, then lost
//!   (`links.rs`).
//! - A link that limits TCP streams has the queue that their congestion controllers keep there. The
//!   excess of slow start over the queue limit is lost (`backlog.rs`) and delays streams that open,
//!   send a window or end at that time.
//! - Retransmissions are estimated. ECN marks, jitter, duplicates and reordering are not modelled.
//!
//! The work is proportional to the changes: the engine updates a stream when its share changes and
//! a link when its load changes. If more than 1,000 streams send at once, most changes affect most
//! streams, so the engine collects changes for 100 ns per stream (18 ms for 180,000 streams).

mod backlog;
mod connections;
mod deadlines;
mod delays;
mod ends;
mod flow;
mod links;
mod net;
mod paced;
mod route;
mod stream;
mod tcp;

use std::sync::Arc;

use base::{FlowId, Histogram, LinkId, Time};
use fabric::{LinkStats, QueueLevel};
use lab::plan::{Action, Event, Plan};
use run::{ChangeKind, FlowResult, Schedule};
use run::{FlowSample, Transfer};
use timeline::{Components, NextWakes};

use crate::canonical::Canonical;
use crate::engine::Engine;
use crate::{Result, packets, parameters};
use ends::Ends;
use flow::Flow;
use net::{Net, Notification};

/// Maximum relative error of shares; below it, other flows are not updated after a change.
const TOLERANCE: f64 = 1e-4;

/// A plan on the virtual clock, with flows as rates, in memory.
///
/// It has the interface of [`crate::Simulation`] and the same order of events; the computation of
/// shares has the rank of the agreement.
pub struct Simulation {
    net: Net,
    flows: Vec<Flow>,
    schedule: Schedule,
    happened: Vec<Event>,
    changes: u64,
    transfers: Vec<Transfer>,
    /// Index of each link of the original plan in the sorted plan.
    links: Vec<usize>,
    /// Index of each flow of the original plan in the sorted plan.
    order: Vec<usize>,
    finite: bool,
    /// Finite flows that have not ended.
    pending: i64,
    last_sample: Time,
}

impl Simulation {
    /// Builds the network and its flows; no flow has sent anything yet.
    ///
    /// # Errors
    /// The errors of [`crate::Simulation::try_new`].
    pub fn try_new(plan: &Plan) -> Result<Self> {
        packets::refuse(plan)?;
        refuse(plan)?;
        let sorted = Canonical::new(plan);
        let (routes, parameters, _) = parameters::flows(&sorted)?;
        let Canonical { plan, links, flows: ids, .. } = sorted;
        let plan = Arc::new(plan);
        let ends = parameters
            .iter()
            .map(|(parameters, legs)| Ends::new(&plan, parameters, legs))
            .collect();
        let mut net = Net::new(Arc::clone(&plan), routes, ends, TOLERANCE);
        let flows: Vec<Flow> =
            parameters.into_iter().map(|(parameters, _)| Flow::new(parameters)).collect();
        for flow in &flows {
            flow.arm(&mut net);
        }
        let pending = flows.iter().filter(|flow| flow.is_finite()).count() as i64;
        Ok(Self {
            net,
            schedule: Schedule::new(plan),
            happened: Vec::new(),
            changes: 0,
            transfers: Vec::new(),
            links: packets::inverse(&links, LinkId::index),
            order: packets::inverse(&ids, FlowId::index),
            finite: pending > 0,
            pending,
            flows,
            last_sample: Time::ZERO,
        })
    }

    fn notify(&mut self, notification: Notification) {
        let flow = match notification {
            Notification::Start(flow)
            | Notification::Expire { flow, .. }
            | Notification::Wake { flow, .. } => flow,
            Notification::Ready { stream } | Notification::Arrived { stream } => {
                self.net.stream(stream).0
            }
        };
        let flow = &mut self.flows[flow as usize];
        self.pending += if matches!(notification, Notification::Start(_)) {
            flow.on_start(&mut self.net, &mut self.transfers)
        } else {
            flow.on_notification(&mut self.net, &mut self.transfers, notification)
        };
    }

    /// Applies the lab events of this time.
    fn change(&mut self, at: Time) {
        for change in self.schedule.changes(at) {
            match change.kind {
                ChangeKind::Configure(link, direction, config) => {
                    let direction = 2 * link.index() + direction.index();
                    self.net.configure(direction as u32, &config);
                }
                ChangeKind::LinkState { links, up, forwarding } => {
                    for link in links {
                        self.net.set_up(link.index(), up);
                    }
                    if let Some(routes) = forwarding {
                        self.net.reroute(routes);
                    }
                }
            }
        }
        for event in self.schedule.due(at) {
            self.changes += 1;
            match event.action {
                Action::FlowStart(flow) => {
                    let flow = &mut self.flows[flow.index()];
                    self.pending += flow.start(&mut self.net, &mut self.transfers);
                }
                Action::FlowStop(flow) => {
                    let flow = &mut self.flows[flow.index()];
                    self.pending += flow.stop(&mut self.net, &mut self.transfers);
                }
                _ => {}
            }
            self.happened.push(event);
        }
    }
}

impl Components for Simulation {
    fn next_wakes(&self) -> NextWakes {
        NextWakes { lab_event: self.schedule.next(), ..self.net.next_wakes() }
    }

    fn on_arrivals(&mut self, until: Time) -> bool {
        let next = self.net.next_wakes().arrival.filter(|at| *at <= until);
        let Some(now) = next else { return false };
        if let Some(notification) = self.net.on_arrival(now) {
            self.notify(notification);
        }
        true
    }

    fn on_lab_event(&mut self, now: Time) {
        self.net.advance_to(now);
        self.change(now);
    }

    fn on_timer(&mut self, now: Time) {
        if let Some(notification) = self.net.on_timer(now) {
            self.notify(notification);
        }
    }

    fn on_agreement_wake(&mut self, now: Time) {
        self.net.on_settlement(now);
    }
}

impl Engine for Simulation {
    fn now(&self) -> Time {
        self.net.now
    }

    fn is_done(&self) -> bool {
        let has_ended = self.finite && self.pending == 0 && self.schedule.next().is_none();
        has_ended && self.net.is_settled()
    }

    fn reach(&mut self, until: Time) {
        self.net.now = self.net.now.max(until);
    }

    fn events(&self) -> u64 {
        self.net.handled + self.changes
    }

    fn packet_hops(&self) -> u64 {
        self.net.packet_hops()
    }

    fn trace_hash(&self) -> u64 {
        self.net.trace.hash()
    }

    fn memory(&self) -> u64 {
        self.net.memory() + (self.flows.len() * size_of::<Flow>()) as u64
    }

    fn link_counters(&mut self, _: &[bool]) -> Vec<(usize, LinkStats, QueueLevel)> {
        let sorted = self.net.counters();
        let positions = self.links.iter().flat_map(|at| [at * 2, at * 2 + 1]);
        let original = positions.map(|from| sorted[from].clone()).enumerate();
        original.map(|(at, (stats, level))| (at, stats, level)).collect()
    }

    fn take_queue_delays(&mut self) -> Vec<Histogram> {
        let sorted = self.net.delays();
        let both = |at: &usize| sorted[at * 2..at * 2 + 2].to_vec();
        self.links.iter().flat_map(both).collect()
    }

    fn sample(&mut self, mut sink: &mut dyn FnMut(FlowSample)) {
        for at in &self.order {
            self.flows[*at].sample(&mut self.net, self.last_sample).into_iter().for_each(&mut sink);
        }
        self.last_sample = self.net.now;
    }

    fn transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    fn happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }

    fn stop(&mut self) {
        for flow in &mut self.flows {
            self.pending += flow.stop(&mut self.net, &mut self.transfers);
        }
    }

    fn results(&mut self) -> Vec<FlowResult> {
        let mut results: Vec<FlowResult> =
            std::mem::take(&mut self.flows).into_iter().map(Flow::into_result).collect();
        results.sort_by_key(|result| result.id);
        results
    }
}

/// Rejects flows that need packets.
fn refuse(plan: &Plan) -> Result<()> {
    use lab::plan::Traffic::{Bulk, Queries, Requests};
    for flow in &plan.flows {
        let what = match flow.traffic {
            Requests { .. } | Queries { .. } => "requests over UDP or with `arrivals`",
            Bulk { rate: Some(_), .. } => "chunks of TCP with a `rate`",
            Bulk { pause: Some(_), .. } => "the buffers of receivers that pause",
            _ => continue,
        };
        let why = format!("{what} need packets: use `model = \"hop\"`");
        return Err(crate::Error::ImpossibleFlow { flow: flow.name.clone(), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::Span;
    use timeline::{Moment, Rank};

    use super::net::Event;
    use super::*;

    const LAB: &str = "[lab]\nmodel = \"fluid\"\nduration = \"5 s\"\n[node.a]\n[node.b]\n\
        [[link]]\nends = [\"a\", \"b\"]\nrate = \"8 Mbit/s\"\ndelay = \"10 ms\"\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\n";

    #[test]
    fn timers_come_after_arrivals_at_the_same_time() {
        let plan = lab::parse("lab.toml", LAB, Path::new(".")).unwrap().plans.swap_remove(0);
        let mut first = Simulation::try_new(&plan).unwrap();
        first.advance(Time::ZERO);
        let ready = first.next_wakes().earliest().unwrap();
        let mut again = Simulation::try_new(&plan).unwrap();
        again.net.schedule(ready, Event::Wake { flow: 0, run: 7 });
        again.advance(Time::from_nanos(ready.as_nanos() - 1));
        let wakes = again.next_wakes();
        assert_eq!([wakes.arrival, wakes.timer], [Some(ready); 2]);
        assert!(again.step(Moment::after(ready)));
        let wakes = again.next_wakes();
        assert_ne!(wakes.arrival, Some(ready));
        assert_eq!(wakes.timer, Some(ready));
        assert!(!again.step(Moment::new(ready, Rank::Timer)));
        assert!(ready > Time::ZERO + Span::from_millis(19), "{ready}");
    }
}
