//! No report tells a secret. What routines print is free of them as it is written, but a diff is what it is, a run may
//! come from another machine, and more may be secret here than there.

use super::model::{Excerpt, Report, RunFiles};
use crate::pipeline::redact_text;
use crate::process::redact::Redactor;

/// Takes all secrets out of all that a report can show. Ids and verdicts are words of ours and stay.
pub fn redact(report: &mut Report, redactor: &Redactor) {
    report.summary.redact(redactor);
    for files in &mut report.runs {
        redact_files(files, redactor);
    }
}

fn redact_files(files: &mut RunFiles, redactor: &Redactor) {
    let excerpts = files.logs.iter_mut().map(|log| &mut log.end).chain(files.failure_context.as_mut());
    excerpts.for_each(|Excerpt { text: words, .. }| redact_text(words, redactor));
    for file in files.diff.iter_mut().flat_map(|diff| &mut diff.files) {
        let words = [&mut file.path, &mut file.note, &mut file.head];
        words.into_iter().chain(&mut file.hunks).for_each(|words| redact_text(words, redactor));
    }
}
