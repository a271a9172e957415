//! Reports about a `process` or `run`: one pure renderer per format. [`fn@load`] reads the summary and its runs, with limits and
//! without secrets; the caller delivers the text.

mod diff;
pub mod html;
pub mod junit;
mod load;
pub mod markdown;
mod model;
pub mod text;

pub use load::{ReportLimits, load, runs_beside};
pub use model::Report;
