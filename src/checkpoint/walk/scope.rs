//! What one set of ignore rules shows of a directory.

use crate::checkpoint::ignore::{IgnoreFile, Rules, Verdict};

/// The rules in force in a directory, and how much of it they show.
#[derive(Clone, Debug)]
pub struct Side {
    /// From the root down to here.
    pub rules: Rules,
    /// How much they show.
    pub view: View,
}

/// How much of a directory is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Everything that no rule hides.
    All,
    /// The directory is ignored, but a `.decreeignore` may ask for things in it.
    OnlyKept,
    /// Nothing.
    Nothing,
}

/// What a side says of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// Whether it is visible.
    pub visible: bool,
    /// Whether a `.decreeignore` asks for it, whatever else would leave it out.
    pub asked_for: bool,
    /// What is visible below it.
    pub below: View,
}

impl Side {
    /// At the root, before any ignore file was read.
    pub fn at_root() -> Self {
        Side { rules: Rules::default(), view: View::All }
    }

    /// In `dir`, given the ignore files in it.
    pub fn enter(&self, dir: &[u8], files: &[IgnoreFile]) -> Side {
        let rules = match self.view {
            View::All => self.rules.enter(dir, files),
            View::OnlyKept | View::Nothing => self.rules.clone(),
        };
        Side { rules, view: self.view }
    }

    /// The same rules, with another view: for a directory below.
    pub fn with_view(&self, view: View) -> Side {
        Side { rules: self.rules.clone(), view }
    }

    /// Judges an entry of the directory.
    pub fn judge(&self, path: &[u8], is_dir: bool) -> Judgement {
        if self.view == View::Nothing {
            return Judgement { visible: false, asked_for: false, below: View::Nothing };
        }
        let verdict = self.rules.verdict(path, is_dir);
        let asked_for = verdict == Verdict::Kept;
        let visible = asked_for || (self.view == View::All && verdict == Verdict::Shown);
        let below = if visible {
            View::All
        } else if is_dir && self.rules.may_keep_below(path) {
            View::OnlyKept
        } else {
            View::Nothing
        };
        Judgement { visible, asked_for, below }
    }
}
