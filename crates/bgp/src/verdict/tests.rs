use super::*;
use crate::message::encode;
use crate::{Family, Safi};

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

/// Verdict about good routes with one more attribute.
fn with(attribute: &[u8], relation: Relation) -> Verdict {
    judge_told(&body(&[], &[ORIGIN, PATH, NEXT_HOP, attribute], TEN), &two(), relation)
}

#[test]
fn good_updates_are_accepted() {
    for body in [
        body(&[], &[ORIGIN, PATH, NEXT_HOP], TEN),
        body(TEN, &[], &[]),
        body(TEN, &[ORIGIN, PATH, NEXT_HOP], TEN),
        body(&[], &[], &[]),
        body(&[], &[&[0x80, 15, 3, 0, 2, 1]], &[]),
        // Attributes without routes are odd, but no error.
        body(&[], &[ORIGIN], &[]),
    ] {
        let verdict = judge(&body, &two());
        assert_eq!(verdict, Verdict { action: Action::Accept, problems: vec![] });
        assert_eq!(verdict.notification(), None);
    }
}

#[test]
fn other_families_need_no_next_hop_and_signed_paths_no_other() {
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
    let lacks = signed.problems.iter().any(|problem| problem.notification == (3, 3));
    assert!(!lacks, "{signed:?}");
    assert_eq!(verdict(&[ORIGIN, &reach], &[]).action, Action::TreatAsWithdraw);
}

#[test]
fn each_attribute_has_its_action() {
    use Action::{AttributeDiscard, FamilyDisable, SessionReset, TreatAsWithdraw};
    let cases: &[(&str, &[u8], Action, u8)] = &[
        ("MED of 3", &[0x80, 4, 3, 0, 0, 1], TreatAsWithdraw, 5),
        ("MED well-known", &[0x40, 4, 4, 0, 0, 0, 1], TreatAsWithdraw, 4),
        ("LOCAL_PREF of 5", &[0x40, 5, 5, 0, 0, 0, 1, 1], TreatAsWithdraw, 5),
        ("ATOMIC_AGGREGATE of 1", &[0x40, 6, 1, 0], AttributeDiscard, 5),
        ("AGGREGATOR of 8", &[0xc0, 7, 8, 0, 0, 0, 1, 1, 1, 1, 1], AttributeDiscard, 5),
        ("AGGREGATOR AS 0", &[0xc0, 7, 6, 0, 0, 1, 1, 1, 1], AttributeDiscard, 9),
        ("COMMUNITIES of 5", &[0xc0, 8, 5, 1, 1, 1, 1, 1], TreatAsWithdraw, 5),
        ("COMMUNITIES of 0", &[0xc0, 8, 0], TreatAsWithdraw, 5),
        ("ORIGINATOR_ID of 3", &[0x80, 9, 3, 1, 1, 1], TreatAsWithdraw, 5),
        ("CLUSTER_LIST of 0", &[0x80, 10, 0], TreatAsWithdraw, 9),
        ("MP_REACH_NLRI of 4", &[0x80, 14, 4, 0, 2, 1, 0], FamilyDisable, 9),
        ("MP_REACH_NLRI transitive", &[0xc0, 14, 5, 0, 2, 1, 0, 0], SessionReset, 4),
        ("next hop of 4 for IPv6", &[0x80, 14, 9, 0, 2, 1, 4, 1, 2, 3, 4, 0], FamilyDisable, 9),
        ("MP_UNREACH_NLRI of 2", &[0x80, 15, 2, 0, 2], FamilyDisable, 9),
        ("IPv6 prefix of 129", &[0x80, 15, 4, 0, 2, 1, 129], FamilyDisable, 9),
        ("route target cut", &[0x80, 15, 5, 0, 1, 132, 96, 1], FamilyDisable, 9),
        ("AS4_PATH of 3", &[0xc0, 17, 3, 2, 1, 0], AttributeDiscard, 9),
        ("AS4_AGGREGATOR of 6", &[0xc0, 18, 6, 0, 1, 1, 1, 1, 1], AttributeDiscard, 9),
        ("LARGE_COMMUNITIES of 4", &[0xc0, 32, 4, 0, 0, 0, 1], TreatAsWithdraw, 9),
        ("ONLY_TO_CUSTOMER of 2", &[0xc0, 35, 2, 0, 1], TreatAsWithdraw, 9),
        ("unknown, well-known", &[0x40, 99, 0], SessionReset, 2),
        ("ORIGIN again", ORIGIN, AttributeDiscard, 1),
        ("unknown again", &[0xc0, 200, 0, 0xc0, 200, 0], AttributeDiscard, 1),
        ("MP again", &[0x80, 15, 3, 0, 2, 1, 0x80, 15, 3, 0, 2, 1], SessionReset, 1),
        ("length too long", &[0xc0, 99, 9, 0], TreatAsWithdraw, 1),
        ("header cut", &[0xc0, 99], TreatAsWithdraw, 1),
    ];
    for (name, attribute, action, subcode) in cases {
        let verdict = with(attribute, Relation::Unknown);
        assert_eq!(verdict.action, *action, "{name}: {verdict:?}");
        assert_eq!(verdict.problems.len(), 1, "{name}: {verdict:?}");
        assert_eq!(verdict.problems[0].notification, (3, *subcode), "{name}: {verdict:?}");
        let at = verdict.problems[0].error.at().unwrap();
        assert!((22..40).contains(&at), "{name}: at {at}");
        let resets = *action >= FamilyDisable;
        assert_eq!(verdict.notification(), resets.then_some((3, *subcode)), "{name}");
    }
}

