//! Every archive file in the repository is converted to JSON Lines and back.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::Read;
use std::path::Path;

use bgp::mrt::Records;
use collector::text::json_lines::{self, Line};

fn round(name: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name);
    let mut file = fs::File::open(&path).unwrap();
    let mut bytes = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes),
        Some("bz2") => bzip2::read::MultiBzDecoder::new(file).read_to_end(&mut bytes),
        _ => file.read_to_end(&mut bytes),
    }
    .unwrap();
    let mut lines = 0;
    for record in Records::new(&bytes).flatten() {
        let mut text = Vec::new();
        json_lines::record(&record, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        let back = json_lines::parse(&text).expect(&text);
        assert_eq!(back, Line::Record(record.bytes.to_vec()), "{text}");
        lines += 1;
    }
    lines
}

#[test]
fn round_trips_records() {
    let mut lines = 0;
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
        let count = round(name);
        assert!(count > 0, "{name}");
        lines += count;
    }
    assert!(lines > 5000, "{lines}");
}
