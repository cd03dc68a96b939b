//! For any schedule of connection events, bytes are delivered once and in order, and sessions end.

mod world;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_schedule_delivers_once_and_ends(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        world::run(&script);
    }
}
