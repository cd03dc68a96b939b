//! `model`: the settings of `"collapsed"`, and what of a lab simpler models than `"hop"` cannot do
//! or take more simply.

use base::{Direction, LinkId};
use fabric::{Collapsed, Discipline, Jitter, JitterShape, LinkConfig, Loss, Rate, Sharing, Window};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::Sink;
use crate::plan::{Action, Model, Routing};
use crate::tree::{At, Table};
use crate::validate::list_words;

const KEYS: &[&str] = &["sharing", "window", "acks"];

/// The model of the lab with its settings; settings of another model may stay, so that one file
/// runs in each of them.
pub(super) fn model(lab: &Table, sink: &mut Sink) -> Model {
    let other = match lab.text("model") {
        Some("collapsed") => {
            let law = law(lab);
            if law.sharing == Sharing::Slbn && lab.flag("record") == Some(true) {
                refuse_recording(lab, sink);
            }
            return Model::Collapsed(law);
        }
        Some("fluid") => Model::Fluid,
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
        // Both stand at the same place when the command line sets them.
        if let Some(model) = lab.get("model").filter(|model| model.at != first.key_at) {
            diagnostic.also(&model.at, "the model");
        }
        let those = if rest.is_empty() { "it" } else { "them" };
        diagnostic.help(format!("say `model = \"collapsed\"`, or leave {those} out"));
    }
    other
}

/// A recording has what packets came to the fabric and when, but not what flows agreed on.
fn refuse_recording(lab: &Table, sink: &mut Sink) {
    let Some(record) = lab.entry("record") else { return };
    let message = "`sharing = \"slbn\"` cannot be recorded";
    let diagnostic = sink.report(Code::Conflict, &record.key_at, message);
    if let Some(sharing) = lab.entry("sharing") {
        diagnostic.also(&sharing.key_at, "what flows agree on is not in a recording");
    }
    diagnostic.help("leave `record` out, or share by `max-min`, which comes to the same shares");
}

fn law(lab: &Table) -> Collapsed {
    Collapsed {
        sharing: match lab.text("sharing") {
            Some("max-min") => Sharing::MaxMin,
            Some("slbn") => Sharing::Slbn,
            Some("none") => Sharing::None,
            _ => Sharing::RttMaxMin,
        },
        window: match lab.text("window") {
            Some("off") => Window::Off,
            _ => lab.bytes("window").map_or(Window::Auto, Window::Fixed),
        },
        acks: lab.flag("acks").unwrap_or(false),
    }
}

/// Something that links can have and a model cannot.
struct Rule {
    key: &'static str,
    code: Code,
    has: fn(&LinkConfig) -> bool,
    /// What is joined on a path: a path that crosses only one link with it keeps that link's law.
    joins: Option<fn(&LinkConfig) -> bool>,
    what: &'static str,
    help: &'static str,
}

const COLLAPSED: &[Rule] = &[
    Rule {
        key: "trace",
        code: Code::Conflict,
        has: |config| matches!(config.rate, Rate::Trace(_)),
        joins: None,
        what: "links that are shared have constant rates",
        help: "use `model = \"hop\"`, or change `rate` by `[[at]]`",
    },
    Rule {
        key: "queue",
        code: Code::NoEffect,
        has: |config| !matches!(config.queue.discipline, Discipline::DropTail),
        joins: None,
        what: "collapsed links have no queues, and no queue discipline",
        help: "each flow has a drop-tail queue of its own instead; to study queues, use \
               `model = \"hop\"`",
    },
    Rule {
        key: "loss",
        code: Code::Approximated,
        has: |config| matches!(config.loss, Loss::GilbertElliott { .. }),
        joins: Some(|config| config.loss != Loss::None),
        what: "its mean counts where a path has loss on other links, too",
        help: "packets are lost independently there; for bursts of losses, use `model = \"hop\"`",
    },
    Rule {
        key: "jitter",
        code: Code::Approximated,
        has: |config| config.jitter.as_ref().is_some_and(shaped),
        joins: Some(|config| config.jitter.is_some()),
        what: "its mean and variance count where a path has jitter on other links, too",
        help: "the sum is taken as normal and independent there; for the shape of delays, use \
               `model = \"hop\"`",
    },
    Rule {
        key: "reorder",
        code: Code::Approximated,
        has: |config| config.reorder.is_some(),
        joins: Some(|config| config.reorder.is_some()),
        what: "a path reorders once, however many of its links do",
        help: "packets are held back by the mean of the links' times; for each, use \
               `model = \"hop\"`",
    },
];

