//! The end of a run: programs get their grace, what was seen becomes the record.

use std::sync::Arc;

use base::{Bytes, ProgramId, Span, Time};
use lab::routes::Routes;
use outcome::observation::{Ending, Messages, Observation, ObservationWriter};
use outcome::{Ledgers, verdict};
use record::run::{EventRecord, HostFaults, HostLoad, Status};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::books::{self, Books};
use super::lab::{Job, ROUND, Running};
use super::summary;
use crate::datapath::Report;
use crate::enclosure;
use crate::flow::{FlowEngine, FlowResult};
use crate::program::Supervisor;
use crate::{Error, Result};

/// After the programs' own grace times, what still stands is left to the kernel.
const PATIENCE: Span = Span::from_secs(2);

/// Why a run ends.
pub(super) enum End {
    /// Its time is over, or everything finite has finished.
    Complete,
    /// Its user ended it.
    Interrupted,
    /// Something that the lab needs failed.
    Failed(Error),
}

impl End {
    /// The status to record, and what went wrong.
    fn told(self) -> (Status, Option<Error>) {
        match self {
            Self::Complete => (Status::Finished, None),
            Self::Interrupted => (Status::Interrupted, None),
            Self::Failed(error) => (Status::Failed, Some(error)),
        }
    }
}

/// What a run's record is made of, once all has ended.
struct Remains {
    ended: Time,
    results: Vec<FlowResult>,
    report: Report,
    host: HostFaults,
    load: HostLoad,
    supervisor: Supervisor,
    routes: Routes,
    events: Vec<EventRecord>,
    warnings: Vec<String>,
    clock_bound: Span,
    status: Status,
    failure: Option<Error>,
}

impl Running {
    pub(super) fn finish(mut self, end: End) -> Result<()> {
        let ended = self.now();
        let results = self.flows.take().map_or_else(Vec::new, FlowEngine::finish);
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
            self.books.enter(batch);
        }
        self.warnings.append(&mut report.warnings);
        self.flow_samples.try_iter().for_each(|seen| self.books.keep(seen));
        let (load, steal_s) = self.meter.finish(&report);
        let recorded = self.recorder.finish();
        let (mut status, mut failure) = end.told();
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
        let remains = Remains {
            ended,
            results,
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
        match self.books {
            Books::Whole(ledgers) => whole(self.job, remains, &ledgers)?,
            Books::Piece(writer) => piece(self.job, remains, *writer)?,
        }
        if let Some(enclosure) = Arc::into_inner(self.enclosure) {
            enclosure::close(enclosure.hosts);
        }
        Ok(())
    }

    /// Warns of output that is not in the files, and of processes that ran out of memory.
    fn warn_of_programs(&mut self) {
        for (at, program) in self.job.plan.programs.iter().enumerate() {
            let discarded = self.supervisor.discarded_output(ProgramId::at(at));
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

    /// Every program gets its grace; what outlives it dies with this process. The result is an
    /// error of their output.
    fn end_programs(&mut self) -> Option<Error> {
        let start = self.now();
        self.supervisor.shutdown(start);
        let grace = self.job.plan.programs.iter().map(|program| program.grace).max();
        let until = start + grace.unwrap_or_default() + PATIENCE;
        let mut failed = None;
        loop {
            let now = self.now();
            for event in self.supervisor.step(now) {
                failed = failed.or(self.note(event, now));
            }
            if self.supervisor.is_over() || now >= until {
                return failed;
            }
            let mut fds: Vec<_> = self
                .supervisor
                .files()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: ROUND.as_nanos() as i64 };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
    }

    /// Datagrams that flows' receivers had no room for. The kernel counts damaged ones together
    /// with them, and those are the lab's doing.
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
        for host in &self.enclosure.hosts {
            match enclosure::device_drops(host, &self.job.plan) {
                Ok(drops) => sum += drops,
                Err(error) => self.warnings.push(error.to_string()),
            }
        }
        sum
    }
}

/// Writes the record of a run that was all here.
fn whole(job: Job, remains: Remains, ledgers: &Ledgers) -> Result<()> {
    let Remains { ended, results, report, failure, .. } = remains;
    let mut record = job.record;
    record.status = remains.status;
    let found = summary::Found {
        plan: &job.plan,
        at: ended,
        results: &results,
        supervisor: &remains.supervisor,
        report: &report,
        host: remains.host,
        load: remains.load,
        tolerance: verdict::tolerance(&job.plan, &remains.routes),
    };
    summary::enter(&mut record, found);
    record.events = remains.events;
    record.warnings = remains.warnings;
    if let Some(error) = failure {
        record.fail(error.failure());
    }
    let ended = outcome::Ended {
        plan: &job.plan,
        at: ended,
        results: &results,
        links: &ledgers.links,
        flows: &ledgers.flows,
        control: &[],
        bundles: &ledgers.bundles,
        queue_delays: &report.queue_delays,
    };
    outcome::complete(&mut record, &ended);
    Ok(job.folder.write_record(&record)?)
}

/// Writes what a piece has seen for whoever makes the record of the whole.
fn piece(job: Job, remains: Remains, mut writer: ObservationWriter) -> Result<()> {
    let Remains { ended, report, failure, .. } = remains;
    let mut record = job.record;
    record.machine.realtime = report.realtime;
    for (program, summary) in summary::programs(&job.plan, &remains.supervisor) {
        writer.write_at_last(&Observation::Program(program.0, Box::new(summary)));
    }
    let peers = job.piece.iter().flat_map(|piece| {
        let others = report.trunks.iter().enumerate();
        others.filter(|(at, _)| *at != piece.own.index()).map(|(at, seen)| {
            let lead = report.leads.get(at).copied().unwrap_or_default();
            books::peer(at, seen, lead)
        })
    });
    let mut warnings = remains.warnings;
    if report.astray > 0 {
        let astray = report.astray;
        warnings.push(format!("{astray} packets of other members were for no host here"));
    }
    if report.talk.malformed > 0 {
        let malformed = report.talk.malformed;
        warnings.push(format!("{malformed} messages of other members could not be read"));
    }
    let ending = Ending {
        at: ended,
        status: remains.status,
        failure: failure.as_ref().map(Error::failure),
        machine: record.machine.clone(),
        engine: record.engine.clone(),
        lateness: report.lateness,
        ingress: report.ingress,
        notices: report.notices,
        messages: Messages {
            sent: report.talk.sent.messages,
            sent_bytes: report.talk.sent.bytes,
            received: report.talk.received.messages,
            received_bytes: report.talk.received.bytes,
            unsent: report.talk.unsent,
        },
        delivered: report.delivered,
        rejected: report.rejected,
        memory_drops: report.memory_drops,
        overrun: report.overrun,
        cpu: report.cpu,
        cpus: sys::sched::cpus() as u32,
        host: remains.host,
        load: remains.load,
        clock_bound: Some(remains.clock_bound),
        events: remains.events,
        warnings: warnings.clone(),
    };
    let written = writer.finish(remains.results, &report.queue_delays, peers.collect(), ending);
    record.status = remains.status;
    record.elapsed_s = ended.as_secs_f64();
    record.ended_unix_ms = Some(outcome::unix_ms());
    record.warnings = warnings;
    if let Some(failure) = failure.or_else(|| written.err().map(Error::Record)) {
        record.fail(failure.failure());
    }
    Ok(job.folder.write_record(&record)?)
}
