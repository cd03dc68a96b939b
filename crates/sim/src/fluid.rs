//! The fluid engine: flows are rates, and time jumps from change to change of a rate.
//!
//! ```text
//! applications (bulk, transfers, rpc, paced)       flow.rs, transfers.rs, rpc.rs, paced.rs
//!        → streams (TCP: window, slow start) ...   net/streams.rs, tcp.rs
//!        → shares of links                         crate `sharing`
//!        → queues of streams                       net/queues.rs, backlog.rs
//!        → datagrams and their queues              links.rs
//! ```
//!
//! It answers for the same plans as the packet engine, by these rules:
//!
//! - A TCP stream takes its weighted max-min share of the links on its way (`tcp.rs`), all headers
//!   counted; acknowledgements take nothing. A connection costs a round trip before it sends.
//! - Datagrams do not give way; what exceeds a link waits, then is lost (`links.rs`).
//! - A link that limits TCP streams has the queue that their congestion control keeps there. What
//!   slow start adds beyond its limit is lost (`backlog.rs`): who opens, sends a window or ends
//!   meanwhile is late by that.
//! - Retransmissions are estimated. Marks, jitter, duplicates and reordering are not modelled.
//!
//! Work is done for what changes: a stream is touched when its share changes, a link when its
//! load does. Where more than a thousand streams send at once, most of them are touched by most
//! changes, and changes are collected for 100 ns a stream (18 ms for 180,000).

mod backlog;
mod deadlines;
mod delays;
mod ends;
mod flow;
mod links;
mod net;
mod paced;
mod route;
mod rpc;
mod stream;
mod tcp;
mod trace;
mod transfers;

use std::sync::Arc;

use base::{FlowId, Histogram, LinkId, Time};
use fabric::{LinkStats, QueueLevel};
use lab::plan::{Action, Event, Plan};
use outcome::{FlowResult, Schedule, What};
use record::{FlowSample, Transfer};

use crate::canonical::Canonical;
use crate::{Result, engine, given};
use ends::Ends;
use flow::Flow;
use net::{Net, News};

/// Shares may be off by so much, relatively: the price of sparing all others a small change.
const TOLERANCE: f64 = 1e-4;

/// A plan on the virtual clock, its flows as rates, in memory.
///
/// The same interface as [`crate::Simulation`], and the same order of events: by time, then by
/// [`base::Rank`], where shares of links are what flows agree on; then what was scheduled first.
pub struct Simulation {
    net: Net,
    flows: Vec<Flow>,
    schedule: Schedule,
    happened: Vec<Event>,
    changes: u64,
    transfers: Vec<Transfer>,
    /// For each link of the original plan, its place in the sorted one.
    links: Vec<usize>,
    /// Likewise for flows.
    order: Vec<usize>,
    finite: bool,
    /// Finite flows that have not ended.
    pending: i64,
    last_sample: Time,
}

