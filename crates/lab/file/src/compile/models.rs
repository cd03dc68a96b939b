//! `model`: the settings of `"collapsed"`, and features that models other than `"hop"` do
//! not support or approximate.

use base::{Bytes, Direction, LinkId};
use fabric::{Collapsed, Discipline, Jitter, JitterShape, LinkConfig, Loss, Rate, Sharing, Window};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::Sink;
use crate::fields::{DIRECTION, Field, IMPORT, Kind, LAB, LINK};
use crate::plan::{Action, Model, Routing};
use crate::tree::{At, Table};
use crate::validate::list_words;

const KEYS: [&Field; 3] = keys!(LAB: sharing, window, acks);

/// The model of the lab with its settings. Settings of other models are permitted, so that one file
/// runs with each model.
pub(super) fn model(lab: &Table, sink: &mut Sink) -> Model {
    let other = match lab.read(LAB.model) {
        "collapsed" => {
            let law = law(lab);
            if law.sharing == Sharing::Slbn && lab.read(LAB.record) {
                refuse_recording(lab, sink);
            }
            return Model::Collapsed(law);
        }
        "fluid" => Model::Fluid,
        _ => Model::Hop,
    };
    let present: Vec<_> = KEYS.iter().filter_map(|key| lab.entry(key)).collect();
    if let Some((first, rest)) = present.split_first() {
        let keys = list_words(present.iter().map(|entry| entry.key.as_str()));
        let belong = if rest.is_empty() { "belongs" } else { "belong" };
        let message = format!("{keys} {belong} to `model = \"collapsed\"`");
        let diagnostic = sink.report(Code::NoEffect, &first.key_at, message);
        for entry in rest {
            diagnostic.also(&entry.key_at, "");
        }
        // Both have the same position if the command line sets them.
        if let Some(model) = lab.get(LAB.model).filter(|model| model.at != first.key_at) {
            diagnostic.also(&model.at, "the model");
        }
        let those = if rest.is_empty() { "it" } else { "them" };
        diagnostic.help(format!("set `model = \"collapsed\"`, or remove {those}"));
    }
    other
}

/// A recording contains the packets that enter the fabric, but not the shares that flows agree on.
fn refuse_recording(lab: &Table, sink: &mut Sink) {
    let Some(record) = lab.entry(LAB.record) else { return };
    let message = "`sharing = \"slbn\"` cannot be recorded";
    let diagnostic = sink.report(Code::Conflict, &record.key_at, message);
    if let Some(sharing) = lab.entry(LAB.sharing) {
        diagnostic.also(&sharing.key_at, "a recording does not contain the agreement on shares");
    }
    diagnostic.help("remove `record`, or use `sharing = \"max-min\"`, which gives the same shares");
}

fn law(lab: &Table) -> Collapsed {
    Collapsed {
        sharing: lab.read(LAB.sharing),
        window: match lab.read(LAB.window) {
            word if word.text() == Some("off") => Window::Off,
            size => Bytes::read(&size).map_or(Window::Auto, Window::Fixed),
        },
        acks: lab.read(LAB.acks),
    }
}

/// A feature of links that a model does not support.
struct Rule {
    key: &'static Field,
    code: Code,
    has: fn(&LinkConfig) -> bool,
    /// The feature that a path combines over its links; a path with only one such link
    /// keeps that link's distribution.
    joins: Option<fn(&LinkConfig) -> bool>,
    what: &'static str,
    help: &'static str,
}

const COLLAPSED: &[Rule] = &[
    Rule {
        key: DIRECTION.trace.field,
        code: Code::Conflict,
        has: |config| matches!(config.rate, Rate::Trace(_)),
        joins: None,
        what: "links that are shared have constant rates",
        help: "use `model = \"hop\"`, or change `rate` by `[[at]]`",
    },
    Rule {
        key: DIRECTION.queue.field,
        code: Code::NoEffect,
        has: |config| !matches!(config.queue.discipline, Discipline::DropTail),
        joins: None,
        what: "collapsed links have no queues, and no queue discipline",
        help: "each flow has a drop-tail queue of its own instead; to study queues, use \
               `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.loss.field,
        code: Code::Approximated,
        has: |config| matches!(config.loss, Loss::GilbertElliott { .. }),
        joins: Some(|config| config.loss != Loss::None),
        what: "only its mean counts on paths with loss on other links",
        help: "packets are lost independently there; for bursts of losses, use `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.jitter.field,
        code: Code::Approximated,
        has: |config| config.jitter.as_ref().is_some_and(shaped),
        joins: Some(|config| config.jitter.is_some()),
        what: "only its mean and variance count on paths with jitter on other links",
        help: "the sum is taken as normal and independent there; for the shape of delays, use \
               `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.reorder.field,
        code: Code::Approximated,
        has: |config| config.reorder.is_some(),
        joins: Some(|config| config.reorder.is_some()),
        what: "a path reorders packets only once",
        help: "packets are held back by the mean of the links' times; for each, use \
               `model = \"hop\"`",
    },
];

