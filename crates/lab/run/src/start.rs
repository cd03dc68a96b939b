//! The record at the start of a run.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::RunRecord;
use crate::record::{Clock, Engine, Machine, SCHEMA, Status, SweepValue};
use lab::plan::Plan;

pub(crate) mod topology;

/// The data of a run's first record that is not in the plan.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The run folder's identifier.
    pub id: &'a str,
    /// The command that repeats the run.
    pub repeat: &'a str,
    pub clock: Clock,
    pub engine: Engine,
}

/// The record of a run that begins now.
pub fn begin(plan: &Plan, start: Start<'_>) -> RunRecord {
    let value = |(parameter, value): &(String, String)| SweepValue {
        parameter: parameter.clone(),
        value: value.clone(),
    };
    RunRecord {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: plan.name.clone(),
        id: start.id.to_owned(),
        seed: plan.seed,
        status: Status::Running,
        clock: start.clock,
        started_unix_ms: unix_ms(),
        planned_s: plan.duration.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        repeat: start.repeat.to_owned(),
        plan_hash: lab_hash(&lab::resolved(plan)),
        sweep: plan.sweep.iter().map(value).collect(),
        machine: machine(),
        engine: start.engine,
        topology: topology::topology(plan),
        ..RunRecord::default()
    }
}

/// The hash of a resolved lab file: equal for equal plans.
pub fn lab_hash(resolved: &str) -> String {
    hash_text(base::fnv::hash(resolved.as_bytes()))
}

/// A hash in the format of records.
pub fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}

/// Milliseconds since 1970 (UTC).
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// The host on which this process runs.
pub fn machine() -> Machine {
    let uname = rustix::system::uname();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = rustix::system::sysinfo();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Machine {
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        cpu: model.map_or("", |rest| rest.trim_start_matches([' ', '\t', ':'])).to_owned(),
        cores: cores as u32,
        memory_bytes: memory.totalram as u64 * u64::from(memory.mem_unit),
        realtime: false,
    }
}
