//! Whose work a file is. Two runs can leave the same bytes: reverting or applying the earlier one would then undo the later one's work,
//! and the tree alone does not show that.

use super::result::RunResult;
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::RestoreAction;
use crate::error::{Error, FailureReason, Result};
use crate::history;
use crate::humanize::count;
use crate::message::MessageId;
use crate::project::Layout;

/// Refuses to take a run's paths to the other side of its change where a later run, whose change is in the tree, left what is there.
pub(super) fn refuse_later_work(
    layout: &Layout,
    run: &CheckpointDir,
    changes: &ChangeRecord,
    action: RestoreAction,
) -> Result<()> {
    let Some(id) = MessageId::parse(run.id()) else { return Ok(()) };
    let own_start = RunResult::read(run).ok().flatten().and_then(|result| result.start());
    let (mut wrong, mut last) = (Vec::new(), None);
    for later in history::run_ids(layout)? {
        let Some(later_id) = MessageId::parse(&later).filter(|later| *later != id) else { continue };
        let dir = CheckpointDir::new(&later, layout.runs().join(&later));
        // A damaged record proves nothing; the content of each path is compared in any case.
        let Ok(Some(mut result)) = RunResult::read(&dir) else { continue };
        // A message that is retried keeps its id, so the id does not say which run was later.
        let is_later = (result.start(), later_id) > (own_start, id.clone());
        let Some(theirs) = result.changes.take().filter(|_| is_later && result.run.reverted.is_none()) else {
            continue;
        };
        for (path, change) in &changes.changes {
            let Some(left) = theirs.changes.get(path).map(|change| &change.after) else { continue };
            let to_apply = action == RestoreAction::Apply && *left == change.before;
            if to_apply || *left == change.after {
                wrong.push(format!("{path}: run {later} left it as it is"));
                last = Some(later.clone());
            }
        }
        // What no diff holds moves away, whatever it is by now.
        for path in changes.out_of_scope.iter().filter(|path| theirs.changes.contains_key(*path)) {
            wrong.push(format!("{path}: run {later} left it as it is"));
            last = Some(later.clone());
        }
    }
    let Some(later) = last else { return Ok(()) };
    let (n, all) = (wrong.len(), count(changes.changes.len(), "path"));
    let id = run.id();
    Err(Error::failed(format!("cannot {action} {id}: {n} of {all} {} the work of a later run", are(n)))
        .because(FailureReason::Conflict)
        .details(wrong, 20)
        .detail("nothing was touched")
        .hint(format!("`decree revert {later}` reverts the later run; revert that one first")))
}

fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}
