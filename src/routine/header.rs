//! Parses the comment at the top of a routine: its description, the commands it needs, and whether it is an agent's.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RoutineHeader {
    /// Without comment markers; may have several lines.
    pub(super) description: String,
    /// Commands that must be installed, from `needs:` lines.
    pub(super) needs: Vec<String>,
    /// Whether it says that an AI agent does the work: `agent: yes` or `agent: no`.
    pub(super) agent: Option<bool>,
}

impl RoutineHeader {
    /// Parses the first comment block of a shell script, after the shebang.
    pub(super) fn from_shell(script: &str) -> RoutineHeader {
        let script = script.strip_prefix('\u{feff}').unwrap_or(script);
        let mut lines = script.lines().peekable();
        lines.next_if(|line| line.starts_with("#!"));
        while lines.next_if(|line| line.trim().is_empty()).is_some() {}
        let comments = lines.map_while(|line| line.trim_start().strip_prefix('#'));
        Self::from_lines(
            comments.map(|line| line.strip_prefix(' ').unwrap_or(line)).filter(|line| !is_directive(line)),
        )
    }

    /// Parses the first markdown cell of a notebook.
    pub(super) fn from_markdown(cell: &str) -> RoutineHeader {
        Self::from_lines(cell.lines().map(|line| match line.trim_start_matches('#') {
            heading if heading.len() < line.len() && heading.starts_with(' ') => heading.trim_start(),
            _ => line,
        }))
    }

    fn from_lines<'a>(lines: impl Iterator<Item = &'a str>) -> RoutineHeader {
        let mut description: Vec<&str> = Vec::new();
        let mut needs = Vec::new();
        let mut agent = None;
        for line in lines {
            match line.trim().split_once(':') {
                Some((word, list)) if word.eq_ignore_ascii_case("needs") => {
                    let commands = list.split([',', ' ', '\t']).filter(|command| !command.is_empty());
                    needs.extend(commands.map(str::to_owned));
                }
                Some((word, answer)) if word.eq_ignore_ascii_case("agent") && yes_or_no(answer).is_some() => {
                    agent = yes_or_no(answer);
                }
                _ => description.push(line.trim_end()),
            }
        }
        RoutineHeader { description: description.join("\n").trim().to_owned(), needs, agent }
    }
}

fn yes_or_no(answer: &str) -> Option<bool> {
    match answer.trim().to_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

/// Whether a comment is addressed to a tool.
fn is_directive(line: &str) -> bool {
    let line = line.trim_start();
    ["shellcheck ", "-*-", "vim:", "vi:"].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (String, Vec<String>) {
        let RoutineHeader { description, needs, .. } = RoutineHeader::from_shell(script);
        (description, needs)
    }

    #[test]
    fn the_first_comment_block_describes_a_script() {
        let script = "#!/usr/bin/env bash\n# Carries out a spec.\n#\n#  indented\n# needs: git, cargo ai\n# shellcheck disable=SC2086\n\n# not this\nset -e\n";
        assert_eq!(
            shell(script),
            ("Carries out a spec.\n\n indented".into(), vec!["git".into(), "cargo".into(), "ai".into()])
        );
    }

    #[test]
    fn a_description_needs_no_shebang_and_may_be_missing() {
        assert_eq!(shell("# x\r\n# y\r\necho\r\n").0, "x\ny");
        assert_eq!(shell("#!/bin/sh\n\n\n#x\n").0, "x");
        for script in ["", "#!/bin/sh", "echo hi\n# later\n", "#!/bin/sh\nset -e\n# later\n"] {
            assert_eq!(shell(script), (String::new(), vec![]), "{script:?}");
        }
        assert_eq!(shell("# NEEDS:\n"), (String::new(), vec![]));
    }

    #[test]
    fn a_header_can_say_whether_an_agent_does_the_work() {
        for (script, agent) in [
            ("# agent: yes\n", Some(true)),
            ("# Agent: no\n", Some(false)),
            ("# An agent: it works.\n", None),
            ("# agent: 007\n", None),
        ] {
            let header = RoutineHeader::from_shell(script);
            assert_eq!(header.agent, agent, "{script}");
            assert_eq!(header.description.is_empty(), agent.is_some(), "{script}");
        }
    }

    #[test]
    fn a_markdown_cell_describes_a_notebook() {
        let header = RoutineHeader::from_markdown("# Analyse\n\nReads the data.\n#hashtag\nneeds: python3\n");
        assert_eq!(header.description, "Analyse\n\nReads the data.\n#hashtag");
        assert_eq!(header.needs, ["python3"]);
    }
}
