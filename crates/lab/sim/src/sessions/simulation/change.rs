//! Lab events: links that change, fail and return, and sessions that move to other paths.

use std::collections::BTreeSet;

use base::{LinkId, NodeId};
use lab::plan::{Action, Plan};
use ratecontrol::RateController;
use run::Outcome;

use super::Simulation;
use crate::sessions::table::{NONE, State};
use crate::sessions::wires::wire;

impl<R: RateController> Simulation<R> {
    /// Handles the lab events that are due.
    pub(super) fn change(&mut self) {
        let now = self.driver.net.now();
        let Some(plan) = self.plan.clone() else { return };
        while self.events.front().is_some_and(|event| event.at <= now) {
            let Some(event) = self.events.pop_front() else { break };
            self.changes += 1;
            self.apply(&plan, &event.action);
            self.happened.push(event);
        }
    }

    fn apply(&mut self, plan: &Plan, action: &Action) {
        match action {
            Action::Set { link, direction, config } => {
                let name = &plan.links[link.index()].name;
                // All were checked before the run.
                let Ok(new) = wire(name, config) else { return };
                let directed = (2 * link.index() + direction.index()) as u32;
                let old = std::mem::replace(&mut self.wires[directed as usize], new);
                self.driver.net.set_link(directed, &new);
                if new.rate != old.rate {
                    let place = self.driver.place(directed);
                    if place != NONE {
                        self.tally.last_change = self.driver.net.now();
                        self.oracle.set_capacity(place, super::oracle_capacity(new.rate));
                        self.driver.set_capacity(directed, new.rate);
                    }
                }
            }
            Action::LinkDown(link) => self.serve(plan, &[*link], false),
            Action::LinkUp(link) => self.serve(plan, &[*link], true),
            Action::NodeDown(node) => {
                self.node_up[node.index()] = false;
                self.serve(plan, &links_of(plan, *node), false);
            }
            Action::NodeUp(node) => {
                self.node_up[node.index()] = true;
                self.serve(plan, &links_of(plan, *node), true);
            }
            Action::FlowStart(flow) => self.start_flow(plan, flow.index()),
            Action::FlowStop(flow) => {
                self.leave((self.table.flows + flow.index()) as u32, Outcome::Stopped);
            }
            Action::Stop(_) | Action::Kill(_) | Action::Start(_) | Action::Box(..) => {}
        }
    }

    /// Takes links out of service or back; a link with a node that is down stays out.
    fn serve(&mut self, plan: &Plan, links: &[LinkId], up: bool) {
        for link in links {
            let ends = plan.links[link.index()].ends;
            let up = up && ends.iter().all(|end| self.node_up[end.index()]);
            if self.up[link.index()] != up {
                self.up[link.index()] = up;
                self.driver.net.set_up(*link, up);
            }
        }
        let crossed = |link: &LinkId| {
            let link = 2 * link.index() as u32;
            [link, link + 1].iter().any(|link| self.driver.place(*link) != NONE)
        };
        let loses = !up && links.iter().any(crossed);
        self.reroute(plan, up, loses);
    }

    /// Finds new paths: for members whose path has failed and, if `all` (a link has returned), for
    /// all members. If links expire state, the old path gets a Leave, and links that the Leave does
    /// not reach expire their state. With other protocols, since the packet that could release
    /// state may be lost, all links are reset and all members join again if a session moves or if
    /// `loses` (a link in use has failed, so packets may be lost).
    //= deviation: papers leave this to "classical techniques" or do not mention it. A Leave from
    // the router beside the failed link would have to know what the lost packet had done beyond.
    fn reroute(&mut self, plan: &Plan, all: bool, loses: bool) {
        let lost = |member: u32| {
            let run = self.table.members[member as usize].run;
            let path = if run == NONE { &[] } else { self.driver.net.path(run) };
            path.is_empty() || path.iter().any(|link| !self.up[*link as usize / 2])
        };
        let seeking: Vec<u32> = (0..self.table.members.len() as u32)
            .filter(|member| self.table.members[*member as usize].state != State::Left)
            .filter(|member| all || lost(*member))
            .collect();
        let found = self.paths(plan, &self.up, &seeking);
        let moved = seeking.iter().zip(found.iter()).filter(|(member, path)| {
            let run = self.table.members[**member as usize].run;
            *path != if run == NONE { &[] } else { self.driver.net.path(run) }
        });
        let moved: Vec<(u32, &[u32])> = moved.map(|(member, path)| (*member, path)).collect();
        let joined = |member: u32| {
            let member = &self.table.members[member as usize];
            member.state == State::Present && member.run != NONE
        };
        let anew = !self.forgets && (loses || moved.iter().any(|(member, _)| joined(*member)));
        let mut others = Vec::new();
        if anew {
            let moves: BTreeSet<u32> = moved.iter().map(|(member, _)| *member).collect();
            others.extend((0..self.table.members.len() as u32).filter(|member| joined(*member)));
            others.retain(|member| !moves.contains(member));
            self.driver.forget(&self.wires);
        }
        for (member, path) in moved {
            self.move_to(member, path);
        }
        for member in others {
            self.rejoin(member);
        }
    }

