//! The metrics of a lab, of its host, and of its links, flows and programs.

use base::Metric;
use run::live::{DirectionRow, ProgramState};
use run::record::Clock;

use super::{Link, MAX_ELEMENTS, State};

const STATES: [ProgramState; 5] = [
    ProgramState::Waiting,
    ProgramState::Running,
    ProgramState::Ready,
    ProgramState::Exited,
    ProgramState::Failed,
];

pub(super) fn state_name(state: ProgramState) -> &'static str {
    match state {
        ProgramState::Waiting => "waiting",
        ProgramState::Running => "running",
        ProgramState::Ready => "ready",
        ProgramState::Exited => "exited",
        ProgramState::Failed => "failed",
    }
}

impl State {
    /// Identity, time and end of the run.
    pub(super) fn lab(&self, metrics: &mut Vec<Metric>) {
        let Some(hello) = &self.hello else { return };
        let clock = match hello.clock {
            Clock::Wall => "wall",
            Clock::Virtual => "virtual",
        };
        let info = Metric::gauge("info", "The lab and its run: 1.", 1.0)
            .label("lab", hello.lab.as_str())
            .label("run", hello.run.as_str())
            .label("seed", hello.seed.to_string())
            .label("clock", clock);
        metrics.push(info);
        metrics.push(Metric::gauge("time_s", "Lab time.", self.time_s));
        metrics
            .extend(hello.duration_s.map(|s| Metric::gauge("duration_s", "Maximum lab time.", s)));
        let running = f64::from(self.end.is_none() && !self.is_closed);
        metrics.push(Metric::gauge("running", "1 until the run ends.", running));
        if let Some(end) = &self.end {
            let outcome = Metric::gauge("outcome", "Outcome of the run: 1.", 1.0);
            metrics.push(outcome.label("outcome", end.outcome.as_str()));
        }
        let help = "Received frames, at most ten per second.";
        metrics.push(Metric::counter("frames", help, self.frames));
        let help = "Frames that were not received; the counters lack their values.";
        metrics.push(Metric::counter("dropped_frames", help, self.dropped_frames));
    }

    /// The effect of the host on the packets, on the wall clock.
    pub(super) fn machine(&self, metrics: &mut Vec<Metric>) {
        let Some(machine) = &self.machine else { return };
        let help = "Lateness of packets since the start; quantile 1 is the maximum.";
        for (quantile, value) in
            [("0.5", machine.late_p50_s), ("0.99", machine.late_p99_s), ("1", machine.late_max_s)]
        {
            metrics.push(Metric::gauge("lateness_s", help, value).label("quantile", quantile));
        }
        let help = "Stalls of the data path: deadlines that it missed by 1 ms or more.";
        metrics.push(Metric::counter("stalls", help, machine.stalls));
        metrics.push(Metric::gauge("stalled_s", "Length of all stalls.", machine.stalled_s));
        let help = "1 if late and dropped packets do not affect the results so far.";
        metrics.push(Metric::gauge("trusted", help, f64::from(machine.trusted)));
    }

    /// Sums over all elements.
    pub(super) fn totals(&self, metrics: &mut Vec<Metric>) {
        let sum = |of: fn(&Link) -> u64| self.links.iter().map(of).sum::<u64>();
        let sent = sum(|link| link.sent_bytes.iter().sum());
        metrics.push(Metric::counter("sent_bytes", "Wire bytes sent over all links.", sent));
        let dropped = sum(|link| link.dropped_packets.iter().sum());
        metrics.push(Metric::counter("dropped_packets", "Packets dropped at links.", dropped));
        let received = self.flows.iter().map(|flow| flow.received_bytes).sum();
        let help = "Payload bytes that built-in flows received.";
        metrics.push(Metric::counter("received_bytes", help, received));
        for state in STATES {
            let count = self.programs.iter().filter(|row| row.state == state).count();
            let programs = Metric::gauge("programs", "Programs in this state.", count as f64);
            metrics.push(programs.label("state", state_name(state)));
        }
        let help = "Elements without their own metrics, because the lab has more than 500.";
        for (kind, count) in [
            ("link", self.links.len()),
            ("flow", self.flows.len()),
            ("program", self.programs.len()),
        ] {
            let omitted = count.saturating_sub(MAX_ELEMENTS) as f64;
            metrics.push(Metric::gauge("omitted_elements", help, omitted).label("kind", kind));
        }
    }

