//! The process table, read from `/proc`.
//!
//! A scan is not atomic: a process that forks during the scan may be missed. A caller that must find every process scans
//! until there are none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

pub use rustix::process::Pid;

/// A process. Its start time distinguishes it from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: Pid,
    /// `None` if the parent is outside of our pid namespace.
    pub parent: Option<Pid>,
    /// `None` if the group cannot be signalled: the kernel reports −1 for a process that is just being reaped, and 0 for one
    /// whose group was created outside of our pid namespace, as with `docker exec` and in many CI jobs.
    pub group: Option<Pid>,
    /// `None` in the same cases as `group`.
    pub session: Option<Pid>,
    /// The state letter of `/proc/PID/stat`: `R`, `S`, `T`, `Z`…
    pub state: u8,
    /// Start time in clock ticks since boot.
    pub started: u64,
}

/// Number and start time: unique while the machine is up.
pub type ProcessIdentity = (Pid, u64);

impl Process {
    pub fn find(pid: Pid) -> Option<Process> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        parse(pid, &stat)
    }

    pub fn identity(&self) -> ProcessIdentity {
        (self.pid, self.started)
    }

    /// Sends a signal to this process, and never to a later one with the same number.
    /// It is no error if the process has ended, but it is if it belongs to another user.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let is_this = || Process::find(self.pid).is_some_and(|found| found.started == self.started);
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) if is_this() => pidfd_send_signal(handle, signal),
            Ok(_) => Ok(()),
            // A kernel before 5.3, or a sandbox without pidfd. The race between lookup and kill cannot be avoided there.
            Err(Errno::NOSYS | Errno::PERM) if is_this() => kill_process(self.pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Err(Errno::SRCH | Errno::INVAL) => Ok(()),
            sent => sent,
        }
    }
}

/// Whether this process may have children. The kernel lists those of each thread, if it was built with that, which takes a hundredth of the
/// time of [`all`].
pub fn may_have_children() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    threads
        .map(|thread| fs::read(thread?.path().join("children")))
        .any(|children: io::Result<Vec<u8>>| children.map_or(true, |listed| !listed.is_empty()))
}

/// Every process that `/proc` shows.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir(Path::new("/proc")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            Pid::from_raw(entry.file_name().to_str()?.parse().ok().filter(|number| *number > 0)?)
        })
        .filter_map(Process::find)
        .collect()
}

