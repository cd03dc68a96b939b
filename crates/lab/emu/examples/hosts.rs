//! Measures setup time, teardown time and memory of a star of hosts:
//! `cargo run --release --example hosts -- [hosts] [tun|packet]`.
#![expect(clippy::print_stdout, reason = "its output is data")]

use std::fs;
use std::time::Instant;

use emu::enclosure::{self, Engine};

#[path = "../src/sample.rs"]
mod sample;

/// A field of `/proc/meminfo` or `/proc/self/status`, in kB.
fn kilobytes(path: &str, field: &str) -> i64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let hosts: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let engine = match arguments.next().as_deref() {
        None | Some("tun") => Engine::Tun,
        Some("packet") => Engine::Packet,
        Some(other) => return Err(format!("unknown engine {other}").into()),
    };
    sys::namespace::unshare_with_user(sys::namespace::Kinds::NET, None)?;
    let plan = sample::star(hosts);
    let forwarding = sample::FirstIface::of(&plan);
    let kernel = || kilobytes("/proc/meminfo", "Slab") + kilobytes("/proc/meminfo", "Percpu");
    let (free, slab) = (kilobytes("/proc/meminfo", "MemAvailable"), kernel());
    let own = kilobytes("/proc/self/status", "VmRSS");

    let start = Instant::now();
    let enclosure = enclosure::build(&plan, &forwarding, engine)?;
    let up = start.elapsed();
    let free = free - kilobytes("/proc/meminfo", "MemAvailable");
    let slab = kernel() - slab;
    let own = kilobytes("/proc/self/status", "VmRSS") - own;

    let start = Instant::now();
    enclosure::close(enclosure.hosts);
    let down = start.elapsed();
    let each = |kilobytes: i64| kilobytes as f64 / hosts as f64;
    println!(
        "{{\"hosts\":{hosts},\"engine\":\"{}\",\"up_s\":{:.3},\"down_s\":{:.3},\
         \"kernel_kb_per_host\":{:.0},\"available_kb_per_host\":{:.0},\"own_kb_per_host\":{:.1}}}",
        engine.as_str(),
        up.as_secs_f64(),
        down.as_secs_f64(),
        each(slab),
        each(free),
        each(own),
    );
    Ok(())
}
