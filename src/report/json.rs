//! The summary as it is.

use super::model::Report;

/// The text of `summary.json`.
pub fn render(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&report.summary).expect("a summary is plain data");
    text.push('\n');
    text
}
