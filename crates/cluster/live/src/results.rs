//! Packs folders for the transfer between machines: a shard's results to the coordinator, and a
//! lab's files to the agents.
//!
//! ```text
//! packed = zstd(magic, entry …, 0 u16)
//! entry  = length u16, path, mode u32, size u64, contents, SHA-256
//! ```
//!
//! Numbers are little-endian; paths are relative, in UTF-8, with `/` as separator. Received data is
//! not trusted: it is unpacked inside a new folder, up to a size limit, and the folder is renamed
//! to its final name once it is complete.

use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use run::files::Replacement;
use sha2::{Digest, Sha256};

use super::{Error, Result};

const MAGIC: &[u8; 16] = b"netarium pack 1\n";

/// The fastest level. It halves tables of counters and takes little CPU time from the lab.
const LEVEL: i32 = 1;
const MAX_FILES: usize = 1 << 20;

/// Packs the regular files under `folder` into the file `to` and returns its size. The file appears
/// once it is complete. No part of its path may be a symbolic link.
///
/// # Errors
/// If a file cannot be read or written, or changes in the meantime.
pub(crate) fn pack(folder: &Path, to: &Path) -> Result<u64> {
    // Programs of a lab may have created symbolic links in the folder of `to`.
    let packed = Replacement::of(to).map_err(Error::file("create", to))?;
    let size = pack_into(folder, packed.file(), to)?;
    packed.commit().map_err(Error::file("write", to))?;
    Ok(size)
}

fn pack_into(folder: &Path, file: &File, to: &Path) -> Result<u64> {
    let write = || Error::file("write", to);
    let mut out = zstd::Encoder::new(BufWriter::new(file), LEVEL).map_err(write())?;
    out.include_checksum(true).map_err(write())?;
    out.write_all(MAGIC).map_err(write())?;
    let folder = folder.canonicalize().map_err(Error::file("open", folder))?;
    for name in files(&folder)? {
        let path = folder.join(&name);
        let from = run::files::open(&path).map_err(Error::file("open", &path))?;
        let facts = from.metadata().map_err(Error::file("read", &path))?;
        out.write_all(&(name.len() as u16).to_le_bytes()).map_err(write())?;
        out.write_all(name.as_bytes()).map_err(write())?;
        out.write_all(&facts.permissions().mode().to_le_bytes()).map_err(write())?;
        out.write_all(&facts.len().to_le_bytes()).map_err(write())?;
        let mut from = BufReader::new(from).take(facts.len());
        let (copied, sum) = copy(&mut from, &mut out).map_err(Error::file("pack", &path))?;
        if copied < facts.len() {
            let cause = io::Error::new(
                ErrorKind::UnexpectedEof,
                "the file became shorter while it was packed",
            );
            return Err(Error::file("pack", &path)(cause));
        }
        out.write_all(&sum).map_err(write())?;
    }
    out.write_all(&0u16.to_le_bytes()).map_err(write())?;
    let file = out.finish().map_err(write())?;
    let file = file.into_inner().map_err(|e| write()(e.into_error()))?;
    Ok(file.metadata().map_err(write())?.len())
}

