//! Whether the program of a verification is installed: asked after it exited with 127, and by `doctor` and `process --dry-run`
//! before anything runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use crate::process::{Exec, ExecEnd};
use crate::project::Layout;

/// The time that bash gets to look for a program.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The program that a command line begins with, if bash does not know it; `bash` runs bash with these arguments. In doubt `None`: only
/// a plain word is looked up, and a path is one that the routine can write.
pub(super) fn missing_program(command: &str, bash: impl Fn(&[OsString]) -> Exec) -> Option<String> {
    let is_plain =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte));
    let is_assignment =
        |word: &&str| word.split_once('=').is_some_and(|(name, value)| is_plain(name) && is_plain(value));
    let program =
        command.split_whitespace().find(|word| !is_assignment(word)).filter(|word| is_plain(word))?;
    let arguments = ["-c", "type -- \"$1\"", "bash", program].map(OsString::from);
    let ended = bash(&arguments).run(&mut |_: &[u8]| Ok(())).ok()?;
    (ended.end == ExecEnd::Exited(1)).then(|| program.to_owned())
}

/// Why a verification cannot succeed here, in a sentence, if that is known without running it.
pub(super) fn cannot_succeed(
    command: &str,
    layout: &Layout,
    environment: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    let command = command.trim();
    if !is_decided_by_first(command) {
        return None;
    }
    let bash = |arguments: &[OsString]| {
        Exec::new("bash")
            .args(arguments)
            .directory(layout.root())
            .environment(environment.clone())
            .timeout(Some(LOOKUP_TIMEOUT))
    };
    let program = missing_program(command, bash)?;
    Some(format!("verify: `{command}`: {program} is not installed"))
}

/// Whether a command line fails if its first program does (see [`STRICT_BASH`](crate::process::STRICT_BASH)): after `||` or `&`,
/// another one decides.
fn is_decided_by_first(command: &str) -> bool {
    !command.contains("||") && !command.replace("&&", "").replace(">&", "").contains('&')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_decides_unless_another_one_can() {
        for command in ["x", "x --all 2>&1", "x && y", "A=1 x", "x; y", "x 2>&1 | tee log", "x\ny"] {
            assert!(is_decided_by_first(command), "{command}");
        }
        for command in ["x || true", "x & wait", "x |& tee log"] {
            assert!(!is_decided_by_first(command), "{command}");
        }
    }
}
