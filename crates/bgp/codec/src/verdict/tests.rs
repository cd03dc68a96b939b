use super::*;
use crate::{Family, Negotiated, Safi};

const ORIGIN: &[u8] = &[0x40, 1, 1, 0];
const PATH: &[u8] = &[0x40, 2, 4, 2, 1, 0, 1];
const NEXT_HOP: &[u8] = &[0x40, 3, 4, 192, 0, 2, 1];
const TEN: &[u8] = &[8, 10];

fn body(withdrawn: &[u8], attributes: &[&[u8]], announced: &[u8]) -> Vec<u8> {
    let attributes = attributes.concat();
    let length = |field: &[u8]| (field.len() as u16).to_be_bytes();
    [&length(withdrawn), withdrawn, &length(&attributes), &attributes, announced].concat()
}

fn two() -> Negotiated {
    Negotiated::default()
}

/// Verdict on valid routes with one more attribute.
fn with(attribute: &[u8]) -> Verdict {
    judge(&body(&[], &[ORIGIN, PATH, NEXT_HOP, attribute], TEN), &two())
}

#[test]
fn accepts_valid_updates() {
    for body in [
        body(&[], &[ORIGIN, PATH, NEXT_HOP], TEN),
        body(TEN, &[], &[]),
        body(TEN, &[ORIGIN, PATH, NEXT_HOP], TEN),
        body(&[], &[], &[]),
        body(&[], &[&[0x80, 15, 3, 0, 2, 1]], &[]),
        // Attributes without routes are valid.
        body(&[], &[ORIGIN], &[]),
    ] {
        let verdict = judge(&body, &two());
        assert_eq!(verdict, Verdict { action: Action::Accept, problems: vec![] });
    }
}

#[test]
fn accepts_missing_next_hop_of_other_families_and_signed_paths() {
    let nowhere = [0x40, 3, 4, 0, 0, 0, 0];
    let reach = [&[0x80, 14, 26, 0, 2, 1, 16][..], &[0x20; 16], &[0, 32, 0x20, 1, 0xd, 0xb8]];
    let reach = reach.concat();
    let verdict =
        |attributes: &[&[u8]], announced| judge(&body(&[], attributes, announced), &two());
    assert_eq!(verdict(&[ORIGIN, PATH, &nowhere, &reach], &[]).action, Action::Accept);
    assert_eq!(verdict(&[ORIGIN, PATH, &nowhere], TEN).action, Action::TreatAsWithdraw);
    let secure =
        [&[0x80, 33, 36, 0, 8, 1, 0, 0, 0, 0, 1, 0, 28, 1][..], &[7; 20], &[0, 4], &[9; 1]];
    let signed = verdict(&[ORIGIN, &secure.concat(), &reach], &[]);
    let lacks =
        signed.problems.iter().any(|problem| matches!(problem.error, Error::Missing { .. }));
    assert!(!lacks, "{signed:?}");
    assert_eq!(verdict(&[ORIGIN, &reach], &[]).action, Action::TreatAsWithdraw);
}

#[test]
fn applies_action_of_each_attribute() {
    use Action::{AttributeDiscard, FamilyDisable, SessionReset, TreatAsWithdraw};
    let cases: &[(&str, &[u8], Action)] = &[
        ("MED of 3", &[0x80, 4, 3, 0, 0, 1], TreatAsWithdraw),
        ("MED well-known", &[0x40, 4, 4, 0, 0, 0, 1], TreatAsWithdraw),
        ("LOCAL_PREF of 5", &[0x40, 5, 5, 0, 0, 0, 1, 1], TreatAsWithdraw),
        ("ATOMIC_AGGREGATE of 1", &[0x40, 6, 1, 0], AttributeDiscard),
        ("AGGREGATOR of 8", &[0xc0, 7, 8, 0, 0, 0, 1, 1, 1, 1, 1], AttributeDiscard),
        ("AGGREGATOR AS 0", &[0xc0, 7, 6, 0, 0, 1, 1, 1, 1], AttributeDiscard),
        ("COMMUNITIES of 5", &[0xc0, 8, 5, 1, 1, 1, 1, 1], TreatAsWithdraw),
        ("COMMUNITIES of 0", &[0xc0, 8, 0], TreatAsWithdraw),
        ("ORIGINATOR_ID of 3", &[0x80, 9, 3, 1, 1, 1], TreatAsWithdraw),
        ("CLUSTER_LIST of 0", &[0x80, 10, 0], TreatAsWithdraw),
        ("MP_REACH_NLRI of 4", &[0x80, 14, 4, 0, 2, 1, 0], FamilyDisable),
        ("MP_REACH_NLRI transitive", &[0xc0, 14, 5, 0, 2, 1, 0, 0], SessionReset),
        ("next hop of 4 for IPv6", &[0x80, 14, 9, 0, 2, 1, 4, 1, 2, 3, 4, 0], FamilyDisable),
        ("MP_UNREACH_NLRI of 2", &[0x80, 15, 2, 0, 2], FamilyDisable),
        ("IPv6 prefix of 129", &[0x80, 15, 4, 0, 2, 1, 129], FamilyDisable),
        ("route target cut", &[0x80, 15, 5, 0, 1, 132, 96, 1], FamilyDisable),
        ("AS4_PATH of 3", &[0xc0, 17, 3, 2, 1, 0], AttributeDiscard),
        ("AS4_AGGREGATOR of 6", &[0xc0, 18, 6, 0, 1, 1, 1, 1, 1], AttributeDiscard),
        ("LARGE_COMMUNITIES of 4", &[0xc0, 32, 4, 0, 0, 0, 1], TreatAsWithdraw),
        ("ONLY_TO_CUSTOMER of 2", &[0xc0, 35, 2, 0, 1], TreatAsWithdraw),
        ("unknown, well-known", &[0x40, 99, 0], SessionReset),
        ("ORIGIN again", ORIGIN, AttributeDiscard),
        ("unknown again", &[0xc0, 200, 0, 0xc0, 200, 0], AttributeDiscard),
        ("MP again", &[0x80, 15, 3, 0, 2, 1, 0x80, 15, 3, 0, 2, 1], SessionReset),
        ("length too long", &[0xc0, 99, 9, 0], TreatAsWithdraw),
        ("header cut", &[0xc0, 99], TreatAsWithdraw),
    ];
    for (name, attribute, action) in cases {
        let verdict = with(attribute);
        assert_eq!(verdict.action, *action, "{name}: {verdict:?}");
        assert_eq!(verdict.problems.len(), 1, "{name}: {verdict:?}");
        let at = verdict.problems[0].error.at().unwrap();
        assert!((22..40).contains(&at), "{name}: at {at}");
    }
}

