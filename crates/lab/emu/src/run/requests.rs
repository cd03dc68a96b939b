//! Requests of other commands, in the lab's process.

use std::collections::VecDeque;

use base::Time;
use lab::live::{LiveChange, mark_comment};
use lab::plan::Action;
use run::live::Tap;
use run::record::EventRecord;
use run::{Level, Recorder};

use super::lab::Running;
use crate::control::{Answer, Finding, Request};

/// Source of log lines.
const SOURCE: &str = "request";

/// Requested changes that are not in the list of events yet: a change takes effect later if events
/// of the lab file are already prepared.
#[derive(Debug, Default)]
pub(super) struct Requests(VecDeque<LiveChange>);

impl Requests {
    /// Adds the changes up to `now` to the log and to the list of events; returns their actions.
    pub(super) fn log_due(
        &mut self,
        now: Time,
        log: &Recorder,
        tap: &Tap,
        events: &mut Vec<EventRecord>,
    ) -> Vec<Action> {
        let count = self.0.partition_point(|change| change.event.at <= now);
        let actions = self.0.drain(..count).map(|LiveChange { event, fields }| {
            log.handle().log(event.at, Level::Info, SOURCE, &event.text);
            tap.with(|builder| builder.event(event.at, &event.text));
            let (at_s, text) = (event.at.as_secs_f64(), event.text);
            events.push(EventRecord { at_s, text, set: fields });
            event.action
        });
        actions.collect()
    }
}

impl Running {
    /// Handles the requested changes that are due. The data path handles those of links.
    pub(super) fn handle_due(&mut self, now: Time) {
        let due = self.requests.log_due(now, &self.recorder, &self.tap, &mut self.events);
        for action in due {
            self.apply(&action, now);
        }
    }

    pub(super) fn handle(&mut self, request: Request) -> Answer {
        let now = self.now();
        match request {
            Request::Set(fields) => self.set(now, &fields),
            Request::Mark(text) => {
                let at_events = mark_comment(now, &text);
                let text = format!("mark: {text}");
                self.recorder.handle().log(now, Level::Info, SOURCE, &text);
                let (at_s, events) = (now.as_secs_f64(), vec![text.clone()]);
                self.record_event(now, text);
                Answer::Done { at_s, events, warnings: Vec::new(), at_events }
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
        match self.schedule.compile(now, fields, &self.job.lab_dir) {
            Ok(found) => {
                let mut actions = found.changes.iter().map(|change| &change.event.action);
                if let Some(why) = actions.find_map(|action| self.supervisor.refusal(action)) {
                    return Answer::Refused { why };
                }
                for change in self.schedule.apply(&found) {
                    self.change_network(change);
                }
                let at = found.changes.first().map_or(now, |change| change.event.at);
                let events = found.changes.iter().map(|change| change.event.text.clone());
                let events = events.collect();
                let warnings = Finding::all(&found.warnings);
                self.requests.0.extend(found.changes);
                self.handle_due(now);
                let (at_s, at_events) = (at.as_secs_f64(), found.at_events);
                Answer::Done { at_s, events, warnings, at_events }
            }
            Err(wrong) => Answer::Wrong { errors: Finding::all(&wrong) },
        }
    }
}
