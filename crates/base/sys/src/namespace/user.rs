//! User namespaces: creation, and mapping of users.

use std::ffi::OsString;
use std::fs;
use std::io::{PipeWriter, Read as _, Write as _};
use std::process::Command;

use super::{Kinds, identity, is_privileged, unshare};
use crate::confine::Capabilities;
use crate::process::{Child, Exit, fork};
use crate::{Error, Result};

/// User namespace of a process after [`unshare_with_user`].
#[derive(Debug)]
pub enum UserNamespace {
    /// A new user namespace with all users of the parent namespace under the same numbers: the
    /// process was root and may map them.
    AllUsers,
    /// A new user namespace in which the calling user is root and the only user.
    OneUser,
    /// A new user namespace: the calling user is root, other users have subordinate IDs.
    Subordinates,
    /// The same user namespace, because of this error; the process is privileged nevertheless.
    Unchanged(Error),
}

/// Capabilities for mapping more than the caller's own user, see `user_namespaces(7)`.
const MAP_USERS: Capabilities =
    Capabilities::SETUID.and(Capabilities::SETGID).and(Capabilities::SETFCAP);

/// A range of user or group numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub first: u32,
    pub count: u32,
}

/// Maximum count of subordinate numbers in a user namespace: user IDs from 1 to 65,535.
const MAX_SUBORDINATES: u32 = 65_535;

impl IdRange {
    /// The largest range of a user in the text of `/etc/subuid` or `/etc/subgid` (subuid(5)).
    pub fn of_user(text: &str, name: &str, uid: u32) -> Option<Self> {
        let ranges = text.lines().filter_map(|line| {
            let mut fields = line.trim().split(':');
            let owner = fields.next()?;
            let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let is_own = owner == name || owner.parse() == Ok(uid);
            (is_own && count > 0).then_some(Self { first, count })
        });
        ranges.max_by_key(|range| range.count)
    }

    /// The part of this range that a user namespace uses.
    #[must_use]
    pub fn limited(self) -> Self {
        Self { count: self.count.min(MAX_SUBORDINATES), ..self }
    }
}

/// Subordinate numbers for the users and groups of a user namespace, from number 1 on. The
/// set-user-ID programs `newuidmap` and `newgidmap` map them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subordinates {
    pub uids: IdRange,
    pub gids: IdRange,
}

impl Subordinates {
    /// Whether this user and this group have a number.
    pub fn contain(&self, uid: u32, gid: u32) -> bool {
        uid <= self.uids.count && gid <= self.gids.count
    }

    /// Maps the numbers, and the caller to root, into the user namespace of process `pid`.
    fn map(&self, pid: u32, uid: u32, gid: u32) -> Result<()> {
        for (program, own, range) in [("newuidmap", uid, self.uids), ("newgidmap", gid, self.gids)]
        {
            let numbers = [pid, 0, own, 1, 1, range.first, range.count];
            let arguments = numbers.map(|number| OsString::from(number.to_string()));
            let status = Command::new(program).args(arguments).status();
            match status {
                Ok(status) if status.success() => {}
                // The program has reported the reason on standard error.
                Ok(_) => return Err(Error::from_errno("newuidmap", libc::EPERM)),
                Err(cause) => return Err(Error::file("execute", program, cause)),
            }
        }
        Ok(())
    }
}

/// Moves the calling process, which must have one thread, into new namespaces of `kinds` and into a
/// new user namespace that owns them, in which it is root and has all capabilities. If the host has
/// no user namespaces, a privileged process continues without one. `subordinates`: IDs for other
/// users if the caller is not root.
///
/// # Errors
/// The error of the kernel. The process is then in its previous namespaces, or must exit.
pub fn unshare_with_user(
    kinds: Kinds,
    subordinates: Option<&Subordinates>,
) -> Result<UserNamespace> {
    let (uid, gid) = identity();
    if let Some(numbers) = subordinates {
        let numbers = numbers.clone();
        let writer = MapWriter::start(move |pid| numbers.map(pid, uid, gid))?;
        unshare(kinds | Kinds::USER)?;
        writer.write()?;
        return Ok(UserNamespace::Subordinates);
    }
    if uid == 0 && is_privileged() && !Capabilities::SETFCAP.are_effective() {
        // In some containers the kernel does not permit a mapping of root.
        unshare(kinds)?;
        let refusal = Error::from_errno("write to uid_map without CAP_SETFCAP", libc::EPERM);
        return Ok(UserNamespace::Unchanged(refusal));
    }
    let users = if uid == 0 && MAP_USERS.are_effective() {
        let uids = identity_map("/proc/self/uid_map")?;
        let gids = identity_map("/proc/self/gid_map")?;
        Some(MapWriter::start(move |pid| {
            write(&format!("/proc/{pid}/uid_map"), &uids)
                .and_then(|()| write(&format!("/proc/{pid}/gid_map"), &gids))
        })?)
    } else {
        None
    };
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
    // Otherwise an unprivileged process cannot write gid_map.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    Ok(UserNamespace::OneUser)
}