/// The descendants of `roots` in `table`, without the roots themselves. A process that `excluded` matches is left out together
/// with its descendants.
pub fn descendants(table: &[Process], roots: &[Pid], excluded: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut children: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in table {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut todo: Vec<Pid> = roots.to_vec();
    while let Some(parent) = todo.pop() {
        // Removed, not looked up: a scan is not atomic, so reused numbers could form a cycle.
        for child in children.remove(&parent).unwrap_or_default() {
            if !excluded(child) {
                found.push(*child);
                todo.push(child.pid);
            }
        }
    }
    found
}

/// Sends a signal to each of these once, and continues those that are stopped, so that they handle it.
///
/// A whole process group is signalled in one call, because a program that forks and exits in turn is always gone when its
/// own number is signalled. A group's number cannot be reused while it contains a child of this process, because only this
/// process can reap it. All other processes are signalled one by one.
pub fn signal(processes: &[Process], signal: Signal) {
    let me = getpid();
    let groups: HashSet<Pid> = match Process::find(me) {
        Some(own) => processes
            .iter()
            .filter(|process| process.parent == Some(me))
            .filter_map(|process| exclusive_group(process, &own))
            .collect(),
        None => HashSet::new(),
    };
    for group in &groups {
        let _ = kill_process_group(*group, signal);
    }
    for process in processes {
        if !process.group.is_some_and(|group| groups.contains(&group)) {
            let _ = process.signal(signal);
        }
        // Stopped by SIGSTOP, SIGTSTP, SIGTTIN…, and so without a reaction to SIGTERM.
        if process.state == b'T' && signal != Signal::KILL {
            let _ = process.signal(Signal::CONT);
        }
    }
}

/// The group of a descendant of `own`, if only descendants can be in it: a group does not span sessions, and a process can
/// leave its session only for a new one.
fn exclusive_group(process: &Process, own: &Process) -> Option<Pid> {
    let new_session = process.session != own.session || own.session == Some(own.pid);
    process.group.filter(|_| new_session && process.group != own.group)
}

/// Parses `/proc/PID/stat`. The name is in parentheses and may contain any byte but NUL, also parentheses.
fn parse(pid: Pid, stat: &[u8]) -> Option<Process> {
    let end = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number =
        |index: usize| fields.get(index)?.parse::<i32>().ok().map(|number| Pid::from_raw(number.max(0)));
    Some(Process {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    fn process(number: i32, parent: i32) -> Process {
        Process {
            pid: pid(number),
            parent: Some(pid(parent)),
            group: Some(pid(number)),
            session: Some(pid(1)),
            state: b'S',
            started: 0,
        }
    }

    #[test]
    fn a_name_with_parentheses_and_newlines_is_parsed() {
        let stat = b"7 (a) R 1\n) S 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9988 10 11";
        let found = parse(pid(7), stat).unwrap();
        let numbers = (found.parent, found.group, found.session);
        assert_eq!((found.state, numbers), (b'S', (Some(pid(3)), Some(pid(5)), Some(pid(6)))));
        assert_eq!(found.started, 9988);
        assert_eq!(parse(pid(7), b"7 (cut"), None);
        assert_eq!(parse(pid(7), b"7 (cut) S 3"), None);
    }

    #[test]
    fn a_process_that_is_being_reaped_has_no_group_to_signal() {
        let stat = b"7 (gone) Z 0 -1 -1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9988 10 11";
        let found = parse(pid(7), stat).unwrap();
        assert_eq!((found.parent, found.group, found.session), (None, None, None));
        assert_eq!(exclusive_group(&found, &process(1, 1)), None);
        assert!(descendants(&[found], &[pid(1)], |_| false).is_empty());
    }

    #[test]
    fn a_session_from_outside_the_namespace_has_no_group_to_signal() {
        let stat = b"7 (inner) S 3 0 0 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9988 10 11";
        let us = parse(pid(7), stat).unwrap();
        assert_eq!((us.group, us.session), (None, None));
        let child = |group, session| Process { parent: Some(us.pid), group, session, ..process(8, 7) };
        assert_eq!(exclusive_group(&child(None, None), &us), None);
        // Its own group, but in a session that may contain other processes.
        assert_eq!(exclusive_group(&child(Some(pid(8)), None), &us), None);
        assert_eq!(exclusive_group(&child(Some(pid(8)), Some(pid(8))), &us), Some(pid(8)));
    }

    #[test]
    fn this_process_is_in_the_table_and_its_parent_is_right() {
        let me = Process::find(rustix::process::getpid()).unwrap();
        assert_eq!(me.parent, rustix::process::getppid());
        assert!(all().iter().any(|process| process.identity() == me.identity()));
    }

    #[test]
    fn descendants_are_the_whole_tree_without_excluded_branches() {
        let table = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 5)];
        let found = |excluded: i32| {
            let mut found: Vec<i32> = descendants(&table, &[pid(1)], |process| process.pid == pid(excluded))
                .iter()
                .map(|process| process.pid.as_raw_nonzero().get())
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(found(99), [2, 3, 4, 5, 6]);
        assert_eq!(found(2), [5, 6]);
        assert_eq!(found(3), [2, 5, 6]);
    }

    #[test]
    fn a_cycle_of_parents_ends_the_search() {
        let table = [process(2, 3), process(3, 2)];
        assert_eq!(descendants(&table, &[pid(2)], |_| false).len(), 2);
    }

    #[test]
    fn a_signal_does_not_reach_a_later_process_of_the_same_number() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = Process::find(Pid::from_child(&child)).unwrap();
        let earlier = Process { started: found.started - 1, ..found };
        earlier.signal(Signal::KILL).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        found.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        found.signal(Signal::KILL).unwrap();
    }
}
