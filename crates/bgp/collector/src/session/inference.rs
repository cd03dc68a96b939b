//! Infers the encoding of the messages of a session where an OPEN is missing.
//!
//! There are two kinds of questions: does the session use four-octet AS numbers, and does this end
//! send path identifiers in this family? A captured OPEN excludes capabilities that its sender did
//! not offer. The structure of the UPDATEs ([`super::structure`]) answers the other questions. A
//! question without an answer after too many UPDATEs gets that of nearly all speakers: four octets
//! (in practice, if one OPEN offers them, so does the other), no path identifiers. Later UPDATEs
//! are checked against the answer, first all, then one in [`RARELY`]; contradictions reverse it.

use bgp::negotiated::Families;
use bgp::{Family, Negotiated};

use super::connection::{Offer, index};
use super::structure::{self, Evidence, IMPOSSIBLE};
use crate::{Confidence, Sender};

/// Points for a decision: one proof, or a few oddities.
const DECIDED: i32 = 8;
/// Maximum points of agreement: three contradictions without agreement reverse a decision.
const STRONG: i32 = 2 * DECIDED;
/// UPDATEs that are all checked after the first decision.
const CHECKED: u32 = 256;
/// After them, one UPDATE in this many is checked.
const RARELY: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Question {
    answer: Option<bool>,
    confidence: Confidence,
    /// An OPEN decided the question: no bytes can refute the answer.
    fact: bool,
    /// Points for "yes" while open, and for the answer when decided.
    points: i32,
}

impl Question {
    const OPEN: Self =
        Self { answer: None, confidence: Confidence::Assumed, fact: false, points: 0 };

    const fn decided(answer: bool, confidence: Confidence) -> Self {
        Self { answer: Some(answer), confidence, fact: false, points: 0 }
    }

    const fn fact(answer: bool) -> Self {
        Self { answer: Some(answer), confidence: Confidence::Proved, fact: true, points: 0 }
    }

    /// Adds evidence; returns whether it decided the question or reversed the answer.
    fn hear(&mut self, weight: i32) -> Change {
        let proof = weight.abs() >= IMPOSSIBLE;
        match self.answer {
            _ if self.fact || weight == 0 => Change::None,
            None => {
                self.points += weight;
                if self.points.abs() < DECIDED {
                    return Change::None;
                }
                self.confidence = if proof { Confidence::Proved } else { Confidence::Likely };
                self.answer = Some(self.points > 0);
                self.points = if proof { STRONG } else { DECIDED };
                Change::Decided
            }
            Some(answer) if answer == (weight > 0) => {
                self.points = (self.points + weight.abs()).min(STRONG);
                if proof {
                    self.confidence = Confidence::Proved;
                }
                Change::None
            }
            Some(answer) => {
                self.points -= weight.abs();
                if self.points > -DECIDED {
                    return Change::None;
                }
                *self = Self { points: DECIDED, ..Self::decided(!answer, Confidence::Likely) };
                if proof {
                    self.confidence = Confidence::Proved;
                }
                Change::Refuted
            }
        }
    }

