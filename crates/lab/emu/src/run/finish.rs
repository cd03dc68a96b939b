//! The end of a run: ends the programs and writes the record.

use std::sync::Arc;

use base::{Bytes, Histogram, ProgramId, Span, Time};
use lab::routes::Routes;
use run::observation::{Ending, Messages, Observation, ObservationWriter};
use run::record::{EventRecord, HostFaults, HostLoad, Machine, Status};
use run::shards::{self, Shard, ShardResults};
use run::{Ledgers, RunRecord, verdict};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::lab::{Job, MAX_TURN_INTERVAL, Running};
use super::live;
use super::recording::{self, Recording};
use super::summary;
use crate::datapath::Report;
use crate::enclosure;
use crate::error::{READ_ONLY_HELP, is_read_only};
use crate::flow::{FlowEngine, FlowResult, FlowResults};
use crate::program::Supervisor;
use crate::{Error, Result};

/// Time after the programs' own grace times after which the kernel ends remaining processes.
const END_TIMEOUT: Span = Span::from_secs(2);

/// The reason for the end of a run.
pub(super) enum End {
    /// Its duration is over, or all finite work is done.
    Complete,
    Interrupted,
    /// A required part of the lab failed.
    Failed(Error),
}

impl End {
    fn status_and_error(self) -> (Status, Option<Error>) {
        match self {
            Self::Complete => (Status::Finished, None),
            Self::Interrupted => (Status::Interrupted, None),
            Self::Failed(error) => (Status::Failed, Some(error)),
        }
    }
}

/// The data for a run's record, after everything has ended.
struct RunData {
    ended: Time,
    results: Vec<FlowResult>,
    flow_waits: Histogram,
    report: Report,
    host: HostFaults,
    load: HostLoad,
    supervisor: Supervisor,
    routes: Arc<Routes>,
    events: Vec<EventRecord>,
    warnings: Vec<String>,
    clock_bound: Span,
    status: Status,
    failure: Option<Error>,
}

impl Running {
    pub(super) fn finish(mut self, end: End) -> Result<()> {
        let ended = self.now();
        let FlowResults { results, waits: flow_waits } =
            self.flows.take().map_or_else(FlowResults::default, FlowEngine::finish);
        let unwritten = self.end_programs();
        self.warn_of_programs();
        let dropped = self.device_drops() + self.receiver_drops(&results);
        let (mut report, batches) = match self.datapath.finish() {
            Ok(finished) => finished,
            Err(error) => {
                self.warnings.push(error.to_string());
                (Report::default(), Vec::new())
            }
        };
        for batch in batches {
            self.recording.enter(batch);
        }
        // The data path has made these changes, too.
        let now = self.clock.now();
        self.requests.log_due(now, &self.recorder, &self.tap, &mut self.events);
        self.warnings.append(&mut report.warnings);
        self.flow_samples.try_iter().for_each(|seen| self.recording.keep(seen));
        live::finish(&self.tap, self.outbox, ended);
        let (load, steal_s) = self.meter.finish(&report);
        let recorded = self.recorder.finish();
        let (mut status, mut failure) = end.status_and_error();
        let lost = report.calls.as_ref().map_or(0, |calls| calls.lost);
        let unrecorded = report.calls.as_mut().and_then(|calls| calls.error.take());
        let unwritten = unwritten.or(recorded.error.or(unrecorded).map(Error::Record));
        if let Some(error) = unwritten {
            status = Status::Failed;
            failure = failure.or(Some(error));
        }
        if lost > 0 {
            self.warnings
                .push(format!("cannot be replayed: {lost} calls were not written in time"));
        }
        let host = HostFaults {
            steal_s,
            dropped_packets: dropped,
            capture_drops: recorded.capture_drops,
            records_lost: recorded.records_lost + lost,
            cpu_s: report.cpu.as_secs_f64(),
        };
        let data = RunData {
            ended,
            results,
            flow_waits,
            report,
            host,
            load,
            supervisor: self.supervisor,
            routes: self.routes,
            events: self.events,
            warnings: self.warnings,
            clock_bound: self.clock_bound,
            status,
            failure,
        };
        match self.recording {
            Recording::Whole(ledgers) => complete_record(self.job, data, &ledgers)?,
            Recording::Shard(writer) => write_observations(self.job, data, *writer)?,
        }
        if let Some(enclosure) = Arc::into_inner(self.enclosure) {
            enclosure::close(enclosure.hosts);
        }
        Ok(())
    }

