//! Parses lines back to records and events.

use std::net::IpAddr;

use base::Time;
use bgp::mrt::Record;
use bgp::{Asn, Family, Message, Negotiated};
use serde_json::{Map, Value};

use super::names;
use crate::{
    Error, Event, Gap, MirrorId, Peering, PeeringId, Reading, Reason, Sender, Sink, State,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Record(Vec<u8>),
    Event(Box<EventLine>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventLine {
    peering: Peering,
    happened: Happened,
}

#[derive(Clone, Debug, PartialEq)]
enum Happened {
    Message(Time, Sender, Vec<u8>),
    State(Time, State, State, Reason),
    Gap(Gap),
    Reading(Reading),
}

impl EventLine {
    pub const fn peering(&self) -> &Peering {
        &self.peering
    }

    pub fn tell(&self, sink: &mut impl Sink) {
        let event = match &self.happened {
            Happened::Message(time, from, bytes) => {
                let Some(message) = Message::split(bytes) else { return };
                Event::Message { time: *time, from: *from, message }
            }
            Happened::State(time, old, new, reason) => {
                Event::State { time: *time, old: *old, new: *new, reason: *reason }
            }
            Happened::Gap(gap) => Event::Gap(*gap),
            Happened::Reading(reading) => Event::Reading(*reading),
        };
        sink.event(&self.peering, &event);
    }
}

pub fn parse(line: &str) -> Result<Line, Error> {
    let wrong = Error::Line { field: "line", wrong: "not a JSON object" };
    let value: Value = serde_json::from_str(line).map_err(|_| wrong)?;
    let object = Object(value.as_object().ok_or(wrong)?);
    if object.0.contains_key("mrt") {
        let bytes = object.hex("raw")?;
        let whole = Record::of(&bytes).is_some();
        let wrong = Error::Line {
            field: "raw",
            wrong: "the record's length does not match its length field",
        };
        return if whole { Ok(Line::Record(bytes)) } else { Err(wrong) };
    }
    let event = EventLine { peering: object.peering()?, happened: object.happened()? };
    Ok(Line::Event(Box::new(event)))
}

#[derive(Clone, Copy)]
struct Object<'a>(&'a Map<String, Value>);

impl<'a> Object<'a> {
    fn get<T>(
        self,
        field: &'static str,
        wrong: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Error> {
        self.0.get(field).and_then(read).ok_or(Error::Line { field, wrong })
    }

    fn number<T: TryFrom<u64>>(self, field: &'static str) -> Result<T, Error> {
        self.get(field, "not a number in the valid range", |value| value.as_u64()?.try_into().ok())
    }

    fn flag(self, field: &'static str) -> Result<bool, Error> {
        self.get(field, "neither true nor false", Value::as_bool)
    }

    fn time(self, field: &'static str) -> Result<Time, Error> {
        Ok(Time::from_nanos(self.number(field)?))
    }

    fn address(self, field: &'static str) -> Result<IpAddr, Error> {
        self.get(field, "not an IP address", |value| value.as_str()?.parse().ok())
    }

    fn named<T: Copy>(self, field: &'static str, names: &[(T, &'static str)]) -> Result<T, Error> {
        self.get(field, "not a valid name", |value| names::value(names, value.as_str()?))
    }

    fn hex(self, field: &'static str) -> Result<Vec<u8>, Error> {
        self.get(field, "not hexadecimal octets", |value| {
            let (pairs, rest) = value.as_str()?.as_bytes().as_chunks::<2>();
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let octet = |[high, low]: &[u8; 2]| Some((digit(*high)? * 16 + digit(*low)?) as u8);
            rest.is_empty().then(|| pairs.iter().map(octet).collect())?
        })
    }

    fn negotiated(self, field: &'static str) -> Result<Negotiated, Error> {
        let object = Object(self.get(field, "not an object", Value::as_object)?);
        let family = |value: &Value| value.as_str()?.parse::<Family>().ok();
        Ok(Negotiated {
            four_octet_as: object.flag("as4")?,
            extended_message: object.flag("extended_message")?,
            add_path: object.get("add_path", "not a list of families", |value| {
                value.as_array()?.iter().map(family).collect()
            })?,
        })
    }

    fn peering(self) -> Result<Peering, Error> {
        Ok(Peering {
            id: PeeringId(self.number("peering")?),
            mirror: MirrorId(self.number("mirror")?),
            peer: self.address("peer")?,
            peer_as: Asn(self.number("peer_as")?),
            peer_id: self.number("peer_id")?,
            local: self.address("local")?,
            local_as: Asn(self.number("local_as")?),
            local_id: self.number("local_id")?,
            from_peer: self.negotiated("from_peer")?,
            from_local: self.negotiated("from_local")?,
            certain: self.flag("certain")?,
            session: self.number("session")?,
        })
    }

    fn happened(self) -> Result<Happened, Error> {
        let time = self.time("ns")?;
        let from = || self.named("from", &names::SENDERS);
        Ok(match self.0.get("type").and_then(Value::as_str) {
            Some("STATE") => {
                let old = self.named("old", &names::STATES)?;
                let new = self.named("new", &names::STATES)?;
                let reason = if self.0.get("reason").and_then(Value::as_str) == Some("notification")
                {
                    let (code, subcode) = (self.number("code")?, self.number("subcode")?);
                    Reason::Notification(from()?, code, subcode)
                } else {
                    self.named("reason", &names::REASONS)?
                };
                Happened::State(time, old, new, reason)
            }
            Some("GAP") => Happened::Gap(Gap {
                since: self.time("since_ns")?,
                until: time,
                from: from()?,
                cause: self.named("cause", &names::CAUSES)?,
                missing: self.number("missing")?,
                skipped: self.number("skipped")?,
            }),
            Some("READING") => Happened::Reading(Reading {
                time,
                confidence: self.named("confidence", &names::CONFIDENCES)?,
                otherwise: self.number("otherwise")?,
            }),
            _ => {
                let bytes = self.hex("raw")?;
                let whole = Message::split(&bytes).is_some_and(|one| one.bytes() == bytes);
                let wrong = "the message's length does not match its length field";
                if !whole {
                    return Err(Error::Line { field: "raw", wrong });
                }
                Happened::Message(time, from()?, bytes)
            }
        })
    }
}