/// The fluid model has no individual packets.
const FLUID: &[Rule] = &[
    Rule {
        key: DIRECTION.jitter.field,
        code: Code::NoEffect,
        has: |config| config.jitter.is_some(),
        joins: None,
        what: "delays are constant in `model = \"fluid\"`",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.reorder.field,
        code: Code::NoEffect,
        has: |config| config.reorder.is_some(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to reorder",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.duplicate.field,
        code: Code::NoEffect,
        has: |config| config.duplicate.is_positive(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to duplicate",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: DIRECTION.corrupt.field,
        code: Code::NoEffect,
        has: |config| config.corrupt.is_positive(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to corrupt",
        help: "use `model = \"hop\"`",
    },
];

/// Whether jitter is not normal or not independent.
fn shaped(jitter: &Jitter) -> bool {
    !matches!(jitter.shape, JitterShape::Normal { .. }) || jitter.correlation.is_positive()
}

/// The first position at which a rule matches, and the number of further links.
struct Found {
    at: At,
    place: String,
    more: usize,
}

impl Compiler<'_> {
    pub(super) fn check_model(&mut self) {
        if let Model::Collapsed(_) = self.plan.model {
            self.refuse_foreign_routing();
        }
        self.check_rules(|compiler, rule| {
            compiler.links_with(rule).or_else(|| compiler.events_with(rule))
        });
    }

    /// Checks only events.
    pub(super) fn check_model_of_events(&mut self) {
        self.check_rules(Self::events_with);
    }

    /// Reports each rule once, even if it matches many links and events.
    fn check_rules(&mut self, find: impl Fn(&Self, &Rule) -> Option<Found>) {
        let rules = match self.plan.model {
            Model::Hop => return,
            Model::Fluid => FLUID,
            Model::Collapsed(_) => COLLAPSED,
        };
        for rule in rules {
            let Some(found) = find(self, rule) else { continue };
            if rule.joins.is_some_and(|joins| !self.several_links(joins)) {
                continue;
            }
            let more = match found.more {
                0 => String::new(),
                1 => " and one more".to_owned(),
                more => format!(" and {more} more"),
            };
            let (key, what) = (rule.key.key, rule.what);
            let message = format!("`{key}` of {}{more}: {what}", found.place);
            self.sink.report(rule.code, &found.at, message).help(rule.help);
        }
    }

    fn refuse_foreign_routing(&mut self) {
        if self.plan.routing != Routing::None {
            return;
        }
        let lab = self.lab();
        let Some(routing) = lab.get(LAB.routing) else { return };
        let message = "paths that programs choose cannot be collapsed";
        let diagnostic = self.sink.report(Code::Conflict, &routing.at, message);
        if let Some(model) = lab.get(LAB.model) {
            diagnostic.also(&model.at, "this model uses the lab's routes");
        }
        diagnostic.help("another `routing`, or `model = \"hop\"`");
    }

    /// Whether more than one link has this property, now or after an event.
    fn several_links(&self, like: fn(&LinkConfig) -> bool) -> bool {
        let links = self.plan.links.iter().enumerate();
        let now = links
            .filter(|(_, link)| link.directions.iter().any(like))
            .map(|(index, _)| LinkId::at(index));
        let later = self.plan.events.iter().filter_map(|event| match &event.action {
            Action::Set { link, config, .. } if like(config) => Some(*link),
            _ => None,
        });
        let mut all = now.chain(later);
        all.next().is_some_and(|first| all.any(|other| other != first))
    }

    fn links_with(&self, rule: &Rule) -> Option<Found> {
        let meets = |index: &usize| self.plan.links[*index].directions.iter().any(rule.has);
        let mut links = (0..self.plan.links.len()).filter(meets);
        let first = links.next()?;
        let link = &self.plan.links[first];
        let place = self.places.links[first].clone();
        let directions = Direction::BOTH.into_iter();
        let direction = directions.zip(&link.directions).find(|(_, config)| (rule.has)(config));
        let at = ["link", "generate", "import"]
            .iter()
            .flat_map(|section| self.entries(section))
            .find(|(at, _)| *at == place)
            .and_then(|(_, table)| key_of(table, rule.key, direction?.0));
        Some(Found {
            at: at.unwrap_or(place),
            place: format!("link `{}`", link.name),
            more: links.count(),
        })
    }

    /// Only if the event itself causes it: the rest was a property of the link before.
    fn events_with(&self, rule: &Rule) -> Option<Found> {
        let mut found: Option<(At, String)> = None;
        let mut links: Vec<LinkId> = Vec::new();
        for (index, table) in &self.places.changes {
            let event = &self.plan.events[*index];
            let Action::Set { link, direction, config } = &event.action else { continue };
            let Some(at) = key_of(table, rule.key, *direction) else { continue };
            if !(rule.has)(config) {
                continue;
            }
            let name = &self.plan.links[link.index()].name;
            found.get_or_insert_with(|| (at, format!("link `{name}` at {}", event.at)));
            links.push(*link);
        }
        links.sort_unstable();
        links.dedup();
        let more = links.len().saturating_sub(1);
        found.map(|(at, place)| Found { at, place, more })
    }
}

/// The position of a direction's key: in the direction's table, in the table itself, or in
/// a table within it.
fn key_of(table: &Table, key: &Field, direction: Direction) -> Option<At> {
    let own = |table: &Table| table.entry(key).map(|entry| entry.key_at.clone());
    table.read(LINK.of(direction)).and_then(own).or_else(|| own(table)).or_else(|| {
        let nested = [IMPORT.access, IMPORT.aggregation, IMPORT.core, IMPORT.link];
        nested.iter().find_map(|class| key_of(table.given(*class)?, key, direction))
    })
}