    /// Adds warnings about output that is not in the files, and about processes killed
    /// for lack of memory.
    fn warn_of_programs(&mut self) {
        for (at, program) in self.job.plan.programs.iter().enumerate() {
            let id = ProgramId::at(at);
            let has_failed =
                self.supervisor.is_here(id) && !self.supervisor.outcome(id).as_expected;
            if has_failed && is_read_only(&self.supervisor.last_stderr(id)) {
                let text = format!("program {}: {READ_ONLY_HELP}", program.name);
                self.warnings.push(text);
            }
            let discarded = self.supervisor.discarded_output(id);
            if discarded > 0 {
                let (name, limit) = (&program.name, program.output);
                let discarded = Bytes::new(discarded);
                self.warnings.push(format!(
                    "program {name}: {discarded} of its output are missing: the limit is {limit}"
                ));
            }
        }
        let kills = self.supervisor.oom_kills();
        if kills > 0 {
            let text = format!("out of memory: the kernel's OOM killer ended {kills} processes");
            self.warnings.push(text);
        }
    }

    /// Ends every program with its grace time; remaining processes end with this process. Returns
    /// an error of their output.
    fn end_programs(&mut self) -> Option<Error> {
        let start = self.now();
        self.supervisor.shutdown(start);
        let grace = self.job.plan.programs.iter().map(|program| program.grace).max();
        let until = start + grace.unwrap_or_default() + END_TIMEOUT;
        let mut failed = None;
        loop {
            let now = self.now();
            for event in self.supervisor.step(now) {
                failed = failed.or(self.log_program_event(event, now));
            }
            if self.supervisor.is_over() || now >= until {
                return failed;
            }
            let mut fds: Vec<_> = self
                .supervisor
                .files()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: MAX_TURN_INTERVAL.as_nanos() as i64 };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
    }

    /// Datagrams dropped because the receivers' socket buffers were full. The kernel's counter
    /// includes damaged datagrams, which the lab causes on purpose, so these are subtracted.
    fn receiver_drops(&mut self, results: &[FlowResult]) -> u64 {
        let datagrams = results.iter().filter_map(|result| result.datagrams);
        let mut sum: u64 = datagrams.map(|counts| counts.overrun).sum();
        for host in &self.enclosure.hosts {
            if sum == 0 {
                break;
            }
            match enclosure::damaged_datagrams(host, &self.job.plan) {
                Ok(damaged) => sum = sum.saturating_sub(damaged),
                Err(error) => self.warnings.push(error.to_string()),
            }
        }
        sum
    }

    fn device_drops(&mut self) -> u64 {
        let mut sum = 0;
        let expected = |iface, count| self.kernels.dropped_without_carrier(iface, count);
        for host in &self.enclosure.hosts {
            match enclosure::device_drops(host, &self.job.plan, expected) {
                Ok(drops) => sum += drops,
                Err(error) => self.warnings.push(error.to_string()),
            }
        }
        sum
    }
}

