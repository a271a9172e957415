//! New chains: an id that no message has or had.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::id::{ChainId, MessageId};
use super::inbox::Inbox;
use super::queue_view::QueueView;
use crate::error::{Error, IoContext, Result};
use crate::fs::untrusted;
use crate::interrupt;
use crate::project::Layout;

/// How often to look for a free id before giving up.
const TRIES: usize = 200;

/// Begins a chain: takes the first free id of this second and creates the directory of its first run, so that another decree
/// cannot take the same one. If all ids of a second are taken, waits for the next second.
///
/// No id is given out twice. A run has its directory. A message that waits, or that became a dead letter without a run, has
/// only its file; `view` knows it, or [`Inbox::chains_since`] finds it. Within a process, an id counts as used even if nothing is left of it.
pub fn begin_chain(layout: &Layout, view: &mut QueueView) -> Result<(ChainId, PathBuf)> {
    static LAST: Mutex<Option<ChainId>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = layout.runs();
    fs::create_dir_all(&runs).at("create", &runs)?;
    for _ in 0..TRIES {
        view.catch_up()?;
        let now = Timestamp::now();
        let second = now.strftime("%Y%m%d%H%M%S").to_string();
        let mut found = None;
        for count in 0..100 {
            let chain = ChainId::parse(&format!("{second}{count:02}")).expect("a time and two digits");
            let is_past = |last: &ChainId| last.to_string().starts_with(&second) && *last >= chain;
            if last.as_ref().is_some_and(is_past) {
                continue;
            }
            let is_used = match (view.is_used(&chain), &found) {
                (Some(is_used), _) => is_used,
                (None, Some(found)) => BTreeSet::contains(found, &chain),
                (None, None) => found.insert(used_chains(layout, now.as_second())?).contains(&chain),
            };
            if is_used {
                continue;
            }
            let dir = runs.join(MessageId::root(chain.clone()).to_string());
            match fs::create_dir(&dir) {
                Ok(()) => {
                    *last = Some(chain.clone());
                    return Ok((chain, dir));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).at("create", &dir),
            }
        }
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(Error::failed("no id is free for a new chain").hint("is the system clock running?"))
}

/// The chains of all runs, and of the messages of this second.
fn used_chains(layout: &Layout, second: i64) -> Result<BTreeSet<ChainId>> {
    let mut used = chains_of_runs(&layout.runs())?;
    used.extend(Inbox::of(layout).chains_since(second)?);
    Ok(used)
}

/// The chains of all runs. A chain can lack its first run: a message that is put into the inbox by hand may name any number.
fn chains_of_runs(runs: &Path) -> Result<BTreeSet<ChainId>> {
    let names = untrusted::names_in(runs).at("read", runs)?;
    Ok(names.iter().filter_map(|name| Some(MessageId::parse(name.to_str()?)?.chain)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        (dir, layout)
    }

    #[test]
    fn two_chains_of_the_same_second_have_different_ids() {
        let (_dir, layout) = layout();
        let ids: BTreeSet<_> =
            (0..20).map(|_| begin_chain(&layout, &mut QueueView::new(&layout)).unwrap().0).collect();
        assert_eq!(ids.len(), 20);
    }

    #[test]
    fn an_id_whose_directory_is_gone_is_not_given_out_again() {
        let (_dir, layout) = layout();
        let begin = || {
            let (chain, dir) = begin_chain(&layout, &mut QueueView::new(&layout)).unwrap();
            fs::remove_dir(dir).unwrap();
            chain
        };
        let ids: BTreeSet<_> = (0..20).map(|_| begin()).collect();
        assert_eq!(ids.len(), 20);
    }
}