/// Names of all regular files under a folder, sorted. Omits links, devices, and names that are not
/// UTF-8.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let path = folder.join(&inner);
        let entries = fs::read_dir(&path).map_err(Error::file("read", &path))?;
        for entry in entries {
            let entry = entry.map_err(Error::file("read", &path))?;
            let kind = entry.file_type().map_err(Error::file("read", entry.path()))?;
            let name = inner.join(entry.file_name());
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file()
                && let Some(name) = name.to_str()
                && u16::try_from(name.len()).is_ok()
            {
                names.push(name.to_owned());
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Unpacks the output of [`pack`] into the folder `into`, which must be absent or empty and appears
/// once it is complete. The max total size of the files is `limit` bytes.
///
/// # Errors
/// If the data is damaged or too large, or a file cannot be written. Then no files remain.
pub(crate) fn unpack(from: impl Read, into: &Path, limit: u64) -> Result<()> {
    let part = temporary(into);
    // An earlier attempt may have been killed.
    let _ = fs::remove_dir_all(&part);
    // A link of this name would be an error.
    let parent = part.parent().unwrap_or(&part);
    fs::create_dir_all(parent)
        .and_then(|()| fs::create_dir(&part))
        .map_err(Error::file("create", &part))?;
    let real = part.canonicalize().map_err(Error::file("find", &part))?;
    let done = unpack_into(from, &real, limit)
        .and_then(|()| fs::rename(&part, into).map_err(Error::file("create", into)));
    if done.is_err() {
        let _ = fs::remove_dir_all(&part);
    }
    done
}

fn unpack_into(from: impl Read, part: &Path, limit: u64) -> Result<()> {
    let damaged = |cause: io::Error| Error::file("unpack", part)(cause);
    let mut from = BufReader::new(zstd::Decoder::new(from).map_err(damaged)?);
    if read::<16>(&mut from).map_err(damaged)? != *MAGIC {
        return Err(damaged(invalid("not a packed folder of this version")));
    }
    let mut left = limit;
    for _ in 0..MAX_FILES {
        let length = u16::from_le_bytes(read(&mut from).map_err(damaged)?);
        if length == 0 {
            let more = from.read(&mut [0]).map_err(damaged)?;
            return if more == 0 { Ok(()) } else { Err(damaged(invalid("data after the end"))) };
        }
        let mut name = vec![0; usize::from(length)];
        from.read_exact(&mut name).map_err(damaged)?;
        let name =
            inside(&name).ok_or_else(|| damaged(invalid("a path leads outside the folder")))?;
        let mode = u32::from_le_bytes(read(&mut from).map_err(damaged)?);
        let size = u64::from_le_bytes(read(&mut from).map_err(damaged)?);
        left = left
            .checked_sub(size)
            .ok_or_else(|| damaged(invalid(&format!("its files have more than {limit} B"))))?;
        let path = part.join(name);
        let write = || Error::file("write", &path);
        let mut folder = part.to_owned();
        for component in name.parent().into_iter().flat_map(Path::components) {
            folder.push(component);
            run::files::create_folder(&folder).map_err(write())?;
        }
        let file = run::files::create_new(&path).map_err(write())?;
        // Keeps the permission to execute, but no write permission for other users.
        let mode = 0o600 | mode & 0o755;
        file.set_permissions(Permissions::from_mode(mode)).map_err(write())?;
        let mut out = BufWriter::new(file);
        let (copied, sum) = copy(&mut (&mut from).take(size), &mut out).map_err(write())?;
        out.flush().map_err(write())?;
        let expected: [u8; 32] = read(&mut from).map_err(damaged)?;
        if copied != size || expected != sum {
            return Err(damaged(invalid("the checksum of a file is wrong")));
        }
    }
    Err(damaged(invalid("it has more than 1,048,576 files")))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// The path, if it is relative and has only normal components.
fn inside(name: &[u8]) -> Option<&Path> {
    let path = Path::new(std::str::from_utf8(name).ok()?);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && path.components().next().is_some()).then_some(path)
}

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Copies all bytes. Returns their number and SHA-256.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, [u8; 32])> {
    let (mut sum, mut size) = (Sha256::new(), 0);
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok((size, sum.finalize().into())),
            Ok(count) => {
                sum.update(&bytes[..count]);
                to.write_all(&bytes[..count])?;
                size += count as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The temporary name of an incomplete file or folder.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with several kinds of files, and its packed form.
    fn packed() -> (tempfile::TempDir, Vec<u8>) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        fs::create_dir_all(folder.join("programs/a.sh")).unwrap();
        fs::write(folder.join("run.json"), b"{}").unwrap();
        fs::write(folder.join("programs/a.sh/stdout"), vec![7; 300_000]).unwrap();
        fs::write(folder.join("empty"), b"").unwrap();
        let script = folder.join("serve");
        fs::write(&script, b"#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o4775)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let file = root.path().join("packed");
        let size = pack(&folder, &file).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert_eq!(size, bytes.len() as u64);
        assert!(size < 10_000, "compressed");
        (root, bytes)
    }

    #[test]
    fn unpacks_what_was_packed() {
        let (root, bytes) = packed();
        let into = root.path().join("back");
        unpack(bytes.as_slice(), &into, 400_000).unwrap();
        assert_eq!(files(&into).unwrap(), ["empty", "programs/a.sh/stdout", "run.json", "serve"]);
        assert_eq!(fs::read(into.join("programs/a.sh/stdout")).unwrap(), vec![7; 300_000]);
        let mode = fs::metadata(into.join("serve")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "executable, without set-user-ID and group write");
        // An existing folder is not changed.
        assert!(unpack(bytes.as_slice(), &into, 400_000).is_err());
        assert!(into.join("run.json").is_file());
    }

    #[test]
    fn packs_through_no_link() {
        let (root, bytes) = packed();
        let outside = root.path().join("outside");
        fs::write(&outside, b"kept").unwrap();
        let to = root.path().join("results");
        for name in [to.clone(), temporary(&to)] {
            std::os::unix::fs::symlink(&outside, name).unwrap();
        }
        pack(&root.path().join("run"), &to).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"kept");
        assert_eq!(fs::read(&to).unwrap(), bytes);
        let folder = root.path().join("folder");
        std::os::unix::fs::symlink(root.path(), &folder).unwrap();
        assert!(pack(&root.path().join("run"), &folder.join("packed")).is_err());
    }

    #[test]
    fn damaged_data_leaves_no_files() {
        let (root, bytes) = packed();
        let into = root.path().join("back");
        let mut wrong: Vec<Vec<u8>> = (0..bytes.len()).map(|to| bytes[..to].to_vec()).collect();
        wrong.extend((0..bytes.len()).step_by(3).map(|at| {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            flipped
        }));
        for bytes in wrong {
            // The decoder may ignore some bits.
            if unpack(bytes.as_slice(), &into, 400_000).is_ok() {
                assert_eq!(files(&into).unwrap().len(), 4);
                fs::remove_dir_all(&into).unwrap();
            }
            assert!(!into.exists() && !temporary(&into).exists());
        }
        let text = unpack(bytes.as_slice(), &into, 300_000).unwrap_err().to_string();
        assert!(text.contains("more than 300000 B") && !temporary(&into).exists(), "{text}");
    }

    /// Random changes to lengths, paths and sizes, in valid compressed data.
    #[test]
    fn malicious_data_stays_within_limit() {
        const LIMIT: u64 = 400_000;
        let (root, bytes) = packed();
        let plain = zstd::decode_all(bytes.as_slice()).unwrap();
        let into = root.path().join("back");
        let mut random = 1_u64;
        for _ in 0..300 {
            let mut wrong = plain.clone();
            for _ in 0..4 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // The heads of entries are before and after the large file.
                let at = (random >> 33) as usize % 300;
                let at = if random & 1 == 0 { at } else { plain.len() - 1 - at };
                wrong[at] = (random >> 56) as u8;
            }
            let packed = zstd::encode_all(wrong.as_slice(), 1).unwrap();
            if unpack(packed.as_slice(), &into, LIMIT).is_ok() {
                let sizes = files(&into).unwrap().into_iter();
                let bytes: u64 = sizes.map(|f| fs::metadata(into.join(f)).unwrap().len()).sum();
                assert!(bytes <= LIMIT);
                fs::remove_dir_all(&into).unwrap();
            }
            let left = fs::read_dir(root.path()).unwrap().count();
            assert_eq!(left, 2, "only the folder and its packed file");
        }
    }

    #[test]
    fn rejects_paths_outside_folder() {
        for name in ["../x", "/etc/passwd", "a/../../x", "..", "./x", ""] {
            assert_eq!(inside(name.as_bytes()), None, "{name}");
            let mut bytes = MAGIC.to_vec();
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend([0; 12]);
            bytes.extend(Sha256::digest([]));
            bytes.extend([0; 2]);
            let bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
            let root = tempfile::tempdir().unwrap();
            let into = root.path().join("in");
            assert!(unpack(bytes.as_slice(), &into, 100).is_err() && !into.exists());
        }
        assert!(inside(b"programs/a/stdout").is_some());
        assert_eq!(inside(b"\xff"), None);
    }
}
