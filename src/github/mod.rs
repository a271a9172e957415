//! GitHub, and what speaks like it: GitHub Enterprise Server, Gitea, Forgejo. Only here does decree use a network.
//!
//! [`environment`] and [`event`] tell what a CI runner says of where it is; [`commands`] and [`Step`] are how a step speaks to
//! it, and [`told`] what `process` says; [`client`] asks and answers, patiently, and creates nothing twice; [`sticky`] keeps
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
mod step;
pub mod sticky;
pub mod told;
mod transport;

pub use client::Client;
pub use environment::Environment;
pub use failure::Failure;
pub use names::{Key, RepoName, Token};
pub use pulls::{Opened, PullRequest, open_or_update};
pub use step::{Step, in_actions, in_workspace};
