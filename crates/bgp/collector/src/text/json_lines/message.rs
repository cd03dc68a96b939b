//! Content of a message.

use bgp::nlri::Routes;
use bgp::notification::Notification;
use bgp::open::Open;
use bgp::route_refresh::RouteRefresh;
use bgp::update::Update;
use bgp::verdict::{Action, judge};
use bgp::{Family, Message, MessageType, Negotiated, capability};

use super::super::json;
use super::attribute;

pub(super) fn write(message: Message<'_>, negotiated: Negotiated, out: &mut Vec<u8>) {
    write_content(message.kind(), message.body(), negotiated, out);
}

pub(super) fn write_content(
    kind: MessageType,
    body: &[u8],
    negotiated: Negotiated,
    out: &mut Vec<u8>,
) {
    match kind.name() {
        Some(name) => json::text("type", name, out),
        None => json::number("type", kind.0, out),
    }
    let written = match kind {
        MessageType::OPEN => Open::parse(body).map(|open| write_open(&open, out)),
        MessageType::UPDATE => {
            let written = Update::parse(body).map(|update| write_update(&update, negotiated, out));
            write_verdict(body, negotiated, out);
            written
        }
        MessageType::NOTIFICATION => {
            Notification::parse(body).map(|notification| write_notification(&notification, out))
        }
        MessageType::ROUTE_REFRESH => RouteRefresh::parse(body).map(|refresh| {
            json::key("family", out);
            json::family(refresh.family, out);
            json::number("refresh", refresh.subtype, out);
        }),
        _ => Ok(()),
    };
    if let Err(error) = written {
        json::text("error", &error.to_string(), out);
    }
}

fn write_update(update: &Update<'_>, negotiated: Negotiated, out: &mut Vec<u8>) {
    let family = Family::IPV4_UNICAST;
    let add_path = negotiated.add_path.contains(family);
    for (key, bytes) in [("withdrawn", update.withdrawn), ("announced", update.announced)] {
        json::routes(key, Routes::new(bytes, family, add_path), family, out);
    }
    attribute::write_list(update.attributes(), negotiated, out);
    if let Some(family) = update.end_of_rib() {
        json::key("end_of_rib", out);
        json::family(family, out);
    }
}

fn write_verdict(body: &[u8], negotiated: Negotiated, out: &mut Vec<u8>) {
    let verdict = judge(body, &negotiated);
    if verdict.action == Action::Accept {
        return;
    }
    json::key("verdict", out);
    out.push(b'{');
    json::text("action", action(verdict.action), out);
    json::array("problems", &verdict.problems, out, |problem, out| {
        out.push(b'{');
        json::text("action", action(problem.action), out);
        if let Some(code) = problem.attribute {
            json::number("attribute", code, out);
        }
        json::text("error", &problem.error.to_string(), out);
        out.push(b'}');
    });
    out.push(b'}');
}

const fn action(action: Action) -> &'static str {
    match action {
        Action::Accept => "accept",
        Action::AttributeDiscard => "attribute discard",
        Action::TreatAsWithdraw => "treat as withdraw",
        Action::FamilyDisable => "family disable",
        Action::SessionReset => "session reset",
    }
}

fn write_open(open: &Open<'_>, out: &mut Vec<u8>) {
    json::number("version", open.version, out);
    json::number("as", open.asn().0, out);
    json::number("hold_time", open.hold_time, out);
    json::address_member("id", std::net::Ipv4Addr::from_bits(open.id).into(), out);
    let capabilities = open.raw_capabilities().map_while(Result::ok);
    json::array("capabilities", capabilities, out, |(code, value, _), out| {
        out.push(b'{');
        json::number("code", code, out);
        if let Some(name) = capability::name(code) {
            json::text("name", name, out);
        }
        if let capability::Capability::Multiprotocol(family) =
            capability::Capability::decode(code, value)
        {
            json::key("family", out);
            json::family(family, out);
        }
        json::hex("hex", value, out);
        out.push(b'}');
    });
}

fn write_notification(notification: &Notification<'_>, out: &mut Vec<u8>) {
    json::number("code", notification.code, out);
    json::number("subcode", notification.subcode, out);
    let (code, subcode) = notification.names();
    for (key, name) in [("error_name", code), ("suberror_name", subcode)] {
        if let Some(name) = name {
            json::text(key, name, out);
        }
    }
    if let Some(text) = notification.communication() {
        json::key("communication", out);
        json::string(text, out);
    }
    if !notification.data.is_empty() {
        json::hex("data", notification.data, out);
    }
}
