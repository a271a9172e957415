//! A report as JSON: the summary, unchanged except for redacted secrets.

use super::model::Report;

/// Renders the text of `summary.json`.
pub fn render(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&report.summary).expect("a summary is plain data");
    text.push('\n');
    text
}
