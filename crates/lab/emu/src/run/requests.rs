//! Requests of other commands, in the lab's process.

use std::collections::VecDeque;

use base::Time;
use lab::live::LinkChange;
use run::live::Tap;
use run::record::EventRecord;
use run::{Level, Recorder};

use super::lab::Running;
use crate::control::{Answer, Finding, Request};

/// Source of log lines.
const SOURCE: &str = "request";

/// Requested changes of links that are not in the list of events yet: a change takes effect later
/// if events of the lab file are already prepared.
#[derive(Debug, Default)]
pub(super) struct Requests(VecDeque<LinkChange>);

impl Requests {
    /// Adds the changes up to `now` to the log and to the list of events.
    pub(super) fn log_due(
        &mut self,
        now: Time,
        log: &Recorder,
        tap: &Tap,
        events: &mut Vec<EventRecord>,
    ) {
        while self.0.front().is_some_and(|change| change.event.at <= now) {
            let Some(LinkChange { event, fields }) = self.0.pop_front() else { return };
            log.handle().log(event.at, Level::Info, SOURCE, &event.text);
            tap.with(|builder| builder.event(event.at, &event.text));
            events.push(EventRecord {
                at_s: event.at.as_secs_f64(),
                text: event.text,
                set: fields,
            });
        }
    }
}

impl Running {
    pub(super) fn handle(&mut self, request: Request) -> Answer {
        let now = self.now();
        match request {
            Request::Set(fields) => self.set(now, &fields),
            Request::Mark(text) => {
                let text = format!("mark: {text}");
                self.recorder.handle().log(now, Level::Info, SOURCE, &text);
                let (at_s, events) = (now.as_secs_f64(), vec![text.clone()]);
                self.record_event(now, text);
                Answer::Done { at_s, events, warnings: Vec::new() }
            }
            Request::Clock(_) => {
                Answer::Refused { why: "the lab runs on the wall clock".to_owned() }
            }
            Request::Watch => {
                Answer::Refused { why: "the supervising process handles this request".to_owned() }
            }
        }
    }

    fn set(&mut self, now: Time, fields: &[(String, String)]) -> Answer {
        self.pass_changes(now);
        match self.schedule.set(now, fields, &self.job.lab_dir) {
            Ok((changes, found)) => {
                for change in changes {
                    self.change_network(change);
                }
                let at = found.changes.first().map_or(now, |change| change.event.at);
                let events = found.changes.iter().map(|change| change.event.text.clone());
                let events = events.collect();
                let warnings = Finding::all(&found.warnings);
                self.requests.0.extend(found.changes);
                Answer::Done { at_s: at.as_secs_f64(), events, warnings }
            }
            Err(wrong) => Answer::Wrong { errors: Finding::all(&wrong) },
        }
    }
}