/// Moves the calling process, which must have one thread, into a new user namespace in which it is
/// the user `(uid, gid)` instead of its present one, and the only user.
pub fn map_user((uid, gid): (u32, u32)) -> Result<()> {
    let (own_uid, own_gid) = identity();
    unshare(Kinds::USER)?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{uid} {own_uid} 1"))?;
    write("/proc/self/gid_map", &format!("{gid} {own_gid} 1"))
}

/// Whether the user namespace of process `pid` (`self`: of this one) has this user and this group.
pub fn is_mapped(pid: &str, uid: u32, gid: u32) -> bool {
    let has = |kind: &str, id| {
        let map = fs::read_to_string(format!("/proc/{pid}/{kind}_map"));
        map.is_ok_and(|map| outside(&map, id).is_some())
    };
    has("uid", uid) && has("gid", gid)
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::file("write", path, e))
}

/// Whether this process's user has a number in its user namespace. `unshare --user` without a map
/// gives it none; it is then shown as the overflow user (65534) and the kernel gives it no rights.
pub fn is_user_mapped() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    map.map_or(true, |map| outside(&map, identity().0).is_some())
}

/// Whether this process is root and may not map itself to a new user namespace, which needs
/// `CAP_SETFCAP` (Linux 5.12).
pub fn is_unmappable_root() -> bool {
    identity().0 == 0 && !Capabilities::SETFCAP.are_effective()
}

/// The number of `uid` in the parent user namespace; unchanged if it has none.
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

/// A map that contains every user of this namespace under the same number.
fn identity_map(of: &str) -> Result<String> {
    let text = fs::read_to_string(of).map_err(|e| Error::file("read", of, e))?;
    let extents = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (inside, count) = (fields.next()?, fields.nth(1)?);
        Some(format!("{inside} {inside} {count}\n"))
    });
    Ok(extents.collect())
}

/// A child in the previous user namespace, from which maps of several users must be written. It
/// ends when this is dropped.
struct MapWriter {
    child: Child,
    begin: PipeWriter,
}

impl MapWriter {
    /// `write_maps` gets the process in the new user namespace.
    fn start(write_maps: impl FnOnce(u32) -> Result<()>) -> Result<Self> {
        let (mut wait, begin) = std::io::pipe().map_err(pipe_failed)?;
        let own = std::process::id();
        let mut begin = Some(begin);
        let copy = &mut begin;
        let work = move || {
            // End-of-file means that there is nothing to write.
            drop(copy.take());
            if wait.read_exact(&mut [0]).is_err() {
                return 0;
            }
            write_maps(own).map_or_else(|error| error.errno().unwrap_or(libc::EIO), |()| 0)
        };
        let child = Child::of(fork(work)?)?;
        let begin = begin.ok_or(Error::Malformed("fork"))?;
        Ok(Self { child, begin })
    }

    /// Maps all users into the new user namespace of the process that created this.
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

    #[test]
    fn finds_the_largest_subordinate_range_of_a_user() {
        let text = "# comment\nbob:100000:65536\nalice:165536:100\n1000:300000:65536\nalice:x:1\n";
        let range = |name, uid| IdRange::of_user(text, name, uid);
        assert_eq!(range("alice", 1000), Some(IdRange { first: 300_000, count: 65_536 }));
        assert_eq!(range("alice", 1), Some(IdRange { first: 165_536, count: 100 }));
        assert_eq!(range("carol", 1002), None);
        let uids = range("bob", 2).unwrap().limited();
        let numbers = Subordinates { uids, gids: IdRange { first: 1, count: 100 } };
        assert!(numbers.contain(104, 100) && !numbers.contain(104, 101));
        assert!(numbers.contain(65_535, 1) && !numbers.contain(65_536, 1));
    }

    #[test]
    fn knows_the_users_of_its_own_namespace() {
        let (uid, gid) = identity();
        assert!(is_mapped("self", uid, gid) && !is_mapped("no-process", uid, gid));
    }
}
