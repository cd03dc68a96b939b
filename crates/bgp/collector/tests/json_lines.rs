//! Every archive file in the repository is converted to JSON Lines.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fmt::Write;
use std::path::Path;

use bgp::mrt::Records;
use collector::text::json_lines;

use super::bgpdump::contents;

/// Number of lines of a file. Each is one object that ends with the bytes of its record.
fn lines(name: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name);
    let convert = |record| {
        let mut text = Vec::new();
        json_lines::record(&record, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect(&text);
        let raw = record.bytes.iter().fold(String::new(), |mut raw, byte| {
            write!(raw, "{byte:02x}").unwrap();
            raw
        });
        assert_eq!(value["raw"], raw, "{text}");
    };
    Records::new(&contents(&path)).flatten().map(convert).count()
}

#[test]
fn writes_one_object_per_record() {
    let mut total = 0;
    for name in [
        "mrt/ris.rrc06.updates.1427846400.gz",
        "mrt/ris_rrc00_2000.03_updates.20000325.0345.gz",
        "mrt/ris_rrc01_2000.11_updates.20001104.0124.gz",
        "mrt/ris_rrc03_2010.02_updates.20100227.1600.first-796-records.gz",
        "mrt/routeviews.route-views.jinx.updates.1427846400.bz2",
        "mrt/small/bgpipe_sample.mrt",
        "mrt/small/bird-mrtdump_rib",
        "mrt/small/bird6_bgp",
        "mrt/small/openbgpd_rib_table-mp",
        "mrt/small/openbgpd_rib_table-v2",
        "mrt/small/openbgpd_rib_table",
        "mrt/small/quagga_rib",
        "pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt",
    ] {
        let count = lines(name);
        assert!(count > 0, "{name}");
        total += count;
    }
    assert!(total > 5000, "{total}");
}
