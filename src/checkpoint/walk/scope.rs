//! What one set of ignore rules shows of a directory.

use crate::checkpoint::ignore::{IgnoreFile, RuleMatch, Rules};

/// The rules in force in a directory, and how much of it they show.
#[derive(Clone, Debug)]
pub struct RuleSet {
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
pub struct Visibility {
    /// Whether it is visible.
    pub visible: bool,
    /// Whether a `.decreeignore` asks for it, whatever else would leave it out.
    pub asked_for: bool,
    /// What is visible below it.
    pub below: View,
}

impl RuleSet {
    /// At the root, before any ignore file was read.
    pub fn at_root() -> Self {
        RuleSet { rules: Rules::default(), view: View::All }
    }

    /// In `dir`, given the ignore files in it.
    pub fn enter(&self, dir: &[u8], files: &[IgnoreFile]) -> RuleSet {
        let rules = match self.view {
            View::All => self.rules.enter(dir, files),
            View::OnlyKept | View::Nothing => self.rules.clone(),
        };
        RuleSet { rules, view: self.view }
    }

    /// The same rules, with another view: for a directory below.
    pub fn with_view(&self, view: View) -> RuleSet {
        RuleSet { rules: self.rules.clone(), view }
    }

    /// Judges an entry of the directory.
    pub fn judge(&self, path: &[u8], is_dir: bool) -> Visibility {
        if self.view == View::Nothing {
            return Visibility { visible: false, asked_for: false, below: View::Nothing };
        }
        let verdict = self.rules.verdict(path, is_dir);
        let asked_for = verdict == RuleMatch::Kept;
        let visible = asked_for || (self.view == View::All && verdict == RuleMatch::Shown);
        let below = if visible {
            View::All
        } else if is_dir && self.rules.may_keep_below(path) {
            View::OnlyKept
        } else {
            View::Nothing
        };
        Visibility { visible, asked_for, below }
    }
}
