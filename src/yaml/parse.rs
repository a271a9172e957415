//! From the events of the parser to a tree, within bounds.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag};

use super::mistake::Mistake;
use super::node::{ScalarKind, YamlNode, YamlValue, resolve};

/// A longer text is neither settings nor front matter.
pub const MAX_TEXT: usize = 1 << 20;

/// Levels of nesting. It bounds the recursion over a tree; the parser itself does not recurse.
const MAX_DEPTH: usize = 128;

/// Bytes of nodes that anchors and aliases may copy, so that a short text cannot fill the memory.
const MAX_COPIED: usize = 16 << 20;

/// Reads one YAML document; an empty text is [`YamlValue::Null`].
pub fn parse(text: &str) -> Result<YamlNode, Mistake> {
    if text.len() > MAX_TEXT {
        return Err(Mistake::new(1, format!("more than {} KiB of YAML", MAX_TEXT >> 10)));
    }
    let mut builder = Builder { text, ..Builder::default() };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => return Err(builder.syntax_error(&error)),
        }
    }
    Ok(builder.root.unwrap_or(YamlNode { line: 1, value: YamlValue::Null }))
}

#[derive(Default)]
struct Builder<'a> {
    text: &'a str,
    /// Where the last event ends.
    offset: usize,
    root: Option<YamlNode>,
    open: Vec<Collection>,
    anchors: HashMap<usize, YamlNode>,
    copied: usize,
}

/// A list or mapping whose end has not been read.
struct Collection {
    line: usize,
    style: StructureStyle,
    is_map: bool,
    anchor: usize,
    /// Items, or keys and values in turn.
    nodes: Vec<YamlNode>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Mistake> {
        let line = span.start.line();
        self.offset = span.end.byte_offset().unwrap_or(self.offset);
        match event {
            Event::DocumentStart(..) if self.root.is_some() => Err(invalid(line, "more than one document")),
            Event::Scalar(text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let line = if is_block { self.header_line(span) } else { line };
                let value = scalar(&text, style, tag.as_deref()).map_err(|reason| invalid(line, reason))?;
                self.add(YamlNode { line, value }, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.begin(span, style, false, anchor, tag.as_deref())
            }
            Event::MappingStart(style, anchor, tag) => self.begin(span, style, true, anchor, tag.as_deref()),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(invalid(line, "an alias within its own anchor"));
                };
                let (height, bytes) = node.measure();
                if self.open.len() + height > MAX_DEPTH {
                    return Err(invalid(line, NESTED_TOO_DEEPLY));
                }
                let node = node.clone();
                self.charge(bytes, line)?;
                self.add(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        span: Span,
        style: StructureStyle,
        is_map: bool,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Mistake> {
        let line = span.start.line();
        if tag.is_some_and(is_application_tag) {
            return Err(invalid(line, APPLICATION_TAG));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(invalid(line, NESTED_TOO_DEEPLY));
        }
        // The parser accepts tabs before the first key of a mapping, but not before the others.
        let before = &self.text[..span.start.byte_offset().unwrap_or(0)];
        if style == StructureStyle::Block && is_indented_with_tab(before.rsplit('\n').next()) {
            return Err(invalid(line, "a tab as indentation").hint(NO_TABS));
        }
        self.open.push(Collection { line, style, is_map, anchor, nodes: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Mistake> {
        let Some(Collection { line, is_map, anchor, nodes, .. }) = self.open.pop() else { return Ok(()) };
        let value = if is_map {
            let mut nodes = nodes.into_iter();
            YamlValue::Map(std::iter::from_fn(|| Some((nodes.next()?, nodes.next()?))).collect())
        } else {
            YamlValue::List(nodes)
        };
        self.add(YamlNode { line, value }, anchor)
    }

    fn add(&mut self, node: YamlNode, anchor: usize) -> Result<(), Mistake> {
        if anchor != 0 {
            self.charge(node.measure().1, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(collection) => collection.nodes.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize, line: usize) -> Result<(), Mistake> {
        self.copied += bytes;
        if self.copied > MAX_COPIED {
            return Err(invalid(line, "its aliases expand to too much text"));
        }
        Ok(())
    }

    /// The line of the `|` or `>` of a block scalar. Its span begins with the content, after any empty lines.
    fn header_line(&self, span: Span) -> usize {
        let before = &self.text[..span.start.byte_offset().unwrap_or(0)];
        let blank = &before[before.trim_end().len()..];
        span.start.line() - blank.matches('\n').count()
    }

    /// The parser's error, at the line that has to be edited.
    fn syntax_error(&self, error: &ScanError) -> Mistake {
        let line = error.marker().line();
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => invalid(line, NESTED_TOO_DEEPLY),
            // A missing bracket or quote is noticed lines later.
            ErrorKind::InvalidColonPlacement
            | ErrorKind::ExpectedFlowSequenceSeparator
            | ErrorKind::ExpectedFlowMappingSeparator => {
                let (line, what) = match self.open.last() {
                    Some(Collection { line, style: StructureStyle::Flow, is_map, .. }) => {
                        (*line, if *is_map { "flow mapping" } else { "flow sequence" })
                    }
                    _ => (line, "flow collection"),
                };
                invalid(line, format!("{} for the {what} that begins here", error.info()))
            }
            ErrorKind::InvalidQuotedScalarIndent | ErrorKind::DocumentIndicatorInQuotedScalar => {
                let rest = &self.text[self.offset..];
                let quote = self.offset + rest.find(['"', '\'']).unwrap_or(0);
                let line = self.text[..quote].matches('\n').count() + 1;
                invalid(
                    line,
                    "the quoted scalar that begins here is not closed, or a line of it is not indented",
                )
            }
            ErrorKind::TabInPlainScalar => {
                // The parser names the line in which the scalar begins, which is often the one before.
                let mut lines = self.text.lines().skip(line - 1);
                let line = line + lines.position(|line| is_indented_with_tab(Some(line))).unwrap_or(0);
                invalid(line, error.info()).hint(NO_TABS)
            }
            _ if is_indented_with_tab(self.text.lines().nth(line - 1)) => {
                invalid(line, error.info()).hint(NO_TABS)
            }
            _ => invalid(line, error.info()),
        }
    }
}

const NESTED_TOO_DEEPLY: &str = "nested too deeply";
const APPLICATION_TAG: &str = "tags like `!this` have no meaning here";
const NO_TABS: &str = "YAML is indented with spaces, not with tabs";

fn invalid(line: usize, reason: impl std::fmt::Display) -> Mistake {
    Mistake::new(line, format!("not valid YAML: {reason}"))
}

fn is_indented_with_tab(line: Option<&str>) -> bool {
    line.is_some_and(|line| line.trim_start_matches(' ').starts_with('\t'))
}

fn is_application_tag(tag: &Tag) -> bool {
    tag.handle().starts_with('!')
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<YamlValue, String> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { resolve(text) } else { as_text(text) });
    };
    if is_application_tag(tag) {
        return Err(APPLICATION_TAG.into());
    }
    let value = resolve(text);
    let fits = match (tag.suffix(), &value) {
        ("null", value) => *value == YamlValue::Null,
        ("bool", value) => matches!(value, YamlValue::Scalar(ScalarKind::Bool, _)),
        ("int" | "float", value) => matches!(value, YamlValue::Scalar(ScalarKind::Number, _)),
        _ => return Ok(as_text(text)),
    };
    if fits { Ok(value) } else { Err(format!("'{text}' is not of the type `!!{}`", tag.suffix())) }
}

fn as_text(text: &str) -> YamlValue {
    YamlValue::Scalar(ScalarKind::Text, text.to_owned())
}