    /// Decides for `prior`, without evidence.
    fn assume(&mut self, prior: bool, confidence: Confidence) {
        if self.answer.is_none() {
            *self = match self.points {
                0 => Self::decided(prior, confidence),
                points => Self::decided(points > 0, Confidence::Likely),
            };
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    None,
    Decided,
    Refuted,
}

#[derive(Clone, Debug)]
pub(super) struct Inference {
    four_octet: Question,
    asked: bool,
    extended: bool,
    add_path: [Vec<(Family, Question)>; 2],
    /// Families for which the only captured OPEN offers path identifiers.
    offered: [Option<Families>; 2],
    prior: Option<[Families; 2]>,
    checked: u32,
}

impl Inference {
    /// No evidence except the encoding of an earlier session: `[Peer, Local]`.
    pub(super) fn new(earlier: Option<[Negotiated; 2]>) -> Self {
        let likely = |answer| Question::decided(answer, Confidence::Likely);
        Self {
            four_octet: earlier.map_or(Question::OPEN, |both| likely(both[0].four_octet_as)),
            asked: false,
            extended: earlier.is_some_and(|both| both[0].extended_message),
            add_path: [const { Vec::new() }; 2],
            offered: [None; 2],
            prior: earlier.map(|both| both.map(|one| one.add_path)),
            checked: 0,
        }
    }

    /// Applies the OPEN of `sender`; that of the other end was not captured.
    pub(super) fn bound(&mut self, sender: Sender, offer: &Offer) {
        if !offer.four_octet {
            self.four_octet = Question::fact(false);
        }
        self.extended &= offer.extended;
        self.offered[index(sender)] = Some(offer.send);
        self.offered[1 - index(sender)] = Some(offer.receive);
    }

    /// The decided encoding of messages of `sender`.
    pub(super) fn negotiated(&self, sender: Sender) -> Negotiated {
        let met = &self.add_path[index(sender)];
        let mut add_path: Families =
            met.iter().filter(|(_, question)| question.answer == Some(true)).map(|f| f.0).collect();
        if let Some(prior) = self.prior {
            let unmet = |family: &Family| met.iter().all(|(known, _)| known != family);
            let offered = self.offered[index(sender)];
            add_path = prior[index(sender)]
                .iter()
                .filter(unmet)
                .filter(|family| offered.is_none_or(|families| families.contains(*family)))
                .fold(add_path, Families::with);
        }
        Negotiated {
            four_octet_as: self.four_octet.answer.unwrap_or(self.four_octet.points >= 0),
            extended_message: self.extended,
            add_path,
        }
    }

    /// Processes a message of `length` bytes; above 4,096 it proves extended messages.
    pub(super) fn heard_length(&mut self, length: usize) -> bool {
        let proved = length > bgp::message::MAX && !self.extended;
        self.extended |= proved;
        proved
    }

    /// Whether the body of an UPDATE needs no check: checks are rare by now, and the lengths of its
    /// parts show that its encoding does not depend on an open question.
    pub(super) fn passes(&mut self, sender: Sender, body: &[u8]) -> bool {
        if self.checked < CHECKED {
            return false;
        }
        self.checked = self.checked.wrapping_add(1).max(CHECKED);
        if self.checked.is_multiple_of(RARELY) {
            return false;
        }
        let Some((_, attributes, announced)) = structure::parts(body) else { return false };
        let plain = attributes.is_empty() || !announced.is_empty();
        let closed = self.offered[index(sender)].is_some_and(Families::is_empty);
        self.four_octet.answer.is_some()
            && (closed || plain && self.answer(sender, Family::IPV4_UNICAST).is_some())
    }

    fn answer(&self, sender: Sender, family: Family) -> Option<bool> {
        let met = &self.add_path[index(sender)];
        met.iter().find(|(known, _)| *known == family).and_then(|(_, question)| question.answer)
    }

    /// Adds the evidence of an UPDATE of `sender`.
    pub(super) fn hear(&mut self, sender: Sender, evidence: &Evidence) -> Change {
        let mut change = Change::None;
        self.checked = self.checked.saturating_add(1);
        if let Some(points) = evidence.four_octet {
            self.asked = true;
            change = change.max(self.four_octet.hear(points.weight()));
        }
        for (family, points) in evidence.add_path() {
            change = change.max(self.question(sender, family).hear(points.weight()));
        }
        change
    }

    fn question(&mut self, sender: Sender, family: Family) -> &mut Question {
        let at = index(sender);
        let start = match (self.offered[at], self.prior) {
            (Some(offered), _) if !offered.contains(family) => Question::fact(false),
            (_, Some(prior)) => Question::decided(prior[at].contains(family), Confidence::Likely),
            _ => Question::OPEN,
        };
        let met = &mut self.add_path[at];
        let place = met.iter().position(|(known, _)| *known == family).unwrap_or_else(|| {
            met.push((family, start));
            met.len() - 1
        });
        &mut met[place].1
    }

    /// Whether the message depends on an open question.
    pub(super) fn lacks(&self, sender: Sender, evidence: &Evidence) -> bool {
        evidence.four_octet.is_some() && self.four_octet.answer.is_none()
            || evidence.add_path().any(|(family, _)| self.answer(sender, family).is_none())
    }

    pub(super) fn is_open(&self) -> bool {
        let mut questions = self.add_path.iter().flatten();
        self.four_octet.answer.is_none() && self.asked
            || questions.any(|(_, question)| question.answer.is_none())
    }

    pub(super) fn assume(&mut self) {
        let one_open = self.offered.iter().any(Option::is_some);
        let confidence = if one_open { Confidence::Likely } else { Confidence::Assumed };
        self.four_octet.assume(true, confidence);
        for (_, question) in self.add_path.iter_mut().flatten() {
            question.assume(false, Confidence::Assumed);
        }
    }

    pub(super) fn confidence(&self) -> Confidence {
        let questions = self.add_path.iter().flatten().map(|(_, question)| question);
        questions
            .chain([&self.four_octet])
            .filter(|question| question.answer.is_some())
            .map(|question| question.confidence)
            .min()
            .unwrap_or(Confidence::Assumed)
    }
}

/// Whether an UPDATE with this evidence is readable under `negotiated`.
pub(super) fn is_readable(evidence: &Evidence, negotiated: Negotiated) -> bool {
    evidence.four_octet.is_none_or(|points| points.allows(negotiated.four_octet_as))
        && evidence
            .add_path()
            .all(|(family, points)| points.allows(negotiated.add_path.contains(family)))
}