#[test]
fn unknown_attributes_are_no_problem() {
    for attribute in [&[0xc0, 20, 1, 7][..], &[0xe0, 21, 0], &[0x80, 129, 0], &[0xd0, 255, 0, 0]] {
        assert_eq!(with(attribute, Relation::External(None)).action, Action::Accept);
    }
}

#[test]
fn some_attributes_are_not_for_strangers() {
    let local_pref = [0x40, 5, 4, 0, 0, 0, 100];
    let short = [0x40, 5, 3, 0, 0, 100];
    let external = Relation::External(None);
    assert_eq!(with(&local_pref, Relation::Unknown).action, Action::Accept);
    assert_eq!(with(&local_pref, Relation::Internal).action, Action::Accept);
    assert_eq!(with(&[], Relation::Unknown).action, Action::Accept);
    assert_eq!(with(&[], Relation::Internal).problems[0].attribute, Some(5));
    assert_eq!(with(&local_pref, external).action, Action::AttributeDiscard);
    assert_eq!(with(&short, Relation::Internal).action, Action::TreatAsWithdraw);
    assert_eq!(with(&short, external).action, Action::AttributeDiscard);
    assert_eq!(with(&[0x80, 9, 4, 1, 1, 1, 1], external).action, Action::AttributeDiscard);
    let as4 = [0xc0, 17, 6, 2, 1, 0, 1, 0, 0];
    let four = Negotiated { four_octet_as: true, ..two() };
    let path = [0x40, 2, 6, 2, 1, 0, 1, 0, 0];
    let four = judge(&body(&[], &[ORIGIN, &path, NEXT_HOP, &as4], TEN), &four);
    assert_eq!(four.action, Action::AttributeDiscard);
    assert_eq!(with(&as4, external).action, Action::Accept);
}

#[test]
fn paths_begin_with_the_sender() {
    let told = |path: &[u8], relation| {
        judge_told(&body(&[], &[ORIGIN, path, NEXT_HOP], TEN), &two(), relation).action
    };
    assert_eq!(told(PATH, Relation::External(Some(Asn(1)))), Action::Accept);
    assert_eq!(told(PATH, Relation::External(Some(Asn(2)))), Action::TreatAsWithdraw);
    let empty = [0x40, 2, 0];
    assert_eq!(told(&empty, Relation::Unknown), Action::Accept);
    assert_eq!(told(&empty, Relation::External(Some(Asn(1)))), Action::TreatAsWithdraw);
    let confederation = [0x40, 2, 8, 3, 1, 0, 9, 2, 1, 0, 1];
    assert_eq!(told(&confederation, Relation::External(None)), Action::TreatAsWithdraw);
    assert_eq!(told(&confederation, Relation::Confederation), Action::Accept);
    assert_eq!(told(PATH, Relation::Confederation), Action::TreatAsWithdraw);
}

#[test]
fn routes_need_their_attributes() {
    let missing = |attributes: &[&[u8]], announced: &[u8]| -> Vec<u8> {
        let verdict = judge(&body(&[], attributes, announced), &two());
        verdict.problems.iter().filter_map(|problem| problem.attribute).collect()
    };
    assert_eq!(missing(&[PATH], TEN), [1, 3]);
    let reach = [&[0x80, 14, 23, 0, 2, 1, 16][..], &[0x20; 16], &[0, 8, 0x20]].concat();
    assert_eq!(missing(&[&reach], &[]), [1, 2]);
    assert_eq!(missing(&[&reach, ORIGIN, PATH], &[]), [0; 0]);
    let verdict = judge(&body(&[], &[ORIGIN, PATH, &[0x40, 3, 4, 127, 0, 0, 1]], TEN), &two());
    assert_eq!(verdict.problems[0].notification, (3, 8));
    let verdict = judge(&body(&[], &[&[0x40, 1, 1, 7], PATH, NEXT_HOP], TEN), &two());
    assert_eq!(
        (verdict.action, verdict.problems[0].notification),
        (Action::TreatAsWithdraw, (3, 6))
    );
    let zero = judge(&body(&[], &[ORIGIN, &[0x40, 2, 4, 2, 1, 0, 0], NEXT_HOP], TEN), &two());
    assert_eq!((zero.action, zero.problems[0].notification), (Action::TreatAsWithdraw, (3, 11)));
}

