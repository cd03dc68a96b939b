//! User namespaces: making one, and mapping users into it.

use std::fs;
use std::io::{PipeWriter, Read as _, Write as _};

use super::{Kinds, identity, is_privileged, unshare};
use crate::confine::Capabilities;
use crate::process::{Child, Exit, fork};
use crate::{Error, Result};

/// What a process is in after [`unshare_with_user`].
#[derive(Debug)]
pub enum UserNamespace {
    /// A new user namespace, with all users of the parent namespace under the same numbers: the
    /// process was root and may map them.
    AllUsers,
    /// A new user namespace, with the calling user alone, as root.
    OneUser,
    /// The same user namespace, because of this refusal; the process is privileged all the same.
    Unchanged(Error),
}

/// Capabilities to write maps of more than the caller's own user, see `user_namespaces(7)`.
const MAP_USERS: Capabilities =
    Capabilities::SETUID.and(Capabilities::SETGID).and(Capabilities::SETFCAP);

/// Moves the calling process, which must have one thread, into new namespaces of `kinds` and into
/// a new user namespace that owns them, in which it is root and has all capabilities. Where the
/// machine has no user namespaces, a privileged process does without.
///
/// # Errors
/// The kernel's refusal. The process is then in its old namespaces, or is to end.
pub fn unshare_with_user(kinds: Kinds) -> Result<UserNamespace> {
    let (uid, gid) = identity();
    if uid == 0 && is_privileged() && !Capabilities::SETFCAP.are_effective() {
        // Some containers: the kernel would not let root be mapped.
        unshare(kinds)?;
        let refusal = Error::from_errno("write to uid_map without CAP_SETFCAP", libc::EPERM);
        return Ok(UserNamespace::Unchanged(refusal));
    }
    let users =
        if uid == 0 && MAP_USERS.are_effective() { Some(MapWriter::start()?) } else { None };
    if let Err(refusal) = unshare(kinds | Kinds::USER) {
        if !is_privileged() {
            return Err(refusal);
        }
        unshare(kinds)?;
        return Ok(UserNamespace::Unchanged(refusal));
    }
    if let Some(writer) = users {
        writer.write()?;
        return Ok(UserNamespace::AllUsers);
    }
    // Without this an unprivileged process may not write gid_map.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    Ok(UserNamespace::OneUser)
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::file("write", path, e))
}

/// The number that `uid` has in the parent user namespace; the same where it has none.
pub fn user_outside(uid: u32) -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    outside(&map, uid).unwrap_or(uid)
}

fn outside(map: &str, uid: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        let mut field = || fields.next()?.ok();
        let (inside, outside, count) = (field()?, field()?, field()?);
        let offset = uid.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

/// A map that has every user of this namespace under the same number.
fn identity_map(of: &str) -> Result<String> {
    let text = fs::read_to_string(of).map_err(|e| Error::file("read", of, e))?;
    let extents = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (inside, count) = (fields.next()?, fields.nth(1)?);
        Some(format!("{inside} {inside} {count}\n"))
    });
    Ok(extents.collect())
}

/// A child that stays in the old user namespace, from where maps of several users are written.
/// It ends when this is dropped.
struct MapWriter {
    child: Child,
    begin: PipeWriter,
}

impl MapWriter {
    fn start() -> Result<Self> {
        let uids = identity_map("/proc/self/uid_map")?;
        let gids = identity_map("/proc/self/gid_map")?;
        let (mut wait, begin) = std::io::pipe().map_err(pipe_failed)?;
        let own = std::process::id();
        let mut begin = Some(begin);
        let copy = &mut begin;
        let write_maps = move || {
            // End-of-file means that there is nothing to write.
            drop(copy.take());
            if wait.read_exact(&mut [0]).is_err() {
                return 0;
            }
            let maps = write(&format!("/proc/{own}/uid_map"), &uids)
                .and_then(|()| write(&format!("/proc/{own}/gid_map"), &gids));
            maps.map_or_else(|error| error.errno().unwrap_or(libc::EIO), |()| 0)
        };
        let child = Child::of(fork(write_maps)?)?;
        let begin = begin.ok_or(Error::Malformed("fork"))?;
        Ok(Self { child, begin })
    }

    /// Maps all users into the new user namespace of the process that started this.
    fn write(mut self) -> Result<()> {
        self.begin.write_all(&[1]).map_err(pipe_failed)?;
        match self.child.wait()? {
            Exit::Code(0) => Ok(()),
            Exit::Code(errno) => Err(Error::from_errno("write to uid_map", errno)),
            Exit::Signal(_) => Err(Error::from_errno("write to uid_map", libc::EINTR)),
        }
    }
}

fn pipe_failed(cause: std::io::Error) -> Error {
    Error::Call { call: "pipe", cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_users_in_the_parent_namespace() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(outside(map, 0), Some(1000));
        assert_eq!(outside(map, 5), Some(100_004));
        assert_eq!(outside(map, 65_537), None);
        assert_eq!(outside("0 0 4294967295\n", 1000), Some(1000));
    }
}
