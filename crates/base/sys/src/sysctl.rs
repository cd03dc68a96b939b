//! Kernel parameters under `/proc/sys`. Those below `net` belong to the network namespace of
//! the calling thread.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::{Error, Result};

/// Reads `name` (such as `net/ipv4/ip_forward`), without the final newline.
pub fn read(name: &str) -> Result<String> {
    let path = format!("/proc/sys/{name}");
    let text = fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
    Ok(text.trim_end().to_owned())
}

pub fn write(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{name}");
    // A parameter is set by one write; nothing is created if it does not exist.
    let result = OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    result.map_err(|e| Error::file("write", &path, e))
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_and_reports() {
        assert!(super::read("kernel/osrelease").unwrap().contains('.'));
        let error = super::write("net/ipv4/no_such_parameter", "1").unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }
}
