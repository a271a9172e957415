//! The parameters that a routine declares at its top.
//!
//! A shell routine declares one with `name="${name:-default}"`, a notebook with an assignment in the cell that is
//! tagged `parameters`. Nothing is evaluated: a default is the literal text of the declaration.

/// Parameters that decree sets for every routine; a routine cannot declare them as its own.
pub const STANDARD_PARAMETERS: &[&str] =
    &["spec_file", "input_file", "message_file", "message_id", "message_dir", "chain", "seq"];

/// A parameter that a message's front matter may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The value if no message sets it.
    pub default: String,
    /// Whether the default is a number or a boolean instead of text. Only in notebooks: in a shell everything is text.
    pub typed: bool,
}

/// Parses the declarations at the top of a script. Blank lines, comments and `set …` may come between them; any other line ends
/// them.
pub(super) fn from_shell(script: &str) -> Vec<Parameter> {
    let mut found = Vec::new();
    let script = script.strip_prefix('\u{feff}').unwrap_or(script);
    for line in script.lines().map(str::trim) {
        if let Some(parameter) = shell_declaration(line) {
            add(&mut found, parameter);
        } else if !(line.is_empty() || line.starts_with('#') || is_set_command(line)) {
            break;
        }
    }
    found
}

/// Parses the assignments in a notebook cell.
pub(super) fn from_notebook(cell: &str) -> Vec<Parameter> {
    let mut found = Vec::new();
    for parameter in cell.lines().filter_map(python_assignment) {
        add(&mut found, parameter);
    }
    found
}

fn add(found: &mut Vec<Parameter>, parameter: Parameter) {
    let standard = STANDARD_PARAMETERS.contains(&parameter.name.as_str());
    if !standard && found.iter().all(|known| known.name != parameter.name) {
        found.push(parameter);
    }
}

/// Whether a line is a plain `set -euo pipefail` without another command after it.
fn is_set_command(line: &str) -> bool {
    let arguments = line.strip_prefix("set").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
    arguments.is_some_and(|rest| !before_comment(rest).contains([';', '&', '|', '`', '$', '\\']))
}

/// Parses `name="${name:-default}"`, with or without quotes, `export` and a comment.
fn shell_declaration(line: &str) -> Option<Parameter> {
    let line = match line.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => line,
    };
    let (name, value) = line.split_once('=')?;
    if !is_identifier(name) || !name.is_ascii() {
        return None;
    }
    let (quoted, value) = match value.strip_prefix('"') {
        Some(value) => (true, value),
        None => (false, value),
    };
    let value = value.strip_prefix("${")?.strip_prefix(name)?;
    let value = value.strip_prefix(":-").or_else(|| value.strip_prefix('-'))?;
    let (default, rest) = until_brace(value, quoted)?;
    let rest = if quoted { rest.strip_prefix('"')? } else { rest };
    let rest = rest.strip_prefix(';').unwrap_or(rest);
    let is_end =
        rest.trim().is_empty() || (rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#'));
    is_end.then(|| Parameter { name: name.to_owned(), default, typed: false })
}

/// Splits at the brace that closes the parameter: the unescaped default, and the rest of the line.
fn until_brace(value: &str, quoted: bool) -> Option<(String, &str)> {
    let mut default = String::new();
    let mut depth = 0;
    let mut quote = None;
    let mut chars = value.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote != Some('\'') => {
                let (_, next) = chars.next()?;
                let escaped = matches!(next, '"' | '\\' | '$' | '`' | '}') || !(quoted || quote.is_some());
                if depth > 0 || !escaped {
                    default.push(c);
                }
                default.push(next);
                continue;
            }
            '"' | '\'' if quote.is_none() || quote == Some(c) => {
                quote = if quote.is_none() { Some(c) } else { None };
                // Inside double quotes, bash pairs apostrophes too, but keeps them.
                if depth == 0 && (c == '"' || !quoted) {
                    continue;
                }
            }
            '{' if default.ends_with('$') && quote != Some('\'') => depth += 1,
            '}' if depth > 0 && quote != Some('\'') => depth -= 1,
            '}' if quote.is_none() => return Some((default, &value[at + 1..])),
            _ => {}
        }
        default.push(c);
    }
    None
}

/// Parses `name = value`, with an optional type and comment.
fn python_assignment(line: &str) -> Option<Parameter> {
    let (target, value) = line.split_once('=')?;
    let name = target.split_once(':').map_or(target, |(name, _)| name).trim_end();
    if !is_identifier(name) || value.starts_with('=') {
        return None;
    }
    let value = value.trim();
    let typed = !value.starts_with(['"', '\'']) && !value.starts_with("None");
    Some(Parameter { name: name.to_owned(), default: python_literal(value), typed })
}

