use super::*;

fn shown(segments: impl Iterator<Item = Segment<'static>>) -> Vec<(SegmentKind, Vec<u32>)> {
    segments.map(|segment| (segment.kind, segment.asns.map(|asn| asn.0).collect())).collect()
}

const TWO: &[u8] = &[2, 3, 0, 1, 0, 2, 0x5b, 0xa0, 1, 2, 0, 7, 0, 8];

#[test]
fn encodes_segments_in_two_octets() {
    let path = AsPath::parse(TWO, false, 0).unwrap();
    let expected = [(SegmentKind::Sequence, vec![1, 2, 23456]), (SegmentKind::Set, vec![7, 8])];
    assert_eq!(shown(path.segments()), expected);
    assert_eq!(path.hops(), 4);
    assert_eq!((path.first(), path.origin()), (Some(Asn(1)), None));
    let mut four = Vec::new();
    path.encode(true, &mut four);
    let wide = AsPath::parse(&four, true, 0).unwrap();
    assert_eq!(wide.asns().collect::<Vec<_>>(), path.asns().collect::<Vec<_>>());
    let mut back = Vec::new();
    wide.encode(false, &mut back);
    assert_eq!(back, TWO);
}

#[test]
fn reports_offset_of_malformed_segments() {
    let error = |bytes| AsPath::parse(bytes, false, 100).unwrap_err();
    let at = |bytes| error(bytes).at().unwrap();
    assert_eq!(at(&[9, 1, 0, 1]), 100, "no type");
    assert_eq!(at(&[2, 1, 0, 1, 2, 0]), 105, "no AS");
    assert_eq!(at(&[2, 1, 0, 1, 2]), 104, "one octet left");
    assert_eq!(at(&[2, 2, 0, 1]), 100, "more ASes than there are");
    assert_eq!(
        error(&[2, 2, 0, 1]).to_string(),
        "path segment at byte 100: 4 bytes left, 6 needed"
    );
    // Paths of two octets read as four, and the other way round.
    assert!(AsPath::parse(&[2, 2, 0, 1, 0, 2], true, 0).is_err());
    assert!(AsPath::parse(&[2, 2, 0, 0, 0, 1, 0, 0, 0, 2], false, 0).is_err());
    assert!(AsPath::parse(&[], false, 0).unwrap().segments().next().is_none());
}

#[test]
fn merges_as4_path_into_as_path() {
    // 1 TRANS {7 8} with AS4_PATH 70000 {7 8}: only AS 1 has AS numbers of two octets.
    let mut old = Vec::new();
    let mut sent = AsPathBuf::default();
    sent.push(SegmentKind::Sequence, &[Asn(1), Asn(70000)]);
    sent.push(SegmentKind::Set, &[Asn(7), Asn(8)]);
    sent.view().encode(false, &mut old);
    let old: &'static [u8] = old.leak();
    let path = AsPath::parse(old, false, 0).unwrap();
    let mut as4 = AsPathBuf::sequence(&[Asn(70000)]);
    as4.push(SegmentKind::Set, &[Asn(7), Asn(8)]);
    let as4: &'static AsPathBuf = Box::leak(Box::new(as4));
    let logical = LogicalPath::new(path, Some(as4.view()));
    let expected = [
        (SegmentKind::Sequence, vec![1]),
        (SegmentKind::Sequence, vec![70000]),
        (SegmentKind::Set, vec![7, 8]),
    ];
    assert_eq!(shown(logical.segments()), expected);
    // A longer AS4_PATH is invalid.
    let short = AsPath::parse(&[2, 1, 0, 1], false, 0).unwrap();
    let logical = LogicalPath::new(short, Some(as4.view()));
    assert_eq!(shown(logical.segments()), [(SegmentKind::Sequence, vec![1])]);
}

#[test]
fn keeps_confederation_segments_in_front() {
    let bytes: &'static [u8] = &[3, 1, 0, 9, 2, 2, 0, 1, 0x5b, 0xa0];
    let path = AsPath::parse(bytes, false, 0).unwrap();
    let as4: &'static AsPathBuf = Box::leak(Box::new(AsPathBuf::sequence(&[Asn(1), Asn(70000)])));
    let logical = LogicalPath::new(path, Some(as4.view()));
    let expected =
        [(SegmentKind::ConfedSequence, vec![9]), (SegmentKind::Sequence, vec![1, 70000])];
    assert_eq!(shown(logical.segments()), expected);
}

#[test]
fn splits_long_segments() {
    let asns: Vec<_> = (1..=300).map(Asn).collect();
    let path = AsPathBuf::sequence(&asns);
    let lengths: Vec<_> = path.view().segments().map(|segment| segment.asns.len()).collect();
    assert_eq!(lengths, [255, 45]);
    assert_eq!(path.view().asns().collect::<Vec<_>>(), asns);
    assert!(!path.view().has_zero());
    assert!(AsPathBuf::sequence(&[Asn(1), Asn(0)]).view().has_zero());
}
