//! Checks that files generated from the tables are up to date. `NETARIUM_GENERATE=1` writes them.

use std::fs;
use std::path::Path;

fn check(path: &str, fresh: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    if std::env::var_os("NETARIUM_GENERATE").is_some() {
        fs::create_dir_all(path.parent().expect("a file has a folder"))
            .expect("the folder can be made");
        fs::write(&path, fresh).expect("the file can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == fresh,
        "{} is stale: run `NETARIUM_GENERATE=1 cargo test -p netarium-lab-file --test integration generated`",
        path.display()
    );
}

#[test]
fn the_schema_is_fresh() {
    let text = serde_json::to_string_pretty(&lab::schema()).unwrap();
    check("schemas/lab.schema.json", &format!("{text}\n"));
}

#[test]
fn the_page_on_lab_files_is_fresh() {
    check("docs/src/reference/lab-file.md", &lab::lab_file_page());
}

#[test]
fn the_page_on_error_codes_is_fresh() {
    check("docs/src/reference/errors.md", &lab::errors_page());
}