#[test]
fn accepts_unknown_attributes() {
    for attribute in [&[0xc0, 20, 1, 7][..], &[0xe0, 21, 0], &[0x80, 129, 0], &[0xd0, 255, 0, 0]] {
        assert_eq!(with(attribute).action, Action::Accept);
    }
}

#[test]
fn discards_as4_attributes_of_speakers_with_four_octets() {
    let as4 = [0xc0, 17, 6, 2, 1, 0, 1, 0, 0];
    let four = Negotiated { four_octet_as: true, ..two() };
    let path = [0x40, 2, 6, 2, 1, 0, 1, 0, 0];
    let four = judge(&body(&[], &[ORIGIN, &path, NEXT_HOP, &as4], TEN), &four);
    assert_eq!(four.action, Action::AttributeDiscard);
    assert_eq!(with(&as4).action, Action::Accept);
}

#[test]
fn requires_mandatory_attributes_of_routes() {
    let missing = |attributes: &[&[u8]], announced: &[u8]| -> Vec<u8> {
        let verdict = judge(&body(&[], attributes, announced), &two());
        verdict.problems.iter().filter_map(|problem| problem.attribute).collect()
    };
    assert_eq!(missing(&[PATH], TEN), [1, 3]);
    let reach = [&[0x80, 14, 23, 0, 2, 1, 16][..], &[0x20; 16], &[0, 8, 0x20]].concat();
    assert_eq!(missing(&[&reach], &[]), [1, 2]);
    assert_eq!(missing(&[&reach, ORIGIN, PATH], &[]), [0; 0]);
    let verdict = judge(&body(&[], &[ORIGIN, PATH, &[0x40, 3, 4, 127, 0, 0, 1]], TEN), &two());
    assert_eq!(verdict.problems[0].attribute, Some(3));
    let verdict = judge(&body(&[], &[&[0x40, 1, 1, 7], PATH, NEXT_HOP], TEN), &two());
    assert_eq!((verdict.action, verdict.problems[0].attribute), (Action::TreatAsWithdraw, Some(1)));
    let zero = judge(&body(&[], &[ORIGIN, &[0x40, 2, 4, 2, 1, 0, 0], NEXT_HOP], TEN), &two());
    assert_eq!((zero.action, zero.problems[0].attribute), (Action::TreatAsWithdraw, Some(2)));
}

#[test]
fn resets_session_on_unparsable_fields() {
    let reset = |body: &[u8]| {
        let verdict = judge(body, &two());
        assert_eq!(verdict.action, Action::SessionReset, "{verdict:?}");
        verdict.problems[0].error.at()
    };
    assert_eq!(reset(&[0, 9, 0, 0]), Some(2));
    assert_eq!(reset(&[0, 0, 0, 9]), Some(4));
    assert_eq!(reset(&body(&[33, 1], &[], &[])), Some(2));
    let announced = body(&[], &[ORIGIN, PATH, NEXT_HOP], &[8, 10, 24, 1]);
    assert_eq!(reset(&announced), Some(24));
}

#[test]
fn resets_session_if_errors_may_hide_routes() {
    // There are no routes that a malformed MED could withdraw.
    let verdict = judge(&body(&[], &[&[0x80, 4, 1, 0]], &[]), &two());
    assert_eq!(verdict.action, Action::SessionReset);
    // Attribute discard does not depend on routes.
    let verdict = judge(&body(&[], &[&[0x40, 6, 1, 0]], &[]), &two());
    assert_eq!(verdict.action, Action::AttributeDiscard);
}

#[test]
fn takes_action_of_most_severe_problem() {
    let attributes: &[&[u8]] = &[ORIGIN, PATH, NEXT_HOP, &[0x80, 4, 1, 0], &[0x40, 99, 0]];
    let verdict = judge(&body(&[], attributes, TEN), &two());
    assert_eq!(verdict.action, Action::SessionReset);
    assert_eq!(verdict.problems.len(), 2);
}

#[test]
fn limits_recorded_problems() {
    let flood = [0xc0, 200, 0].repeat(1000);
    let verdict = judge(&body(&[], &[ORIGIN, PATH, NEXT_HOP, &flood], TEN), &two());
    assert_eq!(verdict.problems.len(), Verdict::LIMIT);
    let paths: crate::negotiated::Families =
        [Family { safi: Safi::UNICAST, ..Family::IPV4_UNICAST }].into_iter().collect();
    let add_path = Negotiated { add_path: paths, ..two() };
    let with_id = body(&[], &[ORIGIN, PATH, NEXT_HOP], &[0, 0, 0, 7, 8, 10]);
    assert_eq!(judge(&with_id, &add_path).action, Action::Accept);
    assert_eq!(judge(&with_id, &two()).action, Action::SessionReset);
}
