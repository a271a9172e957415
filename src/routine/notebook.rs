//! Parses the cells of a notebook that describe it.

use serde::Deserialize;

/// Only the fields that decree reads; papermill handles the rest of the format.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Notebook {
    cells: Vec<Cell>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cell {
    cell_type: String,
    source: Source,
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    tags: Vec<String>,
}

/// The notebook format allows one string or a list of lines.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Source {
    Text(String),
    Lines(Vec<String>),
}

impl Default for Source {
    fn default() -> Self {
        Source::Text(String::new())
    }
}

impl Notebook {
    /// Parses the JSON; the error says why it is no notebook.
    pub(super) fn parse(text: &str) -> Result<Notebook, String> {
        serde_json::from_str(text).map_err(|error| format!("it is not a notebook: {error}"))
    }

    /// The first markdown cell.
    pub(super) fn introduction(&self) -> Option<String> {
        self.cells.iter().find(|cell| cell.cell_type == "markdown").map(Cell::text)
    }

    /// The first code cell tagged `parameters`, whose defaults papermill overrides.
    pub(super) fn parameters(&self) -> Option<String> {
        let tagged = |cell: &&Cell| {
            cell.cell_type == "code" && cell.metadata.tags.iter().any(|tag| tag == "parameters")
        };
        self.cells.iter().find(tagged).map(Cell::text)
    }
}

impl Cell {
    fn text(&self) -> String {
        match &self.source {
            Source::Text(text) => text.clone(),
            Source::Lines(lines) => lines.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_type_and_tag() {
        let notebook = Notebook::parse(
            r##"{"nbformat": 4, "cells": [
                {"cell_type": "code", "source": "x = 1", "metadata": {}},
                {"cell_type": "markdown", "source": ["# Title\n", "text"]},
                {"cell_type": "code", "source": ["a = 1\n", "b = 2"], "metadata": {"tags": ["x", "parameters"]}}
            ]}"##,
        )
        .unwrap();
        assert_eq!(notebook.introduction().as_deref(), Some("# Title\ntext"));
        assert_eq!(notebook.parameters().as_deref(), Some("a = 1\nb = 2"));
    }

    #[test]
    fn what_is_no_notebook_says_so() {
        for text in ["", "[]x", "{", "{\"cells\": 3}", &"[".repeat(100_000)] {
            assert!(Notebook::parse(text).unwrap_err().starts_with("it is not a notebook: "));
        }
        assert_eq!(Notebook::parse("{}").unwrap().introduction(), None);
    }
}