/// A string without its quotes, an empty one for `None`, any other expression unchanged.
fn python_literal(value: &str) -> String {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return match before_comment(value).trim_end() {
            "None" => String::new(),
            other => other.to_owned(),
        };
    };
    let long: String = [quote; 3].iter().collect();
    if let Some(text) = value.strip_prefix(&long) {
        return text.split(&long).next().unwrap_or_default().to_owned();
    }
    let mut text = String::new();
    let mut chars = value.chars().skip(1);
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                Some(other) => text.extend(['\\', other]),
                None => break,
            },
            _ if c == quote => break,
            _ => text.push(c),
        }
    }
    text
}

/// The text before a ` # …` comment.
fn before_comment(text: &str) -> &str {
    let comment = text.char_indices().find(|&(at, c)| c == '#' && text[..at].ends_with([' ', '\t']));
    comment.map_or(text, |(at, _)| &text[..at])
}

fn is_identifier(name: &str) -> bool {
    let first = name.chars().next();
    first.is_some_and(|c| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<(String, String)> {
        from_shell(script).into_iter().map(|p| (p.name, p.default)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn declarations_at_the_top_are_parameters() {
        let script = "#!/usr/bin/env bash\n# What it does.\nset -euo pipefail # strict\n\nspec_file=\"${spec_file:-}\"\nai=\"${ai:-claude -p}\"\n# more\n  export branch=${branch:-main}  # where to\n\tlevel=\"${level-3}\"\r\nai=\"${ai:-again}\"\necho go\nlate=\"${late:-x}\"\n";
        assert_eq!(shell(script), pairs(&[("ai", "claude -p"), ("branch", "main"), ("level", "3")]));
    }

    #[test]
    fn any_other_statement_ends_the_list() {
        for other in [
            "x=1",
            "a=\"${b:-c}\"",
            "a=\"${a:-c}\"; rm -rf x",
            "a=\"${a:-c}\"d",
            "a=\"${a:-c",
            "a=${a}",
            "a =\"${a:-c}\"",
            "set -e; echo",
            "set -- $(ls)",
            "settle",
            "export",
            "declare -x a=\"${a:-c}\"",
            "a-b=\"${a-b:-c}\"",
            "é=\"${é:-c}\"",
        ] {
            assert_eq!(shell(&format!("{other}\nlate=\"${{late:-x}}\"\n")), [], "{other}");
        }
    }

    /// The value that bash assigns to `x` for this line.
    fn bash(line: &str, x: Option<&str>) -> String {
        let mut command = std::process::Command::new("bash");
        command.arg("-c").arg(format!("{line}\nprintf %s \"$x\"")).env_remove("x");
        if let Some(x) = x {
            command.env("x", x);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn defaults_are_what_bash_assigns() {
        for line in [
            r#"x="${x:-}""#,
            r#"x="${x-a b}""#,
            r#"x="${x:-say \"hi\" \$5 \\ \n}""#,
            r#"x="${x:-'a b'}""#,
            r#"x="${x:-'a } b'}""#,
            r#"x=${x:-"a b"}"#,
            r#"x=${x:-"a 'b"}"#,
            r"x=${x:-'a } b'}",
            r"x=${x:-a\nb\ c}",
            r"x=${x:-a b}",
            r#"x="${x:-"a b"}""#,
            r#"x="${x:-"a } b"}""#,
            r#"x="${x:-a\}b}""#,
            r#"x="${x:-a#b}" # c"#,
            r#"x="${x:-{{name\}\}}";"#,
            r#"x="${x:-claude -p {prompt\}}""#,
            r#"x="${x:-größe}""#,
            r#"export x="${x:-y}""#,
        ] {
            let found = shell(line);
            assert_eq!(found, pairs(&[("x", &bash(line, None))]), "{line}");
            assert_eq!(bash(line, Some("other")), "other", "{line}");
        }
    }

    #[test]
    fn a_default_that_would_have_to_be_evaluated_is_kept_as_text() {
        for default in ["${HOME}/y", "${y:-z}", "$HOME/$(id -u)", "${y:-\\}}"] {
            assert_eq!(shell(&format!("x=\"${{x:-{default}}}\"")), pairs(&[("x", default)]));
        }
    }

    #[test]
    fn assignments_of_a_notebook_cell_are_parameters() {
        let cell = "# parameters\nspec_file = \"\"\nbranch = 'main'  # where\nlevel: int = 3 # how\nstrict=True\nnone = None\ntext = \"a # \\\"b\\\"\"\nlong = '''x'''\n  indented = 1\nif a == 1:\na.b = 2\nratio = -1.5\nd['k'] = 1\nx == y\n";
        let found: Vec<_> = from_notebook(cell).into_iter().map(|p| (p.name, p.default)).collect();
        assert_eq!(
            found,
            pairs(&[
                ("branch", "main"),
                ("level", "3"),
                ("strict", "True"),
                ("none", ""),
                ("text", "a # \"b\""),
                ("long", "x"),
                ("ratio", "-1.5"),
            ])
        );
    }
}
