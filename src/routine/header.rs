//! Parses the comment at the top of a routine: its description, and the commands it needs.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RoutineHeader {
    /// Without comment markers; may have several lines.
    pub(super) description: String,
    /// Commands that must be installed, from `needs:` lines.
    pub(super) needs: Vec<String>,
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
        for line in lines {
            match line.trim().split_once(':') {
                Some((word, list)) if word.eq_ignore_ascii_case("needs") => {
                    let commands = list.split([',', ' ', '\t']).filter(|command| !command.is_empty());
                    needs.extend(commands.map(str::to_owned));
                }
                _ => description.push(line.trim_end()),
            }
        }
        RoutineHeader { description: description.join("\n").trim().to_owned(), needs }
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
        let RoutineHeader { description, needs } = RoutineHeader::from_shell(script);
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
    fn a_markdown_cell_describes_a_notebook() {
        let header = RoutineHeader::from_markdown("# Analyse\n\nReads the data.\n#hashtag\nneeds: python3\n");
        assert_eq!(header.description, "Analyse\n\nReads the data.\n#hashtag");
        assert_eq!(header.needs, ["python3"]);
    }
}
