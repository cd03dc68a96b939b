//! Explicit rate control: its section, the flows under it, and what it cannot be beside.

use std::str::FromStr;

use base::{Bytes, NodeId, Ratio};
use ratecontrol::{Protocol, Settings};

use super::Compiler;
use super::names::{is_pattern, matches};
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::PROTOCOLS;
use crate::plan::{Control, Model, Role, Traffic};
use crate::tree::{At, Table, Value};

impl Compiler<'_> {
    /// `[control]`, or its defaults where a flow or a population asks for rate control.
    pub(super) fn read_control(&mut self) {
        let section = self.input.root.entry("control");
        let flows = self.entries("flow");
        let named = flows.iter().find_map(|(_, table)| protocol_of(table));
        if section.is_none() && named.is_none() && self.entries("sessions").is_empty() {
            return;
        }
        let empty = Table::default();
        let table = section.and_then(|entry| entry.value.table()).unwrap_or(&empty);
        let own = table.get("protocol").and_then(|value| {
            let protocol = Protocol::from_str(value.text()?).ok()?;
            Some((protocol, value.at.clone()))
        });
        let chosen = own.or(named);
        let protocol = chosen.as_ref().map_or(Protocol::Slbn, |(protocol, _)| *protocol);
        self.places.protocol = chosen.map(|(_, at)| at);
        let usual = Settings::default();
        let settings = Settings {
            share: table.ratio("share").unwrap_or(usual.share),
            packet: table.bytes("packet").unwrap_or(usual.packet),
            pause: table.ratio("pause").unwrap_or(usual.pause),
            seed: self.plan.seed,
        };
        self.check_settings(&settings, table);
        let access = table.get("access").map(|value| self.router_group(value)).unwrap_or_default();
        let loss = table.ratio("loss").unwrap_or(Ratio::ZERO);
        self.plan.control = Some(Control { protocol, settings, loss, access });
    }

    fn check_settings(&mut self, settings: &Settings, table: &Table) {
        if let (Some(share), Err(error)) = (table.get("share"), settings.check()) {
            self.sink
                .report(Code::OutOfRange, &share.at, error.to_string())
                .help("above 0 %, at most 50 %; about 1 % is usual");
        }
        if let Some(loss) = table.get("loss").filter(|_| table.ratio("loss") == Some(Ratio::ONE)) {
            self.sink
                .report(Code::OutOfRange, &loss.at, "no control packet would ever arrive")
                .help("less than 100 %");
        }
    }

    /// The routers that names and patterns mean, ascending, each once.
    pub(super) fn router_group(&mut self, value: &Value) -> Vec<NodeId> {
        let mut found = Vec::new();
        for value in value.one_or_more() {
            let Some(text) = value.text() else { continue };
            if !is_pattern(text) {
                let Some(id) = self.node(text, &value.at) else { continue };
                if self.plan.nodes[id.index()].kind == Role::Router {
                    found.push(id);
                } else {
                    self.sink
                        .report(Code::Restricted, &value.at, format!("`{text}` is no router"))
                        .help("only routers can be named here");
                }
                continue;
            }
            let before = found.len();
            let nodes = self.plan.nodes.iter().enumerate();
            let fits = nodes.filter(|(_, n)| n.kind == Role::Router && matches(text, &n.name));
            found.extend(fits.map(|(index, _)| NodeId::at(index)));
            if found.len() == before {
                let routers = self.plan.nodes.iter().filter(|node| node.kind == Role::Router);
                let help = suggest(text, routers.map(|node| node.name.as_str()), "routers");
                self.sink
                    .report(Code::UnknownName, &value.at, format!("no router fits `{text}`"))
                    .help(help);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What a UDP flow with `control` does.
    pub(super) fn controlled(&mut self, table: &Table, value: &Value) -> Option<Traffic> {
        if let Some(pattern) = table.entry("pattern") {
            self.sink
                .report(Code::Conflict, &pattern.key_at, "rate control spaces datagrams itself")
                .also(&value.at, "here the rate is left to the network")
                .help("drop one of the two");
        }
        if let Some(size) = table.get("size").filter(|size| size.table().is_some()) {
            self.sink
                .report(Code::Conflict, &size.at, "the size of a UDP flow is not drawn")
                .help("`[[sessions]]` has sessions of drawn sizes");
        }
        let name = value.text()?;
        let Ok(protocol) = Protocol::from_str(name) else {
            let message = format!("`{name}` is no protocol of explicit rate control");
            self.sink.report(Code::UnknownWord, &value.at, message).help(suggest(
                name,
                PROTOCOLS.iter().copied(),
                "with UDP `control` is one of",
            ));
            return None;
        };
        let chosen = self.plan.control.as_ref().map(|control| control.protocol);
        if let Some(chosen) = chosen.filter(|chosen| *chosen != protocol) {
            let message = format!("this flow asks for {protocol}, another for {chosen}");
            let diagnostic = self.sink.report(Code::Conflict, &value.at, message);
            if let Some(first) = &self.places.protocol {
                diagnostic.also(first, format!("{chosen} is chosen here"));
            }
            diagnostic.help("links speak one protocol: all controlled traffic of a lab has it");
        }
        Some(Traffic::Controlled {
            demand: table.bandwidth("rate"),
            packet: table.bytes("packet").unwrap_or_else(|| self.largest_datagram(table)),
            size: table.bytes("size"),
        })
    }

    /// TCP knows congestion control only.
    pub(super) fn refuse_protocol_for_tcp(&mut self, name: &str, at: &At) {
        if Protocol::from_str(name).is_ok() {
            self.sink
                .report(Code::Conflict, at, format!("{name} is rate control, and this is TCP"))
                .help("say `transport = \"udp\"`, or name TCP's routers in `[control] access`");
        }
    }

    /// What controlled traffic cannot be beside.
    pub(super) fn check_control(&mut self) {
        let Some(control) = &self.plan.control else { return };
        let empty = Table::default();
        let section = self.input.root.entry("control");
        let table = section.and_then(|entry| entry.value.table()).unwrap_or(&empty);
        let controlled = |t: &Traffic| matches!(t, Traffic::Controlled { .. });
        let plain = self.plan.flows.iter().position(|flow| !controlled(&flow.traffic));
        let named = self.plan.flows.iter().position(|flow| controlled(&flow.traffic));
        let first = named.map(|index| &self.places.flows[index]);
        let first = self.places.populations.first().or(first).cloned();
        let has_access = !control.access.is_empty();
        let access = table.get("access").map(|value| value.at.clone());
        if let (Some(access), None, true) = (&access, plain, has_access) {
            let message = "`access` turns plain flows into sessions, and there are none";
            self.sink.report(Code::NoEffect, access, message).help("drop it, or add a `[[flow]]`");
        } else if let (Some(section), None, false) = (section, &first, has_access) {
            self.sink
                .report(Code::NoEffect, &section.key_at, "no traffic is under rate control")
                .help("add `[[sessions]]`, or say `control` and `transport = \"udp\"` in a flow");
        }
        let plain = plain.map(|index| self.places.flows[index].clone());
        let Some(first) = first.or(access.filter(|_| has_access && plain.is_some())) else {
            return;
        };
        self.refuse_collapsed(&first);
        self.refuse_programs(&first);
        if let Some(plain) = plain {
            self.refuse_plain_flow(&plain, &first);
        }
    }

    fn refuse_collapsed(&mut self, first: &At) {
        let lab = self.input.root.table("lab").and_then(|lab| lab.get("model"));
        if let (Model::Collapsed(_), Some(model)) = (self.plan.model, lab) {
            self.sink
                .report(Code::Conflict, first, "the collapsed model has no links to speak to")
                .also(&model.at, "here paths become single pipes")
                .help("rate control needs `model = \"hop\"` or `\"fluid\"`");
        }
    }

    fn refuse_programs(&mut self, first: &At) {
        if let Some(program) = self.places.programs.first() {
            self.sink
                .report(Code::Conflict, first, "rate control is for the virtual clock only")
                .also(program, "and this real program for the wall clock")
                .help("let a `[[flow]]` stand for the program");
        }
    }

    /// Populations run on an engine of their own, and so does fluid rate control.
    fn refuse_plain_flow(&mut self, plain: &At, first: &At) {
        let (message, help) = if self.plan.model == Model::Fluid {
            (
                "fluid rate control leaves no room for other flows",
                "links give all of their rate to sessions, so that nobody would know what is left \
                 for this flow; say `model = \"hop\"`, or give it `control`",
            )
        } else if !self.plan.sessions.is_empty() {
            (
                "populations of sessions have the network to themselves",
                "give this flow `transport = \"udp\"` and `control`, or replace the population by \
                 flows",
            )
        } else {
            return;
        };
        self.sink.report(Code::Conflict, plain, message).also(first, "rate-controlled").help(help);
    }

    /// What fits everywhere without fragments.
    pub(super) fn largest_datagram(&self, table: &Table) -> Bytes {
        let mtus = self.plan.links.iter().flat_map(|link| link.directions.iter().map(|d| d.mtu));
        let mtu = mtus.min().unwrap_or(Bytes::new(1500));
        let v6 = super::flows::family(table) == crate::plan::Family::V6;
        mtu.saturating_sub(Bytes::new(if v6 { 48 } else { 28 })).max(Bytes::new(16))
    }
}

/// The protocol that a flow asks for, with its place.
fn protocol_of(table: &Table) -> Option<(Protocol, At)> {
    let value = table.get("control").filter(|_| table.text("transport") == Some("udp"))?;
    Some((Protocol::from_str(value.text()?).ok()?, value.at.clone()))
}
