//! CI artifacts: exports runs to a directory, and imports runs from one.
//!
//! ```text
//! <artifact>/
//!   summary.json            the summary of the command
//!   report.html  report.md  junit.xml
//!   runs/<id>/              as in .decree/runs/, without files that are useless on another machine
//!   left-out.txt            which files are missing, and why; only if any are
//! ```
//!
//! An export contains no file with a secret of the environment. An import trusts nothing: names are checked, links are not
//! followed, sizes are limited, and a diff has to match its hashes before it is applied.

mod import;
mod source;
mod stage;

pub use import::{import_and_apply, visit_extracted};
pub use source::ArtifactSource;
pub use stage::{OmittedFile, StageReport, stage};
