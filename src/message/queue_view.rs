//! The queue as it is now, for a process that works on one message after the other. There may be tens of thousands, so only what the
//! kernel reports as changed is looked at again; where it cannot report, names and stamps are, but no message is read twice.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::path::Path;

use super::id::{ChainId, MessageId};
use super::inbox::{Inbox, Order, id_of, is_message_name, order_of};
use super::second_names::{MAX_DONE, SecondNames};
use super::waiting_list::{WaitingList, WaitingNames};
use crate::error::{IoContext, Result};
use crate::fs::change_watch::{ChangeWatch, Changed};
use crate::fs::{FileStamp, untrusted};
use crate::project::Layout;

/// A message in the inbox.
struct WaitingMessage {
    /// What the kernel says of the file, if that distinguishes every later write.
    stamp: Option<FileStamp>,
    order: Order,
    id: Option<MessageId>,
}

/// What waits, which letters there are, and what has a second name.
pub struct QueueView {
    layout: Layout,
    watch: ChangeWatch,
    is_known: bool,
    waiting: HashMap<OsString, WaitingMessage>,
    order: BTreeSet<(Order, OsString)>,
    dead: BTreeSet<OsString>,
    done: BTreeSet<OsString>,
    /// The names whose second names have to be looked at; `None` for all of them.
    unlinked: Option<Vec<OsString>>,
    list: WaitingList,
    /// The chains of runs, and of letters that came recently.
    used: HashSet<ChainId>,
}

impl QueueView {
    /// Nothing was looked at yet.
    pub fn new(layout: &Layout) -> QueueView {
        QueueView {
            layout: layout.clone(),
            watch: ChangeWatch::blind(),
            is_known: false,
            waiting: HashMap::new(),
            order: BTreeSet::new(),
            dead: BTreeSet::new(),
            done: BTreeSet::new(),
            unlinked: None,
            list: WaitingList::default(),
            used: HashSet::new(),
        }
    }

    /// Looks at what may have changed.
    pub fn refresh(&mut self) -> Result<()> {
        // To watch costs as much as to look once, so it begins with the second message.
        self.look(self.is_known)
    }

    /// The same when this may be the last time: no watch begins, as the kernel takes 15 ms to end one.
    pub fn refresh_unwatched(&mut self) -> Result<()> {
        self.look(false)
    }

    fn look(&mut self, begins_to_watch: bool) -> Result<()> {
        match self.watch.take() {
            Changed::All => self.look_at_all(begins_to_watch)?,
            Changed::Paths(paths) => paths.iter().for_each(|path| self.look_at(path)),
        }
        self.is_known = true;
        Ok(())
    }

