//! Giving restored files and directories their owner, their ACLs and their extended attributes.
//!
//! While that happens, only the owner has access. What cannot be set (an ordinary user cannot give a file away, a file system may
//! have no ACLs) is reported, and the mode is reduced so that no user but the one who owns it now has more access than before.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Gid, Mode as RawMode, Uid};
use rustix::io::Errno;

use crate::checkpoint::attributes::{Attributes, Owner, name_for_people};
use crate::checkpoint::entry::FileMode;
use crate::fs::acl;
use crate::fs::xattr::{self, ACCESS_ACL};

/// What a file or directory got.
#[derive(Debug)]
pub struct GivenAttributes {
    /// The wanted mode, or a part of it.
    pub mode: FileMode,
    /// What could not be set or removed.
    pub lost: Vec<String>,
}

/// Which part of the owner could not be set.
#[derive(Clone, Copy, Default)]
struct LostOwner {
    user: bool,
    group: bool,
}

/// Gives an open file or directory exactly these attributes, and the mode.
pub fn give(
    file: BorrowedFd<'_>,
    wanted: &Attributes,
    mode: FileMode,
    of_project: Owner,
) -> io::Result<GivenAttributes> {
    let stat = rustix::fs::fstat(file)?;
    let owner = (stat.st_uid, stat.st_gid);
    let now = Attributes::read(file, owner, of_project)?;
    let mut given = GivenAttributes { mode, lost: Vec::new() };
    if now == *wanted {
        // Another user may own it.
        if FileMode::from_bits(stat.st_mode) != mode {
            set_mode(file, mode)?;
        }
        return Ok(given);
    }
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    // Where this is not allowed, the rest shows whether that matters.
    let _ = set_mode(file, FileMode::from_bits(if is_dir { 0o700 } else { 0o600 }));
    let wanted_owner = wanted.owner().unwrap_or(of_project);
    let lost = change_owner(file, owner, wanted_owner)?;
    if lost.user || lost.group {
        let stat = rustix::fs::fstat(file)?;
        let (user, group) = wanted_owner;
        given.lost.push(format!("owner {user}:{group} (it is {}:{} now)", stat.st_uid, stat.st_gid));
    }
    let (mode, access_acl) = limited(mode, wanted.access_acl(), lost);
    given.mode = mode;
    for name in now.values().keys().filter(|name| !wanted.values().contains_key(*name)) {
        if !xattr::remove(file, name)? {
            given.lost.push(format!("removal of {}", name_for_people(name)));
        }
    }
    for (name, value) in wanted.values() {
        let full = access_acl.as_ref().filter(|_| **name == *ACCESS_ACL);
        let full = full.map(|bare| acl::with_mode(bare, mode.bits()));
        if xattr::set(file, name, full.as_deref().unwrap_or(value))? {
            continue;
        }
        given.lost.push(name_for_people(name));
        if full.is_some() {
            given.mode = FileMode::from_bits(acl::mode_in_place_of(value, mode.bits()));
        }
    }
    // Last: a change of owner takes the set-id bits away.
    set_mode(file, given.mode)?;
    Ok(given)
}

fn set_mode(file: BorrowedFd<'_>, mode: FileMode) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, RawMode::from_raw_mode(mode.bits()))?)
}

fn change_owner(file: BorrowedFd<'_>, now: Owner, wanted: Owner) -> io::Result<LostOwner> {
    if now == wanted {
        return Ok(LostOwner::default());
    }
    let (user, group) = (Uid::from_raw(wanted.0), Gid::from_raw(wanted.1));
    match rustix::fs::fchown(file, Some(user), Some(group)) {
        // Root may, members of the group may set that; an id that the user namespace does not have is invalid.
        Err(Errno::PERM | Errno::INVAL) => {}
        result => {
            result?;
            return Ok(LostOwner::default());
        }
    }
    let group = now.1 != wanted.1 && rustix::fs::fchown(file, None, Some(group)).is_err();
    Ok(LostOwner { user: now.0 != wanted.0, group })
}

/// The mode and the access ACL of something whose owner could not be restored. The bits of the group are those of another group now,
/// and the old owner and the members of the old group are others.
fn limited(mode: FileMode, acl: Option<&[u8]>, lost: LostOwner) -> (FileMode, Option<Box<[u8]>>) {
    let mut bits = mode.bits();
    let mut acl: Option<Box<[u8]>> = acl.map(Into::into);
    if lost.user {
        let owner = bits >> 6 & 7;
        bits &= 0o3700 | owner << 3 | owner;
    }
    if lost.group {
        let group = acl.as_ref().map_or(7, |acl| acl::group_perm(acl));
        let both = group & bits >> 3 & bits & 7;
        bits = match &mut acl {
            None => bits & 0o5700 | both << 3 | both,
            Some(acl) => {
                *acl = acl::with_group_perm(acl, both);
                bits & 0o5770 | both
            }
        };
    }
    (FileMode::from_bits(bits), acl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_owner_never_gives_more_access() {
        let bits = |mode: u32, user, group| {
            limited(FileMode::from_bits(mode), None, LostOwner { user, group }).0.bits()
        };
        assert_eq!(bits(0o4755, true, false), 0o755);
        assert_eq!(bits(0o2755, false, true), 0o755);
        assert_eq!(bits(0o664, false, true), 0o644);
        assert_eq!(bits(0o660, false, true), 0o600);
        assert_eq!(bits(0o606, false, true), 0o600);
        assert_eq!(bits(0o477, true, true), 0o444);
    }
}
