//! Where the content of a checkpoint or run is, if that is not the project's own store. A command that runs without the `DECREE_STORE`
//! of that time finds no content; the record knows where it is.

use std::path::PathBuf;

use serde::Deserialize;

use super::record::CheckpointRecord;
use crate::checkpoint::change_record::ResultFile;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, ErrorKind, Result};
use crate::project::Layout;

/// The part of a run's `result.json` that says it.
#[derive(Deserialize)]
struct StoreKey {
    #[serde(default)]
    store: Option<String>,
}

/// The directory of the store, for a record; `None` for the project's own.
pub fn external_store(layout: &Layout) -> Option<String> {
    let store = layout.store();
    let store = store.canonicalize().unwrap_or(store);
    (!layout.owns_store()).then(|| store.to_string_lossy().into_owned())
}

/// Adds to an error about missing content which `DECREE_STORE` the checkpoint or run was made with, if it was another one.
pub(super) fn name_store(layout: &Layout, dir: &CheckpointDir, error: Error) -> Error {
    let now = external_store(layout);
    match recorded_store(dir).filter(|then| error.kind() == ErrorKind::Integrity && *then != now) {
        Some(then) => error.hint(store_hint(dir.id(), then.as_deref())),
        None => error,
    }
}

/// Refuses to take content for lost that is in another store: `then` is the one that `id` was made with. One that is not there any more
/// may have been moved, and is not waited for.
pub fn refuse_other_store(layout: &Layout, id: &str, then: Option<&str>) -> Result<()> {
    let place = then.map_or_else(|| layout.own_store(), PathBuf::from);
    if then == external_store(layout).as_deref() || !place.is_dir() {
        return Ok(());
    }
    Err(Error::integrity(format!("the content of {id} is in another store"))
        .detail("nothing was touched")
        .hint(store_hint(id, then)))
}

/// The same for a checkpoint.
pub fn refuse_other_store_of(layout: &Layout, dir: &CheckpointDir) -> Result<()> {
    recorded_store(dir).map_or(Ok(()), |then| refuse_other_store(layout, dir.id(), then.as_deref()))
}

fn store_hint(id: &str, then: Option<&str>) -> String {
    match then.map(shell_words::quote) {
        Some(store) => {
            format!(
                "the content of {id} is in another store: run the command again with DECREE_STORE={store}"
            )
        }
        None => format!("{id} was made without DECREE_STORE: run the command again without it"),
    }
}

/// What the record says; `None` if there is no record that can be read.
fn recorded_store(dir: &CheckpointDir) -> Option<Option<String>> {
    if let Ok(record) = CheckpointRecord::read(dir.dir()) {
        return Some(record.store);
    }
    let path = dir.result_path();
    let mut result = ResultFile::read(&path).ok()??;
    Some(result.extra::<StoreKey>(&path).ok()??.store)
}
