//! The last thing a supervisor sends to decree: one line on the socket between them.

use std::fmt;
use std::str::FromStr;

/// How a supervised program ended.
///
/// The supervisor's own exit status cannot express this: a program may exit with 137, be killed by signal 9, or kill its
/// supervisor with signal 9. In the third case there is no report. It is written last, when no process is left, so it is
/// true even if the supervisor is killed right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorReport {
    /// `survivors` counts the descendants that could not be ended.
    Exited {
        code: i32,
        survivors: usize,
    },
    /// `survivors` counts the descendants that could not be ended, and may include the program itself.
    Signalled {
        signal: i32,
        survivors: usize,
    },
    Unstartable {
        errno: i32,
    },
    /// The supervisor was asked to stop before it started the program.
    Unstarted,
}

impl SupervisorReport {
    /// The exit code a shell would report.
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
    fn a_written_report_is_read_back() {
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
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(SupervisorReport::Exited { code: 3, survivors: 0 }.exit_code(), 3);
        assert_eq!(SupervisorReport::Signalled { signal: 15, survivors: 0 }.exit_code(), 143);
        assert_eq!(SupervisorReport::Unstartable { errno: 2 }.exit_code(), 127);
        assert_eq!(SupervisorReport::Unstartable { errno: 13 }.exit_code(), 126);
    }
}