#[test]
fn fields_that_cannot_be_parsed_reset() {
    let reset = |body: &[u8]| {
        let verdict = judge(body, &two());
        assert_eq!(verdict.action, Action::SessionReset, "{verdict:?}");
        (verdict.notification().unwrap(), verdict.problems[0].error.at())
    };
    assert_eq!(reset(&[0, 9, 0, 0]), ((3, 1), Some(2)));
    assert_eq!(reset(&[0, 0, 0, 9]), ((3, 1), Some(4)));
    assert_eq!(reset(&body(&[33, 1], &[], &[])), ((3, 10), Some(2)));
    let announced = body(&[], &[ORIGIN, PATH, NEXT_HOP], &[8, 10, 24, 1]);
    assert_eq!(reset(&announced), ((3, 10), Some(24)));
}

#[test]
fn errors_without_routes_may_hide_some() {
    // A malformed MED would be treated as a withdrawal of nothing.
    let verdict = judge(&body(&[], &[&[0x80, 4, 1, 0]], &[]), &two());
    assert_eq!((verdict.action, verdict.notification()), (Action::SessionReset, Some((3, 5))));
    // Discarding does not need to know the routes.
    let verdict = judge(&body(&[], &[&[0x40, 6, 1, 0]], &[]), &two());
    assert_eq!(verdict.action, Action::AttributeDiscard);
}

#[test]
fn the_gravest_problem_is_told() {
    let attributes: &[&[u8]] = &[ORIGIN, PATH, NEXT_HOP, &[0x80, 4, 1, 0], &[0x40, 99, 0]];
    let verdict = judge(&body(&[], attributes, TEN), &two());
    assert_eq!(verdict.notification(), Some((3, 2)));
    assert_eq!(verdict.problems.len(), 2);
}

fn message(kind: MessageType, body: &[u8]) -> Verdict {
    let bytes = encode(kind, body, MAX_EXTENDED).unwrap();
    judge_message(Message::split(&bytes).unwrap(), &two(), Relation::Unknown)
}

#[test]
fn other_messages_have_their_lengths() {
    let told = |kind, body: &[u8]| message(kind, body).notification();
    assert_eq!(told(MessageType::KEEPALIVE, &[]), None);
    assert_eq!(told(MessageType::KEEPALIVE, &[0]), Some((1, 2)));
    assert_eq!(told(MessageType::UPDATE, &[0; 3]), Some((1, 2)));
    assert_eq!(told(MessageType::UPDATE, &[0; 4]), None);
    assert_eq!(told(MessageType(9), &[]), Some((1, 3)));
    assert_eq!(told(MessageType::ROUTE_REFRESH, &[0, 1, 0]), Some((1, 2)));
    assert_eq!(told(MessageType::ROUTE_REFRESH, &[0, 1, 1, 1]), None);
    assert_eq!(told(MessageType::ROUTE_REFRESH, &[0, 1, 1, 1, 0]), Some((7, 1)));
    assert_eq!(told(MessageType::NOTIFICATION, &[6, 2]), None);
    let short = message(MessageType::NOTIFICATION, &[6]);
    assert_eq!((short.action, short.notification()), (Action::SessionReset, None));
    assert_eq!(told(MessageType::UPDATE, &[0; 5000]), Some((1, 2)));
}

#[test]
fn opens_are_judged() {
    let told = |body: &[u8]| message(MessageType::OPEN, body).notification();
    let good = [4, 0, 1, 0, 90, 1, 1, 1, 1, 0];
    assert_eq!(told(&good), None);
    assert_eq!(told(&good[..9]), Some((1, 2)));
    let but = |at: usize, value: u8| {
        let mut body = good;
        body[at] = value;
        told(&body)
    };
    assert_eq!(but(0, 3), Some((2, 1)));
    assert_eq!(but(2, 0), Some((2, 2)));
    assert_eq!(but(4, 2), Some((2, 6)));
    assert_eq!(but(9, 7), Some((2, 0)));
    assert_eq!(told(&[4, 0, 1, 0, 90, 0, 0, 0, 0, 0]), Some((2, 3)));
    assert_eq!(told(&[&good[..9], &[2, 1, 0]].concat()), Some((2, 4)));
    assert_eq!(told(&[&good[..9], &[4, 2, 2, 65, 4]].concat()), Some((2, 0)));
    let odd = message(MessageType::OPEN, &[&good[..9], &[4, 2, 2, 65, 0]].concat());
    assert_eq!((odd.action, odd.problems.len()), (Action::AttributeDiscard, 1));
}

#[test]
fn extended_messages_where_they_were_agreed() {
    let withdrawn = [8, 10].repeat(2500);
    let bytes = encode(MessageType::UPDATE, &body(&withdrawn, &[], &[]), MAX_EXTENDED).unwrap();
    let message = Message::split(&bytes).unwrap();
    let extended = Negotiated { extended_message: true, ..two() };
    assert_eq!(judge_message(message, &two(), Relation::Unknown).action, Action::SessionReset);
    assert_eq!(judge_message(message, &extended, Relation::Unknown).action, Action::Accept);
}

#[test]
fn a_flood_of_problems_is_cut() {
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
