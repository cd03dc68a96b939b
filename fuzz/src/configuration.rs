//! Any text as configuration files: of both Bundler gateways, and of the users of an MCTCP proxy.

use bundler_live::config::{Receive, Send};
use mctcp_proxy::policy::{Rule, Users};

pub(crate) fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Send::parse("sendbox.toml", text);
    let _ = Receive::parse("receivebox.toml", text);
    for line in text.lines() {
        let _ = line.parse::<Rule>();
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), data).expect("a written file");
    let _ = Users::load(file.path());
}
