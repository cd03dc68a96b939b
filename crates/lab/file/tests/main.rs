//! Lab files, as users of the crate read them.

mod any_text;
mod bundles;
mod clusters;
mod drawn;
mod errors;
mod foreign_files;
mod generated;
mod limits;
mod multipath;
mod plans;
mod sessions;
mod starts;
mod workloads;
