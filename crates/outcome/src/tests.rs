//! A plan for tests.

use std::path::Path;

use lab::plan::Plan;

/// Three hosts around a router; link *i* leads from the router to host *i*.
pub(crate) fn star() -> Plan {
    let arm = |host| format!("[node.{host}]\n[[link]]\nends = [\"r\", \"{host}\"]\n");
    let text = "[node.r]\nkind = \"router\"\n".to_owned() + &["a", "b", "c"].map(arm).concat();
    let mut lab = lab::parse("star.toml", &text, Path::new(".")).unwrap();
    lab.plans.swap_remove(0)
}
