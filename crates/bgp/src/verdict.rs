//! What a router should do about a message: revised error handling of RFC 7606 for UPDATEs, RFC
//! 4271 §6 for the others.

use crate::attribute::code;
use crate::capability::Capability;
use crate::message::{HEADER, MAX, MAX_EXTENDED};
use crate::notification::{Notification, code as notice};
use crate::open::Open;
use crate::route_refresh::{RouteRefresh, Subtype};
use crate::update::{Visitor, walk_told};
use crate::{Asn, Error, Message, MessageType, Negotiated};

/// What to do, weakest first (RFC 7606 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Nothing is wrong.
    Accept,
    /// Go on without the attribute (or the capability, in an OPEN).
    AttributeDiscard,
    /// Take the announced routes as withdrawn.
    TreatAsWithdraw,
    /// Ignore the family from here on; a router that cannot resets the session.
    FamilyDisable,
    /// Send a NOTIFICATION and end the session.
    SessionReset,
}

/// One thing that is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What to do about it.
    pub action: Action,
    /// Code and subcode of the NOTIFICATION that RFC 4271 §6 has for it, sent or not.
    pub notification: (u8, u8),
    /// Type code of the attribute, if it is one.
    pub attribute: Option<u8>,
    /// Reason, and where it is in the body of the message.
    pub error: Error,
}

impl Problem {
    /// About an UPDATE.
    #[cold]
    #[inline(never)]
    pub(crate) fn update(action: Action, subcode: u8, attribute: u8, error: Error) -> Self {
        let attribute = (attribute != 0).then_some(attribute);
        Self { action, notification: (notice::UPDATE, subcode), attribute, error }
    }

    fn of(code: u8, subcode: u8, error: Error) -> Self {
        let notification = (code, subcode);
        Self { action: Action::SessionReset, notification, attribute: None, error }
    }
}

/// Subcodes for UPDATEs (RFC 4271 §4.5).
pub(crate) mod subcode {
    pub(crate) const LIST: u8 = 1;
    pub(crate) const UNRECOGNIZED: u8 = 2;
    pub(crate) const MISSING: u8 = 3;
    pub(crate) const FLAGS: u8 = 4;
    pub(crate) const LENGTH: u8 = 5;
    pub(crate) const ORIGIN: u8 = 6;
    pub(crate) const NEXT_HOP: u8 = 8;
    pub(crate) const OPTIONAL: u8 = 9;
    pub(crate) const NETWORK: u8 = 10;
    pub(crate) const AS_PATH: u8 = 11;
}

/// What to do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strongest action of all problems (RFC 7606 §3 h).
    pub action: Action,
    /// What is wrong, in the order of its discovery: [`Verdict::LIMIT`] at most.
    pub problems: Vec<Problem>,
}

impl Verdict {
    /// A message may have more problems than anybody reads.
    pub const LIMIT: usize = 256;

    const fn accept() -> Self {
        Self { action: Action::Accept, problems: Vec::new() }
    }

    fn add(&mut self, problem: Problem) {
        self.action = self.action.max(problem.action);
        if self.problems.len() < Self::LIMIT {
            self.problems.push(problem);
        }
    }

    /// Code and subcode of the NOTIFICATION that a router sends if it resets the session: that of
    /// the gravest problem. `None` if it does not, or must not tell (RFC 4271 §6.4).
    pub fn notification(&self) -> Option<(u8, u8)> {
        if self.action < Action::FamilyDisable {
            return None;
        }
        let gravest = self.problems.iter().rev().max_by_key(|problem| problem.action)?;
        Some(gravest.notification).filter(|(code, _)| *code != 0)
    }
}

/// What the bytes do not say: it decides about attributes that only one's own AS may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Not known: such attributes are left alone.
    #[default]
    Unknown,
    /// Both ends are in the same AS.
    Internal,
    /// In different member ASes of a confederation (RFC 5065).
    Confederation,
    /// In different ASes. The sender's must be the first of each path, if it is told; route
    /// servers break that rule rightfully (RFC 7947 §2.2.2.1).
    External(Option<Asn>),
}

/// What a router should do about an UPDATE, by its bytes alone.
pub fn judge(body: &[u8], negotiated: &Negotiated) -> Verdict {
    judge_told(body, negotiated, Relation::Unknown)
}

/// What a router should do about an UPDATE of such a neighbour.
pub fn judge_told(body: &[u8], negotiated: &Negotiated, relation: Relation) -> Verdict {
    struct Collect(Verdict);
    impl Visitor for Collect {
        fn problem(&mut self, problem: Problem) {
            self.0.add(problem);
        }
    }
    let mut collect = Collect(Verdict::accept());
    let action = walk_told(body, negotiated, relation, &mut collect);
    Verdict { action, ..collect.0 }
}