impl RunData {
    /// The report of this shard about its host.
    fn ending(&mut self, record: &RunRecord) -> Ending {
        let report = &mut self.report;
        let traffic = &report.agreement;
        Ending {
            at: self.ended,
            status: self.status,
            failure: self.failure.as_ref().map(Error::failure),
            machine: Machine { realtime: report.realtime, ..record.machine.clone() },
            engine: record.engine.clone(),
            messages: Messages {
                sent: traffic.sent.messages,
                sent_bytes: traffic.sent.bytes,
                received: traffic.received.messages,
                received_bytes: traffic.received.bytes,
                unsent: traffic.unsent,
            },
            lateness: std::mem::take(&mut report.lateness),
            ingress: std::mem::take(&mut report.ingress),
            stalls: std::mem::take(&mut report.stalls),
            flow_waits: std::mem::take(&mut self.flow_waits),
            notices: std::mem::take(&mut report.notices),
            delivered: report.delivered,
            distorted: report.distorted,
            rejected: report.rejected,
            memory_drops: report.memory_drops,
            overrun: report.overrun,
            cpu: report.cpu,
            cpus: sys::sched::cpus() as u32,
            host: std::mem::take(&mut self.host),
            load: std::mem::take(&mut self.load),
            clock_bound: Some(self.clock_bound),
            events: std::mem::take(&mut self.events),
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}

/// Completes the record of a run with one shard.
fn complete_record(job: Job, mut data: RunData, ledgers: &Ledgers) -> Result<()> {
    let plan = &job.plan;
    let mut record = job.record;
    let ending = data.ending(&record);
    let RunData { ended, results, report, .. } = data;
    record.warnings.clone_from(&ending.warnings);
    let programs = summary::programs(plan, &data.supervisor);
    record.programs = programs.into_iter().map(|(_, summary)| summary).collect();
    if let Some(calls) = &report.calls
        && calls.lost == 0
    {
        record.trace_hash = Some(run::hash_text(report.trace_hash));
    }
    let tolerance = verdict::tolerance(plan, &data.routes);
    let shards = [Shard { name: "", ending: Some(&ending), peers: &[] }];
    let ends = ShardResults {
        plan,
        shards: &shards,
        cluster: None,
        flow_results: &results,
        at: ended,
        tolerance,
    };
    let effects = shards::enter(&mut record, &ends);
    let ended = run::RunResults {
        plan,
        at: ended,
        flow_results: &results,
        links: &ledgers.links,
        flows: &ledgers.flows,
        control: &[],
        bundles: &ledgers.bundles,
        queue_delays: &report.queue_delays,
        effects: Some(&effects),
    };
    run::complete(&mut record, &ended);
    Ok(job.folder.write_record(&record)?)
}

/// Writes the observations of one of several shards for the coordinator, which creates the record.
fn write_observations(job: Job, mut data: RunData, mut writer: ObservationWriter) -> Result<()> {
    let mut record = job.record;
    for (program, summary) in summary::programs(&job.plan, &data.supervisor) {
        writer.write_blocking(&Observation::Program(program.0, Box::new(summary)));
    }
    let report = &data.report;
    let peers = job.shard.iter().flat_map(|shard| {
        let others = report.trunks.iter().enumerate();
        others.filter(|(at, _)| *at != shard.own.index()).map(|(at, seen)| {
            let lead = report.leads.get(at).copied().unwrap_or_default();
            recording::peer(at, seen, lead)
        })
    });
    let peers = peers.collect();
    let (misrouted, malformed) = (report.misrouted, report.agreement.malformed);
    if misrouted > 0 {
        let text = format!("{misrouted} packets from other agents were for no host of this agent");
        data.warnings.push(text);
    }
    if malformed > 0 {
        let text = format!("{malformed} messages from other agents were malformed");
        data.warnings.push(text);
    }
    let ending = data.ending(&record);
    let RunData { ended, results, report, failure, .. } = data;
    record.machine = ending.machine.clone();
    record.status = ending.status;
    record.elapsed_s = ended.as_secs_f64();
    record.warnings.clone_from(&ending.warnings);
    let written = writer.finish(results, &report.queue_delays, peers, ending);
    record.ended_unix_ms = Some(run::unix_ms());
    if let Some(failure) = failure.or_else(|| written.err().map(Error::Record)) {
        record.fail(failure.failure());
    }
    Ok(job.folder.write_record(&record)?)
}
