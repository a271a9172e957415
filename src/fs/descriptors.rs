//! How many files decree may have open: as many as the system allows, while the programs that it starts keep the limit that the user
//! set.
//!
//! An open file survives its deletion at no cost, so decree holds files open that a routine may delete. The usual soft limit of 1,024
//! is for programs that cannot handle more.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// More is not needed, and the kernel keeps a table of this size.
const ENOUGH: u64 = 1 << 16;

/// The limits that the user set, from before they were raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit as far as the hard limit and [`ENOUGH`] allow. Returns how many files decree may have open.
pub fn raise_limit() -> usize {
    let original = ORIGINAL.get_or_init(|| {
        let found = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, raised(&found));
        found
    });
    let now = getrlimit(Resource::Nofile).current.or(original.current).unwrap_or(ENOUGH);
    usize::try_from(now).unwrap_or(usize::MAX)
}

fn raised(found: &Rlimit) -> Rlimit {
    let most = found.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    Rlimit { current: found.current.map(|soft| soft.max(most)), maximum: found.maximum }
}

/// The soft limit that the user set, if decree has raised it.
pub fn original_limit() -> Option<u64> {
    ORIGINAL.get()?.current
}

/// Sets the soft limit of this process, for the supervisor of a program.
pub fn set_limit(soft: u64) {
    let found = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: found.maximum });
}

/// Starts a program with the limits that the user set.
///
/// A program inherits the limits of the process that starts it, so they are lowered for that moment. If decree cannot start a program
/// under them, because all low descriptors are taken, it lowers those of the program right after its start.
pub fn spawn_with_original_limit(command: &mut Command) -> io::Result<Child> {
    let Some(original) = ORIGINAL.get() else { return command.spawn() };
    let _ = setrlimit(Resource::Nofile, *original);
    let started = command.spawn();
    let _ = setrlimit(Resource::Nofile, raised(original));
    match started {
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            let child = command.spawn()?;
            let _ = prlimit(Some(Pid::from_child(&child)), Resource::Nofile, *original);
            Ok(child)
        }
        started => started,
    }
}
