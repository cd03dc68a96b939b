//! Explicit rate control: its section, its flows, and features that it does not support.

use std::str::FromStr;

use base::{Bytes, NodeId, Ratio};
use ratecontrol::{Protocol, Settings};

use super::Compiler;
use super::names::{is_pattern, matches};
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{CONTROL, FLOW, Kind, LAB, LINK};
use crate::plan::{Control, Model, Role, Traffic};
use crate::tree::{At, Table, Value};

impl Compiler<'_> {
    /// Reads `[control]`; uses its defaults if the section is missing but
    /// traffic needs rate control.
    pub(super) fn read_control(&mut self) {
        let section = self.input.root.entry("control");
        let flows = self.entries("flow");
        let named = flows.iter().find_map(|(_, table)| protocol_of(table));
        if section.is_none() && named.is_none() && self.entries("sessions").is_empty() {
            return;
        }
        let table = section.and_then(|entry| entry.value.table()).unwrap_or(Table::EMPTY);
        let own = table.get(CONTROL.protocol);
        let own = own.and_then(|value| Some((Protocol::read(value)?, value.at.clone())));
        let chosen = own.or(named);
        let protocol = chosen.as_ref().map_or(Protocol::Slbn, |(protocol, _)| *protocol);
        self.places.protocol = chosen.map(|(_, at)| at);
        let settings = Settings {
            share: table.read(CONTROL.share),
            packet: table.read(CONTROL.packet),
            pause: table.read(CONTROL.pause),
            seed: self.plan.seed,
        };
        self.check_settings(&settings, table);
        let access = self.router_group(&table.read(CONTROL.access));
        let loss = table.read(CONTROL.loss);
        self.plan.control = Some(Control { protocol, settings, loss, access });
    }

    fn check_settings(&mut self, settings: &Settings, table: &Table) {
        if let (Some(share), Err(error)) = (table.get(CONTROL.share), settings.check()) {
            self.sink
                .report(Code::OutOfRange, &share.at, error.to_string())
                .help("above 0 %, at most 50 %; about 1 % is usual");
        }
        if let Some(loss) =
            table.get(CONTROL.loss).filter(|_| table.read(CONTROL.loss) == Ratio::ONE)
        {
            self.sink
                .report(Code::OutOfRange, &loss.at, "no control packet would ever arrive")
                .help("less than 100 %");
        }
    }

    /// The routers that names and patterns match, ascending, each once.
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
                        .report(Code::Restricted, &value.at, format!("`{text}` is not a router"))
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

    /// The traffic of a UDP flow with `control`.
    pub(super) fn controlled(&mut self, table: &Table, value: &Value) -> Option<Traffic> {
        if let Some(pattern) = table.entry(FLOW.pattern) {
            self.sink
                .report(Code::Conflict, &pattern.key_at, "rate control excludes `pattern`")
                .also(&value.at, "here the network sets the rate")
                .help("remove one of the two");
        }
        if let Some(size) = table.get(FLOW.size).filter(|size| size.table().is_some()) {
            self.sink
                .report(Code::Conflict, &size.at, "the size of a UDP flow cannot be random")
                .help("use `[[sessions]]` for sessions of random sizes");
        }
        let name = value.text()?;
        let Ok(protocol) = Protocol::from_str(name) else {
            let message = format!("`{name}` is not a protocol of explicit rate control");
            self.sink.report(Code::UnknownWord, &value.at, message).help(suggest(
                name,
                Protocol::NAMES.iter().copied(),
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
            diagnostic.help("use one protocol for all controlled traffic of a lab");
        }
        Some(Traffic::Controlled {
            demand: table.read(FLOW.rate),
            packet: table.read(FLOW.packet).unwrap_or_else(|| self.largest_datagram(table)),
            size: table.get(FLOW.size).and_then(Bytes::read),
        })
    }

    /// TCP supports congestion controllers only.
    pub(super) fn refuse_protocol_for_tcp(&mut self, name: &str, at: &At) {
        if Protocol::from_str(name).is_ok() {
            self.sink
                .report(
                    Code::Conflict,
                    at,
                    format!("`{name}` is a rate control protocol, and this flow uses TCP"),
                )
                .help("set `transport = \"udp\"`, or name TCP's routers in `[control] access`");
        }
    }

    /// Rejects features that controlled traffic does not support.
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
        let access = table.get(CONTROL.access).map(|value| value.at.clone());
        if let (Some(access), None, true) = (&access, plain, has_access) {
            let message = "`access` turns plain flows into sessions, and there are none";
            self.sink
                .report(Code::NoEffect, access, message)
                .help("remove it, or add a `[[flow]]`");
        } else if let (Some(section), None, false) = (section, &first, has_access) {
            self.sink
                .report(Code::NoEffect, &section.key_at, "no traffic is under rate control")
                .help("add `[[sessions]]`, or set `control` and `transport = \"udp\"` in a flow");
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
        let lab = self.lab().get(LAB.model);
        if let (Model::Collapsed(_), Some(model)) = (self.plan.model, lab) {
            self.sink
                .report(Code::Conflict, first, "the collapsed model has no links that assign rates")
                .also(&model.at, "here paths become single pipes")
                .help("rate control needs `model = \"hop\"` or `\"fluid\"`");
        }
    }

    fn refuse_programs(&mut self, first: &At) {
        if let Some(program) = self.places.programs.first() {
            self.sink
                .report(Code::Conflict, first, "rate control is for the virtual clock only")
                .also(program, "this real program needs the wall clock")
                .help("replace the program by a `[[flow]]`");
        }
    }

    /// Session generators and fluid rate control have separate engines.
    fn refuse_plain_flow(&mut self, plain: &At, first: &At) {
        let (message, help) = if self.plan.model == Model::Fluid {
            (
                "fluid rate control leaves no room for other flows",
                "links assign their whole rate to sessions: set `model = \"hop\"`, or give it \
                 `control`",
            )
        } else if !self.plan.sessions.is_empty() {
            (
                "session generators cannot share the network with other traffic",
                "give this flow `transport = \"udp\"` and `control`, or replace the population by \
                 flows",
            )
        } else {
            return;
        };
        self.sink.report(Code::Conflict, plain, message).also(first, "rate-controlled").help(help);
    }

    /// The maximum datagram that fits every link without fragmentation.
    pub(super) fn largest_datagram(&self, table: &Table) -> Bytes {
        let mtus = self.plan.links.iter().flat_map(|link| link.directions.iter().map(|d| d.mtu));
        let mtu = mtus.min().unwrap_or_else(|| LINK.mtu.default());
        let v6 = table.read(FLOW.family) == crate::plan::Family::V6;
        mtu.saturating_sub(Bytes::new(if v6 { 48 } else { 28 })).max(Bytes::new(16))
    }
}

/// The protocol that a flow requests, with its position.
fn protocol_of(table: &Table) -> Option<(Protocol, At)> {
    let value = table.get(FLOW.control).filter(|_| table.read(FLOW.transport) == "udp")?;
    Some((Protocol::read(value)?, value.at.clone()))
}
