//! Files that are left out of checkpoints because they are likely to hold secrets.
//!
//! Run directories become artifacts and diffs become comments; a secret that is never captured
//! cannot leak that way. The coverage lists what is left out, so that it is not believed to be protected.

use std::io::{self, Read};

use super::hash::ContentHash;
use super::ignore::PatternList;

/// Names of files that hold secrets, as ignore patterns; a later `!` makes an exception.
const NAMES: &str = "\
.env
.env.*
!.env.example
!.env.sample
!.env.template
!.env.dist
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
*.p12
*.pfx
*.jks
*.keystore
*.kdbx
*.ppk
.netrc
_netrc
.npmrc
.pypirc
.pgpass
.htpasswd
.git-credentials
.vault-token
credentials
credentials.json
.decree-tmp-*
";

/// Names of files that are sensitive only if they hold a private key.
const MAYBE_KEYS: &str = "*.pem\n*.key\n";

/// How many bytes of a possible key file are searched.
const KEY_PROBE: u64 = 64 * 1024;

/// Recognizes sensitive files by name, with the additions and exceptions of the config.
#[derive(Debug)]
pub struct Sensitive {
    names: PatternList,
    maybe_keys: PatternList,
    exclude: PatternList,
    allow: PatternList,
    /// Identifies this list of names: equal lists have equal fingerprints.
    pub fingerprint: [u8; 16],
}

/// How suspicious a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    None,
    /// Sensitive if the file holds a private key.
    MaybeKey,
    Secret,
}

impl Default for Sensitive {
    fn default() -> Self {
        Sensitive::new(&[], &[])
    }
}

impl Sensitive {
    /// The built-in names, plus `exclude`, minus `allow` (ignore patterns both).
    pub fn new(exclude: &[String], allow: &[String]) -> Self {
        let everything = format!("{NAMES}\0{MAYBE_KEYS}\0{exclude:?}\0{allow:?}");
        let hash = ContentHash::of(everything.as_bytes());
        Sensitive {
            fingerprint: *hash.0.first_chunk().expect("a hash has 32 bytes"),
            names: PatternList::parse(NAMES.as_bytes()),
            maybe_keys: PatternList::parse(MAYBE_KEYS.as_bytes()),
            exclude: PatternList::parse(exclude.join("\n").as_bytes()),
            allow: PatternList::parse(allow.join("\n").as_bytes()),
        }
    }

    /// Whether the config says that a file is no secret.
    pub fn allows(&self, path: &[u8]) -> bool {
        self.allow.ignores(path, false) == Some(true)
    }

    /// Judges a regular file by its path.
    pub fn suspect(&self, path: &[u8]) -> Suspicion {
        let matches = |list: &PatternList| list.ignores(path, false) == Some(true);
        if self.allows(path) {
            Suspicion::None
        } else if matches(&self.exclude) || matches(&self.names) {
            Suspicion::Secret
        } else if matches(&self.maybe_keys) {
            Suspicion::MaybeKey
        } else {
            Suspicion::None
        }
    }
}

/// Whether a file holds a private key in one of the textual forms.
pub fn holds_private_key(file: &mut impl Read) -> io::Result<bool> {
    let mut head = Vec::new();
    file.take(KEY_PROBE).read_to_end(&mut head)?;
    Ok(memchr::memmem::find(&head, b"PRIVATE KEY-----").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_name() {
        let sensitive = Sensitive::default();
        for name in [".env", "a/.env.production", "deploy/id_rsa", ".aws/credentials", "x.p12", ".npmrc"] {
            assert_eq!(sensitive.suspect(name.as_bytes()), Suspicion::Secret, "{name}");
        }
        for name in [".env.example", "a/.env.sample", "id_rsa.pub", "env", "src/credentials.rs"] {
            assert_eq!(sensitive.suspect(name.as_bytes()), Suspicion::None, "{name}");
        }
        assert_eq!(sensitive.suspect(b"tls/server.key"), Suspicion::MaybeKey);
    }

    #[test]
    fn the_config_adds_names_and_exceptions() {
        let sensitive = Sensitive::new(&["*.secret".into()], &["/test/.env".into()]);
        assert_eq!(sensitive.suspect(b"a.secret"), Suspicion::Secret);
        assert_eq!(sensitive.suspect(b"test/.env"), Suspicion::None);
        assert_eq!(sensitive.suspect(b".env"), Suspicion::Secret);
    }

    #[test]
    fn a_certificate_is_not_a_key() {
        let cert = b"-----BEGIN CERTIFICATE-----\nMIIB\n";
        let key = b"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n";
        assert!(!holds_private_key(&mut &cert[..]).unwrap());
        assert!(holds_private_key(&mut &key[..]).unwrap());
    }
}
