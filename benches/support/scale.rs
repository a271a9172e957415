//! How large everything is: the sizes that the goals are stated for, a bounded default, and a tiny one for `cargo test`.

use super::tree::KERNEL_FILES;

/// The sizes of one run.
#[derive(Clone, Debug)]
pub struct Scale {
    pub name: &'static str,
    /// Repetitions of what is quick; first checkpoints are repeated three times at most.
    pub rounds: usize,
    /// Files in the source tree.
    pub kernel: usize,
    /// Small files in one directory.
    pub flat: usize,
    /// Small files of the tree for `git add`.
    pub half_million: usize,
    /// Small files of the tree for memory.
    pub million: usize,
    /// Messages in the inbox, few and many, and how many of them are timed.
    pub waiting: [usize; 2],
    pub timed: usize,
    /// Runs in one project, and how many at either end are timed.
    pub runs: usize,
    pub window: usize,
    /// Packs that a store is given.
    pub packs: usize,
    /// Files in a project whose garbage is collected, and its number of runs, few and many.
    pub gc_files: usize,
    pub gc_runs: [usize; 2],
    /// Files that a routine changes before a signal.
    pub signal_files: usize,
    /// Apparent size of the sparse file.
    pub sparse: u64,
    /// Points of the growth series.
    pub tree_sizes: &'static [usize],
    pub run_counts: &'static [usize],
}

impl Scale {
    pub const FULL: Self = Self {
        name: "full",
        rounds: 5,
        kernel: KERNEL_FILES,
        flat: 100_000,
        half_million: 500_000,
        million: 1_000_000,
        waiting: [100, 20_000],
        timed: 60,
        runs: 2_040,
        window: 50,
        packs: 2_000,
        gc_files: 20_000,
        gc_runs: [30, 300],
        signal_files: 20_000,
        sparse: 2 << 30,
        tree_sizes: &[1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
        run_counts: &[1, 10, 100, 1_000, 10_000],
    };

    pub const DEFAULT: Self = Self {
        name: "default",
        rounds: 5,
        kernel: 20_000,
        flat: 20_000,
        half_million: 50_000,
        million: 100_000,
        waiting: [100, 2_000],
        timed: 60,
        runs: 300,
        window: 50,
        packs: 200,
        gc_files: 5_000,
        gc_runs: [10, 100],
        signal_files: 5_000,
        sparse: 128 << 20,
        tree_sizes: &[1_000, 3_000, 10_000, 30_000],
        run_counts: &[1, 10, 100],
    };

    /// Only shows that everything works.
    pub const TINY: Self = Self {
        name: "tiny",
        rounds: 1,
        kernel: 200,
        flat: 300,
        half_million: 300,
        million: 300,
        waiting: [6, 12],
        timed: 4,
        runs: 6,
        window: 2,
        packs: 4,
        gc_files: 200,
        gc_runs: [2, 4],
        signal_files: 200,
        sparse: 4 << 20,
        tree_sizes: &[100, 200],
        run_counts: &[1, 4],
    };

    /// How often to measure a first checkpoint of so many files.
    pub fn first_rounds(&self, files: usize) -> usize {
        self.rounds.min(if files > 100_000 { 1 } else { 3 })
    }
}
