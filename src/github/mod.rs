//! GitHub and servers with the same API: GitHub Enterprise Server, Gitea, Forgejo. The only module that uses the network.
//!
//! [`environment`] and [`event`] read what the CI runner provides. [`commands`] and [`StepFiles`] write what the runner reads,
//! and [`step_report`] decides what `process` writes there. [`client`] sends requests with retries and creates nothing twice;
//! [`post_comment`] decides where a comment belongs; [`sticky`] maintains one comment, [`pulls`] one pull request.

pub mod client;
pub mod commands;
mod comment;
pub mod environment;
pub mod event;
mod failure;
mod names;
pub mod pulls;
mod step_files;
pub mod step_report;
pub mod sticky;
mod transport;

pub use client::GithubClient;
pub use comment::{CommentOutcome, post_comment};
pub use environment::RunnerEnvironment;
pub use failure::ApiFailure;
pub use names::{CommentKey, RepoName};
pub use pulls::{OpenPullRequest, PullRequest, open_or_update};
pub use step_files::{StepFiles, in_actions, in_workspace};
