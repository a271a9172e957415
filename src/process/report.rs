//! What a supervisor tells decree at its very end: one line on the socket between them.

use std::fmt;
use std::str::FromStr;

/// How a supervised program ended.
///
/// The supervisor's own exit status could not say: a program may exit 137, be killed by signal 9, or kill its
/// supervisor with signal 9. A report that never came is the third. It is written last, when nothing is left to
/// end, so it is true even if the supervisor is killed right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorReport {
    /// It exited with this code.
    Exited {
        /// The code.
        code: i32,
        /// How many of its descendants could not be ended.
        survivors: usize,
    },
    /// It was ended by this signal.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// How many of its descendants (or it itself) could not be ended.
        survivors: usize,
    },
    /// It could not be started.
    Unstartable {
        /// The system's error number.
        errno: i32,
    },
    /// It was not started, as the supervisor was asked to stop before.
    Unstarted,
}

impl SupervisorReport {
    /// What a shell would make of it.
    pub fn exit_code(self) -> u8 {
        match self {
            SupervisorReport::Exited { code, .. } => u8::try_from(code & 0xff).unwrap_or(1),
            SupervisorReport::Signalled { signal, .. } => u8::try_from(128 + signal).unwrap_or(128),
            SupervisorReport::Unstartable { errno } if errno == rustix::io::Errno::NOENT.raw_os_error() => {
                127
            }
            SupervisorReport::Unstartable { .. } => 126,
            SupervisorReport::Unstarted => 143,
        }
    }
}

impl fmt::Display for SupervisorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SupervisorReport::Exited { code, survivors } => write!(f, "exited {code} {survivors}"),
            SupervisorReport::Signalled { signal, survivors } => write!(f, "signalled {signal} {survivors}"),
            SupervisorReport::Unstartable { errno } => write!(f, "unstartable {errno}"),
            SupervisorReport::Unstarted => write!(f, "unstarted"),
        }
    }
}

impl FromStr for SupervisorReport {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse().map_err(|_| ());
        let count = |word: &str| word.parse().map_err(|_| ());
        match words[..] {
            ["exited", code, survivors] => {
                Ok(SupervisorReport::Exited { code: number(code)?, survivors: count(survivors)? })
            }
            ["signalled", signal, survivors] => {
                Ok(SupervisorReport::Signalled { signal: number(signal)?, survivors: count(survivors)? })
            }
            ["unstartable", errno] => Ok(SupervisorReport::Unstartable { errno: number(errno)? }),
            ["unstarted"] => Ok(SupervisorReport::Unstarted),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for report in [
            SupervisorReport::Exited { code: 137, survivors: 0 },
            SupervisorReport::Signalled { signal: 9, survivors: 3 },
            SupervisorReport::Unstartable { errno: 2 },
            SupervisorReport::Unstarted,
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        for line in ["", "exited", "exited 1", "exited x 0", "exited 1 0 0", "exited 1 -1"] {
            assert_eq!(line.parse::<SupervisorReport>(), Err(()));
        }
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(SupervisorReport::Exited { code: 3, survivors: 0 }.exit_code(), 3);
        assert_eq!(SupervisorReport::Signalled { signal: 15, survivors: 0 }.exit_code(), 143);
        assert_eq!(SupervisorReport::Unstartable { errno: 2 }.exit_code(), 127);
        assert_eq!(SupervisorReport::Unstartable { errno: 13 }.exit_code(), 126);
    }
}
