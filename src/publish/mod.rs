//! What was processed, as commits: one for each spec, with exactly what its runs left; then, if that is asked for, a push
//! and a pull request.
//!
//! ```text
//! publisher    which runs are left to publish, and where to     plan       the runs of a summary, by chains
//! repository   the repository, its branch, who commits          scope      what git does not want
//! commits      puts commits together                            content    what runs found and left, as files
//! message      what a commit says                               land       one reference moves, or nothing
//! push         plainly, never by force                          pull_request  opened, or brought up to date
//! ```
//!
//! Nothing is taken from the work tree: content comes from the store and the diffs, and has the hashes that were recorded. So
//! a person's edits are never committed, neither those from before a run, which are refused, nor those from after it.
//!
//! A routine may have edited `.git/config`. Hooks do not run, but filters, a signing program or a transport that the
//! settings name do, as they would with `git commit` and `git push`.

mod commits;
mod content;
mod message;
mod plan;
mod publisher;
mod pull_request;
mod push;
mod repository;
mod scope;
mod update_ref;

pub use commits::Commit;
pub use publisher::{PublishOptions, PublishReport, publish};
pub use pull_request::{PullRequestApi, PullRequestOptions};
pub use push::{PushAccess, push};
pub use repository::Repository;
pub use update_ref::BranchTarget;
