//! What is made of a summary and the runs it tells of: a renderer for each format, each of them pure. Somebody else
//! loads ([`fn@load`], with limits and without secrets) and delivers.

mod diff;
pub mod html;
pub mod json;
pub mod junit;
mod load;
pub mod markdown;
mod model;
mod redact;
pub mod text;

pub use diff::{Diff, FileDiff};
pub use load::{ReportLimits, load};
pub use model::{AttemptLog, Excerpt, MessageOutcome, Report, RunFiles};