/// Rates know no single packets.
const FLUID: &[Rule] = &[
    Rule {
        key: "jitter",
        code: Code::NoEffect,
        has: |config| config.jitter.is_some(),
        joins: None,
        what: "delays are constant in `model = \"fluid\"`",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: "reorder",
        code: Code::NoEffect,
        has: |config| config.reorder.is_some(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to reorder",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: "duplicate",
        code: Code::NoEffect,
        has: |config| config.duplicate.is_positive(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to duplicate",
        help: "use `model = \"hop\"`",
    },
    Rule {
        key: "corrupt",
        code: Code::NoEffect,
        has: |config| config.corrupt.is_positive(),
        joins: None,
        what: "`model = \"fluid\"` has no packets to corrupt",
        help: "use `model = \"hop\"`",
    },
];

/// Whether jitter is anything but normal and independent.
fn shaped(jitter: &Jitter) -> bool {
    !matches!(jitter.shape, JitterShape::Normal { .. }) || jitter.correlation.is_positive()
}

/// Where a rule is met first, and how many links more it is met at.
struct Found {
    at: At,
    place: String,
    more: usize,
}

impl Compiler<'_> {
    /// Each rule is reported once, however many links and events it is met at.
    pub(super) fn check_model(&mut self) {
        let rules = match self.plan.model {
            Model::Hop => return,
            Model::Fluid => FLUID,
            Model::Collapsed(_) => {
                self.refuse_foreign_routing();
                COLLAPSED
            }
        };
        for rule in rules {
            let Some(found) = self.links_with(rule).or_else(|| self.events_with(rule)) else {
                continue;
            };
            if rule.joins.is_some_and(|joins| !self.several_links(joins)) {
                continue;
            }
            let more = match found.more {
                0 => String::new(),
                1 => " and one more".to_owned(),
                more => format!(" and {more} more"),
            };
            let (key, what) = (rule.key, rule.what);
            let message = format!("`{key}` of {}{more}: {what}", found.place);
            self.sink.report(rule.code, &found.at, message).help(rule.help);
        }
    }

    fn refuse_foreign_routing(&mut self) {
        if self.plan.routing != Routing::None {
            return;
        }
        let Some(lab) = self.input.root.table("lab") else { return };
        let Some(routing) = lab.get("routing") else { return };
        let message = "paths that programs choose cannot be collapsed";
        let diagnostic = self.sink.report(Code::Conflict, &routing.at, message);
        if let Some(model) = lab.get("model") {
            diagnostic.also(&model.at, "this model takes whole paths from the lab's own routes");
        }
        diagnostic.help("another `routing`, or `model = \"hop\"`");
    }

    /// Whether more than one link is like that, now or after an event.
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

    /// Only where the event itself brings it: the rest was the link's before.
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

/// Where a key of a direction stands: in the direction's table, in the table itself, or in one of
/// those in it.
fn key_of(table: &Table, key: &str, direction: Direction) -> Option<At> {
    let own = |table: &Table| table.entry(key).map(|entry| entry.key_at.clone());
    table.table(direction.as_str()).and_then(own).or_else(|| own(table)).or_else(|| {
        let nested = ["access", "aggregation", "core", "link"];
        nested.iter().find_map(|name| key_of(table.table(name)?, key, direction))
    })
}
