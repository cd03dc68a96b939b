use std::collections::BTreeMap;

use proptest::prelude::*;

use super::SessionTable;

proptest! {
    #[test]
    fn does_what_a_map_does(
        steps in proptest::collection::vec((any::<bool>(), 0_u32..200, any::<u64>()), 1..600),
        many in prop_oneof![Just(12_u32), Just(30), Just(200)],
        stride in prop_oneof![Just(1_u32), Just(0x0100_0000), Just(0x9e37_79b1)],
    ) {
        let mut table = SessionTable::default();
        let mut map = BTreeMap::new();
        for (come, session, value) in steps {
            let session = (session % many).wrapping_mul(stride);
            if come {
                prop_assert_eq!(table.insert(session, value), map.insert(session, value));
            } else {
                prop_assert_eq!(table.remove(session), map.remove(&session));
            }
            prop_assert_eq!(table.len(), map.len());
        }
        for session in (0..200_u32).map(|session| session.wrapping_mul(stride)) {
            prop_assert_eq!(table.get(session), map.get(&session));
            prop_assert_eq!(table.get_mut(session), map.get_mut(&session));
        }
        let mut listed: Vec<_> = table.iter().map(|(session, value)| (session, *value)).collect();
        listed.sort_unstable();
        prop_assert_eq!(listed, map.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn memory_follows_the_number_of_sessions() {
    let mut table = SessionTable::default();
    for sessions in [1_u32, 10, 100, 10_000, 300_000] {
        for session in table.len() as u32..sessions {
            table.insert(session, 0_u64);
        }
        let each = table.bytes() as f64 / f64::from(sessions);
        assert!(each <= 64.0, "{each} B a session for {sessions}");
    }
    for session in 0..300_000 {
        table.remove(session);
        let held = table.bytes();
        assert!(held <= 64 * table.len().max(4) * 4, "{held} B for {} sessions", table.len());
    }
    assert_eq!(table.bytes(), 0, "an empty table has no memory");
}
