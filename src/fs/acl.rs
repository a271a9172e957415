//! The binary form of a POSIX ACL in an extended attribute: a version, then entries of a tag, permissions and an id.
//!
//! Three entries of an access ACL repeat the mode: those of the owner, of others, and the mask, which is what the group bits of a
//! mode show if there is an ACL. [`without_mode`] clears them, so that a change of the mode is not a change of the ACL, and
//! [`with_mode`] fills them in.

const HEADER: usize = 4;
const ENTRY: usize = 8;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The tag and the permissions of an entry.
fn tag_and_perm(entry: &[u8]) -> (u16, u16) {
    (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]]))
}

fn entries(acl: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    acl.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).map(tag_and_perm)
}

fn mapped(acl: &[u8], perm_of: impl Fn(u16, u16) -> u16) -> Box<[u8]> {
    let mut mapped: Box<[u8]> = acl.into();
    for entry in mapped.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(ENTRY) {
        let (tag, perm) = tag_and_perm(entry);
        entry[2..4].copy_from_slice(&perm_of(tag, perm).to_le_bytes());
    }
    mapped
}

/// An access ACL without what the mode says as well. `None` if nothing is left: the mode says it all.
pub fn without_mode(acl: &[u8]) -> Option<Box<[u8]>> {
    let says_more = entries(acl).any(|(tag, _)| tag == MASK) || acl.len() % ENTRY != HEADER;
    says_more.then(|| mapped(acl, |tag, perm| if [USER_OBJ, MASK, OTHER].contains(&tag) { 0 } else { perm }))
}

/// An access ACL with the permissions of a mode.
pub fn with_mode(acl: &[u8], mode: u32) -> Box<[u8]> {
    mapped(acl, |tag, perm| match tag {
        USER_OBJ => (mode >> 6 & 7) as u16,
        MASK => (mode >> 3 & 7) as u16,
        OTHER => (mode & 7) as u16,
        _ => perm,
    })
}

/// The mode of a file that had this ACL and does not have it any more: no user has more access than before.
pub fn mode_in_place_of(acl: &[u8], mode: u32) -> u32 {
    let mask = mode >> 3 & 7;
    let named = entries(acl).filter(|(tag, _)| [USER, GROUP].contains(tag));
    let least = named.fold(7, |least, (_, perm)| least & mask & u32::from(perm));
    mode & !0o077 | (mask & group_perm(acl) & least) << 3 | mode & 7 & least
}

/// The permissions of the owning group, whatever the mask says.
pub fn group_perm(acl: &[u8]) -> u32 {
    entries(acl).find(|(tag, _)| *tag == GROUP_OBJ).map_or(0, |(_, perm)| u32::from(perm))
}

/// The ACL with other permissions for the owning group.
pub fn with_group_perm(acl: &[u8], group: u32) -> Box<[u8]> {
    mapped(acl, |tag, perm| if tag == GROUP_OBJ { group as u16 } else { perm })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut acl = vec![2, 0, 0, 0];
        for (tag, perm) in entries {
            acl.extend(tag.to_le_bytes());
            acl.extend(perm.to_le_bytes());
            acl.extend([0xff; 4]);
        }
        acl
    }

    #[test]
    fn the_mode_is_taken_out_and_put_in() {
        let full = acl(&[(USER_OBJ, 6), (USER, 4), (GROUP_OBJ, 0), (MASK, 4), (OTHER, 1)]);
        let bare = without_mode(&full).expect("it names a user");
        assert_eq!(*bare, *acl(&[(USER_OBJ, 0), (USER, 4), (GROUP_OBJ, 0), (MASK, 0), (OTHER, 0)]));
        assert_eq!(*with_mode(&bare, 0o641), *full);
        assert_eq!(without_mode(&acl(&[(USER_OBJ, 6), (GROUP_OBJ, 4), (OTHER, 4)])), None);
    }

    #[test]
    fn a_lost_acl_never_gives_more_access() {
        let denied = acl(&[(USER_OBJ, 0), (USER, 4), (GROUP_OBJ, 0), (MASK, 0), (OTHER, 0)]);
        assert_eq!(mode_in_place_of(&denied, 0o644), 0o604);
        let denies_one = acl(&[(USER_OBJ, 0), (USER, 0), (GROUP_OBJ, 4), (MASK, 0), (OTHER, 0)]);
        assert_eq!(mode_in_place_of(&denies_one, 0o4644), 0o4600);
    }
}
