//! What a set of ignore rules makes visible in a directory.

use crate::checkpoint::ignore::{IgnoreFile, RuleMatch, Rules};

/// The rules in force in a directory, and how much of it is visible.
#[derive(Clone, Debug)]
pub struct RuleSet {
    pub rules: Rules,
    pub view: View,
}

/// How much of a directory is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Everything that no rule ignores.
    All,
    /// The directory is ignored, but a `.decreeignore` may keep something in it.
    OnlyKept,
    Nothing,
}

/// Whether the rules show an entry.
#[derive(Clone, Copy, Debug)]
pub struct Visibility {
    pub visible: bool,
    /// Whether a `.decreeignore` keeps it, even if it would be left out otherwise.
    pub kept: bool,
    /// What is visible below it.
    pub below: View,
}

impl RuleSet {
    /// The rules at the root, before its ignore files are read.
    pub fn at_root() -> Self {
        RuleSet { rules: Rules::default(), view: View::All }
    }

    /// The rules in `dir`, given the ignore files in it.
    pub fn enter(&self, dir: &[u8], files: &[IgnoreFile]) -> RuleSet {
        let rules = match self.view {
            View::All => self.rules.enter(dir, files),
            View::OnlyKept | View::Nothing => self.rules.clone(),
        };
        RuleSet { rules, view: self.view }
    }

    /// The same rules with another view, for a subdirectory.
    pub fn with_view(&self, view: View) -> RuleSet {
        RuleSet { rules: self.rules.clone(), view }
    }

    /// Applies the rules to an entry of the directory.
    pub fn visibility(&self, path: &[u8], is_dir: bool) -> Visibility {
        if self.view == View::Nothing {
            return Visibility { visible: false, kept: false, below: View::Nothing };
        }
        let decision = self.rules.decide(path, is_dir);
        let kept = decision == RuleMatch::Kept;
        let visible = kept || (self.view == View::All && decision == RuleMatch::Shown);
        let below = if visible {
            View::All
        } else if is_dir && self.rules.may_keep_below(path) {
            View::OnlyKept
        } else {
            View::Nothing
        };
        Visibility { visible, kept, below }
    }
}
