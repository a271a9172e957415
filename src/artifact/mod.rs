//! Runs that travel: what is handed to a CI as an artifact, and what comes back from one.
//!
//! ```text
//! <artifact>/
//!   summary.json            what was done
//!   report.html  report.md  junit.xml
//!   runs/<id>/              as in .decree/runs/, without what is only of use where it was made
//!   left-out.txt            what is missing, and why; only if something is
//! ```
//!
//! On the way out nothing is in it that holds a secret of the environment. On the way in nothing of it is believed: names are
//! checked, links are not followed, sizes are limited, and a diff has to prove itself before it is applied.

mod binary_blocks;
mod import;
mod source;
mod stage;

pub use import::import;
pub use source::{ArtifactSource, StagedRun};
pub use stage::{OmittedFile, StageReport, stage};
