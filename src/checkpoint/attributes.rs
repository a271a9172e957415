//! What a file or directory has beside its content and mode: its owner, its ACLs, its extended attributes.
//!
//! Almost no file has any, and those that do often have the same, so the value is shared and takes a word.

use std::fmt::{self, Write as _};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::fs::acl;
use crate::fs::xattr::{self, ACCESS_ACL, XattrValues};

/// A user and a group.
pub type Owner = (u32, u32);

/// The owner of a path, unless it is that of the project's directory, and its extended attributes.
///
/// The text form is `-` for nothing, else `name:value` separated by commas: `owner:1000:1000,user.note:<base64>`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Attributes(Option<Arc<AttributeSet>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct AttributeSet {
    owner: Option<Owner>,
    /// An access ACL is without the permissions that the mode repeats.
    values: XattrValues,
}

/// The attributes of a path on the two sides of a change, if they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    pub before: Attributes,
    pub after: Attributes,
}

impl AttributeChange {
    /// `None` if the two are the same.
    pub fn between(before: Attributes, after: Attributes) -> Option<Box<Self>> {
        (before != after).then(|| Box::new(AttributeChange { before, after }))
    }

    pub fn swapped(&self) -> Self {
        AttributeChange { before: self.after.clone(), after: self.before.clone() }
    }
}

impl Attributes {
    /// Those of an open file or directory, given its owner and that of the project's directory.
    pub fn read(file: impl AsFd, owner: Owner, of_project: Owner) -> io::Result<Self> {
        let mut values = xattr::read_all(file)?;
        if let Some(full) = values.remove(ACCESS_ACL)
            && let Some(bare) = acl::without_mode(&full)
        {
            values.insert(ACCESS_ACL.into(), bare);
        }
        Ok(Attributes::new((owner != of_project).then_some(owner), values))
    }

    fn new(owner: Option<Owner>, values: XattrValues) -> Self {
        let is_empty = owner.is_none() && values.is_empty();
        Attributes((!is_empty).then(|| Arc::new(AttributeSet { owner, values })))
    }

    /// The same extended attributes, with another owner.
    pub fn with_owner(&self, owner: Owner, of_project: Owner) -> Self {
        let owner = (owner != of_project).then_some(owner);
        if self.owner() == owner { self.clone() } else { Attributes::new(owner, self.values().clone()) }
    }

    /// The same extended attributes, with the owner of the project's directory.
    pub fn without_owner(&self) -> Self {
        if self.owner().is_none() { self.clone() } else { Attributes::new(None, self.values().clone()) }
    }

    /// No attributes, and the owner of the project's directory.
    pub fn none() -> &'static Self {
        static NONE: Attributes = Attributes(None);
        &NONE
    }

    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// `None`: that of the project's directory.
    pub fn owner(&self) -> Option<Owner> {
        self.0.as_ref().and_then(|set| set.owner)
    }

    pub fn values(&self) -> &XattrValues {
        static EMPTY: XattrValues = XattrValues::new();
        self.0.as_ref().map_or(&EMPTY, |set| &set.values)
    }

    /// Whether only root can restore all of them: an owner, capabilities, `trusted.*`.
    pub fn need_root(&self) -> bool {
        let is_privileged = |name: &[u8]| name.starts_with(b"security.") || name.starts_with(b"trusted.");
        self.owner().is_some() || self.values().keys().any(|name| is_privileged(name))
    }

    pub fn access_acl(&self) -> Option<&[u8]> {
        self.values().get(ACCESS_ACL).map(|acl| &**acl)
    }

    /// Reuses `other` if it is the same, so that the files of a directory share one value.
    pub fn shared_with(self, other: &Attributes) -> Self {
        if self == *other { other.clone() } else { self }
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Attributes::default());
        }
        let (mut owner, mut values) = (None, XattrValues::new());
        for part in text.split(',') {
            let (name, value) = part.split_once(':')?;
            if name == "owner" {
                let (user, group) = value.split_once(':')?;
                owner = Some((user.parse().ok()?, group.parse().ok()?));
            } else {
                values.insert(unescaped(name)?, STANDARD.decode(value).ok()?.into());
            }
        }
        let attributes = Attributes::new(owner, values);
        // One spelling for each value, so that a hash of the text is a hash of the value.
        (attributes.to_string() == text).then_some(attributes)
    }

    /// For messages: the names without the values.
    pub fn names(&self) -> Vec<String> {
        let owner = self.owner().map(|(user, group)| format!("owner {user}:{group}"));
        owner.into_iter().chain(self.values().keys().map(|name| name_for_people(name))).collect()
    }
}

/// An attribute's name for messages.
pub fn name_for_people(name: &[u8]) -> String {
    match name {
        ACCESS_ACL => "ACL".to_owned(),
        xattr::DEFAULT_ACL => "default ACL".to_owned(),
        name => escaped(name),
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("-");
        }
        let mut separator = "";
        if let Some((user, group)) = self.owner() {
            write!(f, "owner:{user}:{group}")?;
            separator = ",";
        }
        for (name, value) in self.values() {
            write!(f, "{separator}{}:{}", escaped(name), STANDARD.encode(value))?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Attributes> for String {
    fn from(attributes: Attributes) -> String {
        attributes.to_string()
    }
}

impl TryFrom<String> for Attributes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Attributes::parse(&text).ok_or("invalid attributes")
    }
}

/// A name with `%` and two hexadecimal digits for every byte that is not a letter, digit, dot, hyphen or underscore.
fn escaped(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

fn unescaped(name: &str) -> Option<Box<[u8]>> {
    let mut out = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            rest = after;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    (!out.is_empty() && !out.contains(&0)).then(|| out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_capabilities_need_root() {
        let with =
            |name: &[u8]| Attributes::new(None, [(name.into(), b"x"[..].into())].into_iter().collect());
        assert!(Attributes::new(Some((1, 2)), XattrValues::new()).need_root());
        assert!(with(b"security.capability").need_root() && with(b"trusted.x").need_root());
        assert!(
            !with(b"user.x").need_root() && !with(ACCESS_ACL).need_root() && !Attributes::none().need_root()
        );
    }

    #[test]
    fn the_text_form_is_read_back_and_nothing_else_is_accepted() {
        let values = [(&b"user.odd ,:%=\n\xff"[..], &b"\0\xff value"[..]), (b"user.x", b"")];
        let values: XattrValues =
            values.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        for attributes in [
            Attributes::default(),
            Attributes::new(Some((0, 4_294_967_294)), XattrValues::new()),
            Attributes::new(Some((1, 2)), values.clone()),
            Attributes::new(None, values),
        ] {
            let text = attributes.to_string();
            assert!(!text.contains([' ', '\n', '"']), "{text}");
            assert_eq!(Attributes::parse(&text), Some(attributes), "{text}");
        }
        for bad in [
            "",
            "owner:1",
            "owner:1:2:3",
            "x",
            "user.x:!",
            "user.%zz:",
            "user.b:,user.a:",
            "user.x:,owner:1:2",
        ] {
            assert_eq!(Attributes::parse(bad), None, "{bad}");
        }
    }
}
