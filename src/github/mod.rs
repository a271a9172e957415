//! GitHub, and what speaks like it: GitHub Enterprise Server, Gitea, Forgejo. Only here does decree use a network.
//!
//! [`environment`] and [`event`] tell what a CI runner says of where it is; [`commands`] and [`StepFiles`] are how a step speaks to
//! it, and [`step_report`] what `process` says; [`client`] asks and answers, with_retries, and creates nothing twice; [`sticky`] keeps
//! one comment, [`pulls`] one pull request.

pub mod client;
pub mod commands;
mod encode;
pub mod environment;
pub mod event;
mod failure;
mod names;
pub mod pulls;
mod retry;
mod step_files;
pub mod step_report;
pub mod sticky;
mod transport;

pub use client::GithubClient;
pub use environment::RunnerEnvironment;
pub use failure::ApiFailure;
pub use names::{ApiToken, CommentKey, RepoName};
pub use pulls::{OpenPullRequest, PullRequest, open_or_update};
pub use step_files::{StepFiles, in_actions, in_workspace};
