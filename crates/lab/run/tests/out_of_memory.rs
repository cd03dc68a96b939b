//! The final record of a process whose allocation failed. It needs a separate process, because it
//! ends all unfinished runs of the process.

use run::record::{FailureKind, SCHEMA, Status};
use run::{RunFolder, RunRecord, save_records_without_memory};

#[test]
fn unfinished_run_gets_final_record_after_failed_allocation() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(dir.path(), "oom").unwrap();
    let record = RunRecord { schema: SCHEMA.to_owned(), ..RunRecord::default() };
    folder.write_beginning("", &record).unwrap();
    save_records_without_memory();
    let record = RunFolder::open(folder.path()).unwrap().read_record().unwrap();
    assert_eq!(record.status, Status::Failed);
    assert_eq!(record.failure.unwrap().kind, FailureKind::OutOfMemory);
}