    /// The same if that takes a look at a few paths only.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        if self.watch.is_blind() { Ok(()) } else { self.refresh() }
    }

    /// The next message of a chain.
    pub fn next_in_chain(&self, chain: &ChainId) -> Option<OsString> {
        let has_id = |file: &OsString| self.waiting[file].id.as_ref().is_some_and(|id| id.chain == *chain);
        self.of_chain(chain).find(|file| has_id(file)).cloned()
    }

    /// The messages of a chain, and those whose file is of its second.
    fn of_chain<'v>(&'v self, chain: &ChainId) -> impl Iterator<Item = &'v OsString> {
        let text = chain.to_string();
        let from = ((text.clone(), 0), OsString::new());
        self.order.range(from..).take_while(move |((of, _), _)| *of == text).map(|(_, file)| file)
    }

    /// Writes down which messages wait, for the decree after this one. Returns what `running.json` has to say of them.
    pub fn write_list(&mut self) -> WaitingNames {
        self.list.write(&self.layout);
        self.list.names()
    }

    /// Whether a run, a letter or a waiting message has this chain; `None` if that is not known, because new ones may not be reported.
    pub(super) fn is_used(&self, chain: &ChainId) -> Option<bool> {
        let is_known = !self.watch.is_blind();
        is_known.then(|| self.used.contains(chain) || self.of_chain(chain).next().is_some())
    }

    /// The letters that have second names, relative to the inbox.
    pub fn letters(&self) -> Vec<std::path::PathBuf> {
        let path = |dir: &str, file: &OsString| Path::new(dir).join(file);
        let dead = self.dead.iter().map(|file| path(Layout::DEAD, file));
        let from = self.done.len().saturating_sub(MAX_DONE);
        dead.chain(self.done.iter().skip(from).map(|file| path(Layout::DONE, file))).collect()
    }

    /// Gives what waits, and the letters, second names.
    pub fn update_second_names(&mut self) {
        let names = |files: &BTreeSet<OsString>, limit: usize| -> Vec<OsString> {
            files.iter().rev().take(limit).cloned().collect()
        };
        let Some(unlinked) = self.unlinked.replace(Vec::new()) else {
            let waiting: Vec<OsString> = self.waiting.keys().cloned().collect();
            SecondNames::of(&self.layout).update(&waiting);
            SecondNames::of_dead(&self.layout).update(&names(&self.dead, usize::MAX));
            return SecondNames::of_done(&self.layout).update(&names(&self.done, MAX_DONE));
        };
        if unlinked.is_empty() {
            return;
        }
        let first_done = self.done.iter().rev().nth(MAX_DONE - 1);
        // A new letter takes the place of the first one.
        let next = first_done.and_then(|first| self.done.range::<OsString, _>(..first).next_back());
        for file in unlinked.iter().chain(next) {
            SecondNames::of(&self.layout).follow(file, self.waiting.contains_key(file));
            SecondNames::of_dead(&self.layout).follow(file, self.dead.contains(file));
            let is_latest = first_done.is_none_or(|first| file >= first);
            SecondNames::of_done(&self.layout).follow(file, is_latest && self.done.contains(file));
        }
    }

    /// Looks at everything. A message whose stamp is the same is not read again.
    fn look_at_all(&mut self, begins_to_watch: bool) -> Result<()> {
        self.watch = if begins_to_watch { ChangeWatch::start() } else { ChangeWatch::blind() };
        let layout = self.layout.clone();
        let dirs = [layout.inbox(), layout.dead(), layout.done()];
        for dir in dirs.iter().chain(&[
            layout.waiting(),
            layout.waiting_dead(),
            layout.waiting_done(),
            layout.runs(),
        ]) {
            self.watch.add_top(dir);
        }
        let mut waiting: HashSet<OsString> = self.waiting.keys().cloned().collect();
        for (number, dir) in dirs.iter().enumerate() {
            let names = untrusted::names_in(dir).at("read", dir)?;
            if number == 0 {
                waiting.extend(names.into_iter().filter(|name| is_message_name(name)));
                continue;
            }
            let files = names
                .into_iter()
                .filter(|name| dir.join(name).symlink_metadata().is_ok_and(|it| it.is_file()));
            *[&mut self.dead, &mut self.done][number - 1] = files.collect();
        }
        waiting.iter().for_each(|name| self.look_at_message(name));
        self.unlinked = None;
        if !self.watch.is_blind() {
            let runs = layout.runs();
            let names = untrusted::names_in(&runs).at("read", &runs)?;
            self.used.extend(names.iter().filter_map(|name| Some(MessageId::parse(name.to_str()?)?.chain)));
            self.used.extend(Inbox::of(&layout).chains_since(jiff::Timestamp::now().as_second())?);
        }
        Ok(())
    }

    /// Looks at one path again.
    fn look_at(&mut self, path: &Path) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return };
        let is_file = || path.symlink_metadata().is_ok_and(|found| found.is_file());
        if dir == self.layout.runs() {
            self.used.extend(name.to_str().and_then(MessageId::parse).map(|id| id.chain));
            return;
        }
        if dir == self.layout.inbox() {
            self.look_at_message(name);
        } else if dir == self.layout.dead() || dir == self.layout.done() {
            let letters = if dir == self.layout.dead() { &mut self.dead } else { &mut self.done };
            if !is_file() {
                letters.remove(name);
            } else {
                letters.insert(name.to_owned());
                self.used.extend(id_of(path).map(|id| id.chain));
            }
        }
        if let Some(unlinked) = &mut self.unlinked {
            unlinked.push(name.to_owned());
        }
    }

    fn look_at_message(&mut self, name: &OsStr) {
        let path = self.layout.inbox().join(name);
        let found = path.symlink_metadata().ok().filter(Metadata::is_file).filter(|_| is_message_name(name));
        let known = self.waiting.get(name);
        let Some(found) = found else {
            self.forget(name);
            return self.list.note(name, false);
        };
        let mut stamp = FileStamp::if_settled(&found);
        if known.is_none_or(|known| stamp.is_none() || known.stamp != stamp) {
            self.forget(name);
            let id = id_of(&path);
            let order = order_of(id.as_ref(), &found);
            self.order.insert((order.clone(), name.to_owned()));
            self.waiting.insert(name.to_owned(), WaitingMessage { stamp, order, id });
        }
        self.list.note(name, true);
        if self.watch.is_blind() {
            return;
        }
        self.watch.add_file(&path);
        // A change before it was watched is in no report.
        stamp = stamp.filter(|stamp| path.symlink_metadata().is_ok_and(|now| FileStamp::of(&now) == *stamp));
        if stamp.is_none() {
            self.watch.note(path);
        }
    }

    fn forget(&mut self, name: &OsStr) {
        if let Some(known) = self.waiting.remove(name) {
            self.order.remove(&(known.order, name.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn project() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        for dir in [layout.runs(), layout.dead(), layout.done(), layout.waiting_dead(), layout.waiting_done()]
        {
            fs::create_dir_all(dir).unwrap();
        }
        (dir, layout)
    }

    fn check(view: &mut QueueView, layout: &Layout) {
        view.refresh().unwrap();
        let mut expected = Inbox::of(layout).files().unwrap();
        expected.sort();
        let mut waiting: Vec<OsString> = view.waiting.keys().cloned().collect();
        waiting.sort();
        assert_eq!(waiting, expected);
        let order: Vec<&OsString> = view.order.iter().map(|(_, file)| file).collect();
        let pending = Inbox::of(layout).pending().unwrap();
        assert_eq!(order, pending.iter().map(|it| &it.file).collect::<Vec<_>>());
        for message in &pending {
            assert_eq!(view.waiting[&message.file].id, message.id);
        }
        let mut names: Vec<OsString> = view.write_list().read(layout).into_iter().collect();
        names.sort();
        assert_eq!(names, expected);
        view.update_second_names();
        let mut letters = view.letters();
        letters.sort();
        let mut expected: Vec<PathBuf> = SecondNames::letters(layout);
        expected.sort();
        assert_eq!(letters, expected);
        let linked = |names: SecondNames| {
            let mut names = names.all();
            names.sort();
            names
        };
        assert_eq!(linked(SecondNames::of(layout)), waiting);
        assert_eq!(linked(SecondNames::of_done(layout)).len(), view.done.len().min(MAX_DONE));
        assert_eq!(linked(SecondNames::of_dead(layout)).len(), view.dead.len());
    }

    #[test]
    fn the_view_is_what_the_queue_is_whatever_was_done_to_it() {
        let (_dir, layout) = project();
        let mut view = QueueView::new(&layout);
        let (inbox, done) = (layout.inbox(), layout.done());
        let message = |n: u32, seq: u32| format!("---\nid: 20250225143200{n:02}-{seq}\n---\nx\n");
        for n in 0..9 {
            fs::write(inbox.join(format!("m{n}.md")), message(n, 0)).unwrap();
        }
        check(&mut view, &layout);
        check(&mut view, &layout);
        fs::write(inbox.join("m3.md"), message(1, 7)).unwrap();
        fs::remove_file(inbox.join("m4.md")).unwrap();
        fs::rename(inbox.join("m5.md"), done.join("m5.md")).unwrap();
        fs::write(inbox.join("new.md"), "x").unwrap();
        fs::remove_file(layout.waiting().join("m6.md")).unwrap();
        check(&mut view, &layout);
        let chain = ChainId::parse("2025022514320001").unwrap();
        assert_eq!(view.next_in_chain(&chain), Some("m1.md".into()));
        fs::remove_file(inbox.join("m1.md")).unwrap();
        check(&mut view, &layout);
        assert_eq!(view.next_in_chain(&chain), Some("m3.md".into()));
        // Through another name, and with the old time.
        let other = inbox.join("sub");
        fs::hard_link(inbox.join("m7.md"), &other).unwrap();
        fs::write(&other, message(1, 3)).unwrap();
        check(&mut view, &layout);
        assert_eq!(view.next_in_chain(&chain), Some("m7.md".into()));
        fs::rename(layout.inbox(), layout.decree().join("away")).unwrap();
        for dir in [layout.dead(), layout.done()] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(inbox.join("m8.md"), "y").unwrap();
        check(&mut view, &layout);
        fs::write(inbox.join("m8.md"), message(1, 2)).unwrap();
        check(&mut view, &layout);
        assert_eq!(view.next_in_chain(&chain), Some("m8.md".into()));
    }

    #[test]
    fn only_the_latest_letters_have_second_names() {
        let (_dir, layout) = project();
        let mut view = QueueView::new(&layout);
        for n in 0..MAX_DONE + 2 {
            fs::write(layout.done().join(format!("{n:05}.md")), "x").unwrap();
        }
        check(&mut view, &layout);
        for n in 0..6 {
            fs::write(layout.done().join(format!("{:05}.md", 2000 + n)), "x").unwrap();
            check(&mut view, &layout);
        }
        fs::remove_file(layout.done().join("02003.md")).unwrap();
        fs::write(layout.dead().join("d.md"), "x").unwrap();
        check(&mut view, &layout);
    }
}