impl Simulation {
    /// Builds the network and its flows; nothing has been sent yet.
    ///
    /// # Errors
    /// As those of [`crate::Simulation::try_new`].
    pub fn try_new(plan: &Plan) -> Result<Self> {
        engine::refuse(plan)?;
        refuse(plan)?;
        let sorted = Canonical::new(plan);
        let (routes, given, _) = given::flows(&sorted)?;
        let Canonical { plan, links, flows: ids, .. } = sorted;
        let plan = Arc::new(plan);
        let ends = given.iter().map(|(given, legs)| Ends::new(&plan, given, legs)).collect();
        let mut net = Net::new(Arc::clone(&plan), routes, ends, TOLERANCE);
        let flows: Vec<Flow> = given.into_iter().map(|(given, _)| Flow::new(given)).collect();
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
            links: engine::inverse(&links, LinkId::index),
            order: engine::inverse(&ids, FlowId::index),
            finite: pending > 0,
            pending,
            flows,
            last_sample: Time::ZERO,
        })
    }

    /// How far it is.
    pub fn now(&self) -> Time {
        self.net.now
    }

    /// When something next happens; `None` if nothing ever will.
    pub fn next(&self) -> Option<Time> {
        [self.schedule.next(), self.net.next()].into_iter().flatten().min()
    }

    /// Whether all that has an end of its own has come to it: nothing more is worth waiting for.
    pub fn is_done(&self) -> bool {
        self.finite && self.pending == 0 && self.schedule.next().is_none()
    }

    /// Runs up to and including `until`, or to the moment at which it is done.
    pub fn advance(&mut self, until: Time) {
        self.advance_at_most(until, u64::MAX);
    }

    /// As [`Self::advance`], but for so many moments at most; tells whether it got there.
    pub fn advance_at_most(&mut self, until: Time, turns: u64) -> bool {
        for _ in 0..turns {
            if self.is_done() {
                return true;
            }
            match self.next() {
                Some(at) if at <= until => self.step(at),
                _ => {
                    self.net.now = self.net.now.max(until);
                    return true;
                }
            }
        }
        false
    }

    /// All that happens at one moment.
    fn step(&mut self, at: Time) {
        self.net.now = at;
        if self.schedule.next() == Some(at) {
            self.change(at);
        }
        while let Some(news) = self.net.poll() {
            let flow = match news {
                News::Start(flow) | News::Expire { flow, .. } | News::Wake { flow, .. } => flow,
                News::Ready { stream } | News::Arrived { stream } => self.net.stream(stream).0,
            };
            let flow = &mut self.flows[flow as usize];
            self.pending += if matches!(news, News::Start(_)) {
                flow.on_start(&mut self.net, &mut self.transfers)
            } else {
                flow.on_news(&mut self.net, &mut self.transfers, news)
            };
        }
        self.net.settle_in_time();
    }

    /// Changes of the lab.
    fn change(&mut self, at: Time) {
        for change in self.schedule.changes(at) {
            match change.what {
                What::Configure(link, direction, config) => {
                    let direction = 2 * link.index() + direction.index();
                    self.net.configure(direction as u32, &config);
                }
                What::Service { links, up, forwarding } => {
                    for link in links {
                        self.net.set_up(link.index(), up);
                    }
                    if let Some(routes) = forwarding {
                        self.net.reroute(*routes);
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

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.net.handled + self.changes
    }

    /// Links that packets would have crossed, summed over all.
    pub fn packet_hops(&self) -> u64 {
        self.net.packet_hops()
    }

    /// A hash over what happened and when: starts, ends, every change of a rate, every arrival.
    pub fn trace_hash(&self) -> u64 {
        self.net.trace.hash()
    }

    /// Bytes that flows, streams, links and pending events take.
    pub fn memory(&self) -> u64 {
        self.net.memory() + (self.flows.len() * size_of::<Flow>()) as u64
    }

    /// The counters of all links as [`outcome::LinkLedger::enter`] takes them. Peaks begin anew.
    pub fn link_counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        let sorted = self.net.counters();
        let both = |at: &usize| sorted[at * 2..at * 2 + 2].to_vec();
        self.links.iter().flat_map(both).collect()
    }

    /// How long packets waited in each direction of the links, by how the queues went while they
    /// were sent. Taken: it counts anew from here.
    pub fn take_queue_delays(&mut self) -> Vec<Histogram> {
        let sorted = self.net.delays();
        let both = |at: &usize| sorted[at * 2..at * 2 + 2].to_vec();
        self.links.iter().flat_map(both).collect()
    }

    /// Cuts the samples of the interval that ends now.
    pub fn sample(&mut self, mut sink: impl FnMut(FlowSample)) {
        for at in &self.order {
            self.flows[*at].sample(&mut self.net, self.last_sample).into_iter().for_each(&mut sink);
        }
        self.last_sample = self.net.now;
    }

    /// Takes the transfers that are over since the last call.
    pub fn transfers(&mut self) -> impl Iterator<Item = Transfer> {
        self.transfers.drain(..)
    }

    /// Takes the events of the lab that took place since the last call.
    pub fn happened(&mut self) -> impl Iterator<Item = Event> {
        self.happened.drain(..)
    }

    /// Stops what still runs. Samples and transfers may be taken once more.
    pub fn stop(&mut self) {
        for flow in &mut self.flows {
            self.pending += flow.stop(&mut self.net, &mut self.transfers);
        }
    }

    /// What each flow achieved, in the order of the plan.
    pub fn results(self) -> Vec<FlowResult> {
        let mut results: Vec<FlowResult> = self.flows.into_iter().map(Flow::into_result).collect();
        results.sort_by_key(|result| result.id);
        results
    }
}
/// Flows that need packets.
fn refuse(plan: &Plan) -> Result<()> {
    use lab::plan::Traffic::{Bulk, Queries, Requests};
    for flow in &plan.flows {
        let what = match flow.traffic {
            Requests { .. } | Queries { .. } => "requests over UDP or with `arrivals`",
            Bulk { rate: Some(_), .. } => "the pieces of TCP with a `rate`",
            Bulk { pause: Some(_), .. } => "the buffers of receivers that pause",
            _ => continue,
        };
        let why = format!("{what} are packets: `model = \"hop\"`");
        return Err(crate::Error::ImpossibleFlow { flow: flow.name.clone(), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::Span;

    use super::net::Event;
    use super::*;

    const LAB: &str = "[lab]\nmodel = \"fluid\"\nduration = \"5 s\"\n[node.a]\n[node.b]\n\
        [[link]]\nends = [\"a\", \"b\"]\nrate = \"8 Mbit/s\"\ndelay = \"10 ms\"\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\n";

    #[test]
    fn timers_follow_what_arrives_at_the_same_time() {
        let plan = lab::parse("lab.toml", LAB, Path::new(".")).unwrap().plans.swap_remove(0);
        let mut first = Simulation::try_new(&plan).unwrap();
        first.advance(Time::ZERO);
        let ready = first.next().unwrap();
        let mut again = Simulation::try_new(&plan).unwrap();
        again.net.schedule(ready, Event::Wake { flow: 0, run: 7 });
        again.advance(Time::from_nanos(ready.as_nanos() - 1));
        again.net.now = ready;
        assert!(matches!(again.net.poll(), Some(News::Ready { .. })));
        assert_eq!(again.net.poll(), Some(News::Wake { flow: 0, run: 7 }));
        assert!(ready > Time::ZERO + Span::from_millis(19), "{ready}");
    }
}
