//! Removes secrets from a report. Logs are redacted when they are written, but diffs are not, and a run from another machine
//! was redacted with that machine's secrets.

use super::model::{Excerpt, Report, RunFiles};
use crate::pipeline::redact_text;
use crate::process::redact::Redactor;

/// Redacts every text that a report can show. Ids and verdicts are decree's own and stay.
pub fn redact(report: &mut Report, redactor: &Redactor) {
    report.summary.redact(redactor);
    for files in &mut report.runs {
        redact_files(files, redactor);
    }
}

fn redact_files(files: &mut RunFiles, redactor: &Redactor) {
    let excerpts = files.logs.iter_mut().map(|log| &mut log.end).chain(files.failure_context.as_mut());
    excerpts.for_each(|Excerpt { text, .. }| redact_text(text, redactor));
    for file in files.diff.iter_mut().flat_map(|diff| &mut diff.files) {
        let texts = [&mut file.path, &mut file.note, &mut file.head];
        texts.into_iter().chain(&mut file.hunks).for_each(|text| redact_text(text, redactor));
    }
}