    /// A member whose session was reset at all links joins again over the same path. It
    /// sends data meanwhile.
    fn rejoin(&mut self, member: u32) {
        let old = self.table.members[member as usize].run;
        let (rate, left) = (self.driver.rate(old), self.driver.net.left(old));
        let path = self.driver.net.path(old).to_vec();
        // It is the old path, which was valid.
        let Ok(run) = self.give_path(member, &path) else { return };
        if let Some(left) = left {
            self.driver.net.set_amount(run, left);
        }
        self.tally.last_change = self.driver.net.now();
        let demand = self.table.members[member as usize].demand();
        self.driver.join(run, demand);
        if let Some(rate) = rate {
            self.driver.carry_on(run, rate);
        }
    }

    /// A member moves to another path, or waits for one.
    fn move_to(&mut self, member: u32, path: &[u32]) {
        let entry = &self.table.members[member as usize];
        let (run, state) = (entry.run, entry.state);
        // Data lost on the old path is not retransmitted.
        let left = if run == NONE { None } else { self.driver.net.left(run) };
        if state == State::Present {
            self.exit(member);
        }
        self.table.members[member as usize].run = NONE;
        if !path.is_empty() {
            // The new path is of the same kind as earlier ones; a member with a rejected
            // path has none.
            if let Ok(run) = self.give_path(member, path)
                && let Some(left) = left
            {
                self.driver.net.set_amount(run, left);
            }
        }
        if state == State::Present {
            self.tally.rerouted += u64::from(run != NONE);
            self.enter(member);
        }
    }

    /// Starts a flow that has ended or not begun.
    fn start_flow(&mut self, plan: &Plan, flow: usize) {
        let member = (self.table.flows + flow) as u32;
        let Some(state) = self.table.members.get(member as usize).map(|entry| entry.state) else {
            return;
        };
        if state == State::Present {
            return;
        }
        self.table.restart(member, self.driver.net.now());
        if state == State::Left {
            // The protocol may still use the old run, whose path may have failed.
            self.unfinished += 1;
            self.table.members[member as usize].run = NONE;
            let found = self.paths(plan, &self.up, &[member]);
            if !found.path(0).is_empty() {
                let _ = self.give_path(member, found.path(0));
            }
        }
        if let Some(at) = self.table.next_wake() {
            self.driver.wake_for_agenda(at);
        }
        self.join(member);
    }
}

#[cfg(test)]
impl<R: RateController> Simulation<R> {
    /// Results of `say` for the links that sessions cross, in their order.
    pub(in crate::sessions) fn links<T>(&self, say: impl Fn(&R::Link) -> T) -> Vec<T> {
        self.crossed().map(|(_, place)| say(self.driver.link(place))).collect()
    }

    /// Number of sessions that cross each of these links.
    pub(in crate::sessions) fn present(&self) -> Vec<u64> {
        let there =
            self.table.members.iter().filter(|m| m.state == State::Present && m.run != NONE);
        let paths: Vec<&[u32]> = there.map(|member| self.driver.net.path(member.run)).collect();
        let on = |link: u32| paths.iter().filter(|path| path.contains(&link)).count() as u64;
        self.crossed().map(|(link, _)| on(link)).collect()
    }

    fn crossed(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = (0..self.wires.len() as u32).map(|link| (link, self.driver.place(link)));
        all.filter(|(_, place)| *place != NONE)
    }
}

fn links_of(plan: &Plan, node: NodeId) -> Vec<LinkId> {
    let ifaces = &plan.nodes[node.index()].ifaces;
    ifaces.iter().map(|iface| plan.ifaces[iface.index()].link).collect()
}