    /// Metrics of each link, flow and program up to [`MAX_ELEMENTS`].
    pub(super) fn elements(&self, metrics: &mut Vec<Metric>) {
        let Some(hello) = &self.hello else { return };
        let node = |at: u32| hello.nodes.get(at as usize).map_or("", |node| node.name.as_str());
        for (link, shown) in self.links.iter().zip(&hello.links).take(MAX_ELEMENTS) {
            let up = Metric::gauge("link_up", "1 while the link is up.", f64::from(link.values.up));
            metrics.push(up.label("link", shown.name.as_str()));
            for side in 0..2 {
                let [from, to] = [shown.ends[side], shown.ends[1 - side]].map(node);
                let own = link.direction(side).into_iter();
                metrics.extend(own.map(|metric| {
                    let metric = metric.label("link", shown.name.as_str());
                    metric.label("from", from).label("to", to)
                }));
            }
        }
        for (flow, shown) in self.flows.iter().zip(&hello.flows).take(MAX_ELEMENTS) {
            let help = "Rate of received payload.";
            let goodput = Metric::gauge("flow_goodput_bit_s", help, flow.goodput_bps);
            let rtt = flow.rtt_s.map(|rtt| Metric::gauge("flow_rtt_s", "Smoothed RTT.", rtt));
            let help = "Received payload bytes.";
            let received = Metric::counter("flow_received_bytes", help, flow.received_bytes);
            let help = "Retransmitted segments or lost datagrams.";
            let lost = Metric::counter("flow_lost_packets", help, flow.lost_packets);
            let own = [goodput, received, lost].into_iter().chain(rtt);
            metrics.extend(own.map(|metric| metric.label("flow", shown.name.as_str())));
        }
        for (row, shown) in self.programs.iter().zip(&hello.programs).take(MAX_ELEMENTS) {
            let state = Metric::gauge("program_state", "State of the program: 1.", 1.0);
            let state = state.label("program", shown.name.as_str()).label("node", node(shown.node));
            metrics.push(state.label("state", state_name(row.state)));
        }
    }
}

impl Link {
    /// The metrics of a direction.
    fn direction(&self, side: usize) -> Vec<Metric> {
        let DirectionRow { sent_bps, queue_bytes, queue_delay_s, .. } = self.row.directions[side];
        let values = &self.values;
        let counter = Metric::counter;
        let mut metrics = vec![
            gauge("link_rate_bit_s", "Rate of sent wire bytes.", sent_bps),
            gauge("link_queue_bytes", "Maximum queue in wire bytes.", queue_bytes as f64),
            gauge("link_queue_delay_s", "Maximum queueing delay.", queue_delay_s),
            gauge("link_delay_s", "Configured delay.", values.delay_s[side]),
            gauge("link_loss_ratio", "Configured mean loss.", values.loss[side]),
            counter("link_sent_bytes", "Sent wire bytes.", self.sent_bytes[side]),
            counter("link_dropped_packets", "Dropped packets.", self.dropped_packets[side]),
        ];
        if let Some(limit) = values.rate_bps[side].filter(|limit| *limit > 0.0) {
            metrics.push(gauge("link_rate_limit_bit_s", "Configured rate.", limit));
            let share = sent_bps / limit;
            metrics.push(gauge("link_utilization_ratio", "Rate / configured rate.", share));
        }
        if let Some(limit) = values.queue_bytes[side] {
            metrics.push(gauge("link_queue_limit_bytes", "Maximum queue.", limit as f64));
        }
        metrics
    }
}

/// A value of the last frame.
const fn gauge(name: &'static str, help: &'static str, value: f64) -> Metric {
    Metric::gauge(name, help, value)
}
