//! Publishes kept runs as commits, one commit per spec with exactly the content its runs left; then, on request, pushes them
//! and opens a pull request.
//!
//! ```text
//! publisher    selects the runs and the target branch           plan       groups the runs of a summary by chain
//! repository   the repository, its branch, its author           scope      ignored paths and nested repositories
//! commits      builds the commit objects                        content    writes the files that git adds
//! message      subject, body and trailers                       update_ref moves the branch and the index atomically
//! delivery     to which branch the commits are pushed           push       never forces
//! pull_request opens one, or updates the open one                own_commits  those that runs made themselves
//! outgoing     searches what a push would send for secrets
//! known_values which secrets are not worth refusing it            run_secrets  what runs recorded of likely secrets
//! ```
//!
//! No content comes from the work tree: it is rebuilt from the store and the diffs, and has to match the recorded hashes. So a
//! user's edits are never committed: edits from before a run are refused, later ones are ignored.
//!
//! A routine may have edited `.git/config`. Hooks do not run, but filters, signing programs and transports in the settings
//! do, as with `git commit` and `git push`.

mod commits;
mod content;
mod delivery;
mod known_values;
mod message;
mod outgoing;
mod own_commits;
mod plan;
mod publisher;
mod pull_request;
mod push;
mod repository;
mod run_secrets;
mod scope;
mod update_ref;

pub use commits::Commit;
pub use delivery::{Delivery, check_push};
pub use publisher::{PublishOptions, PublishReport, publish};
pub use pull_request::{PullRequestApi, PullRequestOptions};
pub use push::basic_token;
pub use repository::Repository;
pub use update_ref::BranchTarget;