/// What a router should do about a message of any type.
pub fn judge_message(message: Message<'_>, negotiated: &Negotiated, relation: Relation) -> Verdict {
    let (kind, body) = (message.kind(), message.body());
    let mut verdict = Verdict::accept();
    let extended =
        negotiated.extended_message && !matches!(kind, MessageType::OPEN | MessageType::KEEPALIVE);
    let limit = if extended { MAX_EXTENDED } else { MAX };
    if message.bytes().len() > limit {
        verdict.add(bad_length(message, "more than the session agreed on"));
        return verdict;
    }
    match kind {
        MessageType::UPDATE if body.len() < 4 => {
            verdict.add(bad_length(message, "too short for an UPDATE"));
            verdict
        }
        MessageType::UPDATE => judge_told(body, negotiated, relation),
        MessageType::OPEN => judge_open(message),
        MessageType::KEEPALIVE => {
            if !body.is_empty() {
                verdict.add(bad_length(message, "no length of a KEEPALIVE"));
            }
            verdict
        }
        MessageType::NOTIFICATION => {
            // Nothing is told about what is wrong with a NOTIFICATION: the session ends anyway.
            if let Err(error) = Notification::parse(body) {
                verdict.add(Problem::of(0, 0, error));
            }
            verdict
        }
        MessageType::ROUTE_REFRESH => judge_route_refresh(message),
        MessageType(value) => {
            let wrong = "no type of message";
            let error = Error::Value { field: "type", at: 18, value: value.into(), wrong };
            verdict.add(Problem::of(notice::MESSAGE_HEADER, 3, error));
            verdict
        }
    }
}

fn bad_length(message: Message<'_>, wrong: &'static str) -> Problem {
    let value = message.bytes().len() as u64;
    let error = Error::Value { field: "message length", at: 16, value, wrong };
    Problem::of(notice::MESSAGE_HEADER, 2, error)
}

/// RFC 4271 §6.2, RFC 5492 §5, RFC 6286 §2.2, RFC 7607 §2.
fn judge_open(message: Message<'_>) -> Verdict {
    let mut verdict = Verdict::accept();
    let body = message.body();
    if body.len() < 10 {
        verdict.add(bad_length(message, "too short for an OPEN"));
        return verdict;
    }
    let mut wrong = |subcode, field, at, value, wrong| {
        let error = Error::Value { field, at, value, wrong };
        verdict.add(Problem::of(notice::OPEN, subcode, error));
    };
    if body[0] != 4 {
        wrong(1, "version", 0, body[0].into(), "no version that is in use");
    }
    let open = match Open::parse(body) {
        Ok(open) => open,
        Err(error) => {
            verdict.add(Problem::of(notice::OPEN, 0, error));
            return verdict;
        }
    };
    if open.my_as == 0 || open.asn() == Asn::ZERO {
        wrong(2, "AS number", 1, 0, "no number of an AS");
    }
    if matches!(open.hold_time, 1 | 2) {
        wrong(6, "hold time", 3, open.hold_time.into(), "neither 0 nor at least 3");
    }
    if open.id == 0 {
        wrong(3, "BGP identifier", 5, 0, "no identifier");
    }
    for parameter in open.parameters() {
        match parameter {
            Ok((2, ..)) => {}
            Ok((kind, _, at)) => {
                wrong(4, "parameter", at, kind.into(), "no optional parameter that is in use");
            }
            Err(_) => wrong(0, "parameters", open.parameters_at, 0, "not what their lengths say"),
        }
    }
    for raw in open.raw_capabilities() {
        match raw {
            Ok((code, value, at)) => {
                let decoded = Capability::decode(code, value);
                let known = crate::capability::name(code).is_some();
                if let (true, Capability::Unknown(..)) = (known, decoded) {
                    let (field, wrong) = ("capability", "one with a value that it may not have");
                    let error = Error::Value { field, at, value: code.into(), wrong };
                    let problem = Problem::of(notice::OPEN, 0, error);
                    verdict.add(Problem { action: Action::AttributeDiscard, ..problem });
                }
            }
            Err(error) => verdict.add(Problem::of(notice::OPEN, 0, error)),
        }
    }
    verdict
}

/// RFC 7313 §5.
fn judge_route_refresh(message: Message<'_>) -> Verdict {
    let mut verdict = Verdict::accept();
    match RouteRefresh::parse(message.body()) {
        Err(_) => verdict.add(bad_length(message, "too short for a ROUTE-REFRESH")),
        Ok(refresh) => {
            let marks = matches!(refresh.subtype, Subtype::BEGIN | Subtype::END);
            if marks && !refresh.filters.is_empty() {
                let value = (HEADER + 4 + refresh.filters.len()) as u64;
                let wrong = "no length of a mark of beginning or end";
                let error = Error::Value { field: "message length", at: 16, value, wrong };
                verdict.add(Problem::of(notice::ROUTE_REFRESH, 1, error));
            }
            for error in refresh.filters().filter_map(Result::err) {
                verdict.add(Problem::of(notice::ROUTE_REFRESH, 1, error));
            }
        }
    }
    verdict
}

/// What to do about an attribute whose value is malformed: RFC 7606 §7, and the definitions of
/// those that came later.
pub(crate) const fn of_malformed(attribute: u8) -> Action {
    match attribute {
        code::ATOMIC_AGGREGATE
        | code::AGGREGATOR
        | code::AS4_PATH
        | code::AS4_AGGREGATOR
        | code::AIGP
        | code::BGP_LS
        | code::BFD_DISCRIMINATOR
        | code::PREFIX_SID => Action::AttributeDiscard,
        code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::FamilyDisable,
        _ => Action::TreatAsWithdraw,
    }
}

#[cfg(test)]
mod tests;
