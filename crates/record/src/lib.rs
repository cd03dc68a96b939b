//! What a run leaves behind: the run folder, its `run.json`, sample tables, captures and log.
//!
//! A driver makes a [`RunFolder`], starts a [`Recorder`] in it and feeds the recorder's cheap
//! [`RecorderHandle`] from its hot path. [`RunRecord`] is the run's summary, the
//! stable interface for every tool that reads results.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod calls;
pub mod cluster;
pub mod control;
mod error;
mod folder;
pub mod frames;
mod join;
pub mod pcapng;
mod recorder;
mod reserve;
pub mod run;
pub mod sample;
pub mod shares;
pub mod subflow;
pub mod table;

pub use bundle::{BundleCounts, BundleSample};
pub use control::{ControlSample, SessionRow};
pub use error::Error;
pub use folder::RunFolder;
pub use recorder::{CaptureId, Recorder, RecorderHandle, RecorderOptions, RecorderReport};
pub use reserve::save_records_without_memory;
pub use run::RunRecord;
pub use sample::{DropReason, FlowSample, Level, LinkSample, PacketRecord, Transfer};
pub use shares::{FlowKind, ShareSample};
pub use subflow::SubflowSample;

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
