//! The users of programs: their IDs, and the mapping of IDs into a lab's user namespace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::NodeId;
use lab::plan::{Plan, User as Wanted};
use sys::confine::Capabilities;
use sys::confine::user::{Ids, User};
use sys::namespace::{self, IdRange, Subordinates};

use crate::{Error, Result};

/// The programs that map subordinate IDs.
const MAPPING_PROGRAMS: [&str; 2] = ["newuidmap", "newgidmap"];
/// The files that assign them to users (subuid(5), subgid(5)).
const RANGE_FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// The users of a plan's programs, and their IDs in the lab.
#[derive(Clone, Debug, Default)]
pub struct Users {
    known: BTreeMap<String, (User, Ids)>,
    /// The subordinate IDs of the lab, if it needs them.
    pub subordinates: Option<Subordinates>,
}

impl Users {
    /// Looks up the users of the nodes of `plan` that are `here`, and of their programs.
    ///
    /// # Errors
    /// [`Error::UnknownUser`], and [`Error::NoUsers`] if the lab cannot have them.
    pub fn of(plan: &Plan, here: impl Fn(NodeId) -> bool) -> Result<Self> {
        let nodes = plan.nodes.iter().enumerate().filter(|(at, _)| here(NodeId::at(*at)));
        let nodes = nodes.filter_map(|(_, node)| node.user.as_deref());
        let programs = plan.programs.iter().filter(|program| here(program.node));
        let programs = programs.filter_map(|program| program.user.as_ref());
        let mut users = Self::default();
        for wanted in nodes.chain(programs) {
            users.add(wanted)?;
        }
        users.map()?;
        Ok(users)
    }

    fn add(&mut self, wanted: &Wanted) -> Result<()> {
        if self.known.contains_key(&wanted.name) {
            return Ok(());
        }
        let found = User::named(&wanted.name)?;
        let user = found.ok_or_else(|| Error::UnknownUser {
            user: wanted.name.clone(),
            declared: wanted.declared,
        })?;
        let ids = user.ids()?;
        self.known.insert(wanted.name.clone(), (user, ids));
        Ok(())
    }

    /// Determines the IDs of all users in the lab.
    fn map(&mut self) -> Result<()> {
        let others = self.known.values().filter(|(user, _)| user.uid != 0);
        let others: Vec<User> = others.map(|(user, _)| user.clone()).collect();
        let Some(first) = others.first() else { return Ok(()) };
        if can_change_users() {
            let outside =
                others.iter().find(|user| !namespace::is_mapped("self", user.uid, user.gid));
            return outside.map_or(Ok(()), |user| {
                let why = "the user namespace of this process has no such user; run the lab \
                           outside of it, or give the container a range of users";
                Err(no_users(user, why.to_owned()))
            });
        }
        let numbers = subordinates().map_err(|why| no_users(first, why))?;
        if let Some(user) = others.iter().find(|user| !numbers.contain(user.uid, user.gid)) {
            let (uids, gids) = (numbers.uids.count, numbers.gids.count);
            let (uid, gid) = (user.uid, user.gid);
            let why = format!(
                "its numbers {uid}:{gid} are above the subordinate IDs of this user, {uids}:{gids}"
            );
            return Err(no_users(user, why));
        }
        for (_, ids) in self.known.values_mut() {
            ids.groups.retain(|group| numbers.contain(0, *group));
        }
        self.subordinates = Some(numbers);
        Ok(())
    }

    /// The IDs of a user in the lab; `None`: the user of the lab's process.
    pub fn ids(&self, name: &str) -> Option<&Ids> {
        self.known.get(name).map(|(_, ids)| ids).filter(|ids| ids.uid != 0)
    }

    pub fn variables(&self, name: &str) -> Vec<(String, String)> {
        self.known.get(name).map_or_else(Vec::new, |(user, _)| variables(user))
    }
}

fn variables(user: &User) -> Vec<(String, String)> {
    let home = user.home.to_string_lossy().into_owned();
    let name = || user.name.clone();
    vec![("HOME".to_owned(), home), ("USER".to_owned(), name()), ("LOGNAME".to_owned(), name())]
}

fn no_users(user: &User, why: String) -> Error {
    Error::NoUsers { user: user.name.clone(), why }
}

/// Whether labs of this process have all of its users.
fn can_change_users() -> bool {
    let (uid, _) = namespace::identity();
    uid == 0 && Capabilities::SETUID.and(Capabilities::SETGID).are_effective()
}

/// The subordinate IDs of this process's user, or why it has none, with the fix.
pub(crate) fn subordinates() -> std::result::Result<Subordinates, String> {
    let (uid, _) = namespace::identity();
    let name = User::with_id(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let range = |path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        IdRange::of_user(&text, &name, uid).map(IdRange::limited).ok_or_else(|| {
            format!(
                "{path} has no range for {name}; fix: sudo usermod --add-subuids 100000-165535 \
                 --add-subgids 100000-165535 {name}"
            )
        })
    };
    let (uids, gids) = (range(RANGE_FILES[0])?, range(RANGE_FILES[1])?);
    if let Some(missing) = MAPPING_PROGRAMS.iter().find(|name| in_path(name).is_none()) {
        return Err(format!("{missing} is not installed; fix: sudo apt install uidmap"));
    }
    Ok(Subordinates { uids, gids })
}

/// Why this process's labs cannot have programs of other users; `None` if they can.
pub(crate) fn refusal() -> Option<String> {
    if can_change_users() { None } else { subordinates().err() }
}

pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

type Variables = Vec<(String, String)>;

/// The IDs and variables of `name` for a command in the running lab whose first process
/// is `init`.
///
/// # Errors
/// [`Error::UnknownUser`], and [`Error::NoUsers`] if the lab does not have the user.
pub(crate) fn in_lab(name: &str, init: u32) -> Result<(Option<Ids>, Variables)> {
    let found = User::named(name)?;
    let unknown = || Error::UnknownUser { user: name.to_owned(), declared: (0, 0) };
    let user = found.ok_or_else(unknown)?;
    let variables = variables(&user);
    if user.uid == 0 {
        return Ok((None, variables));
    }
    let init = init.to_string();
    if !namespace::is_mapped(&init, user.uid, user.gid) {
        let why = "the lab runs without root, and has no such user".to_owned();
        return Err(no_users(&user, why));
    }
    let mut ids = user.ids()?;
    ids.groups.retain(|group| namespace::is_mapped(&init, 0, *group));
    Ok((Some(ids), variables))
}
