//! GitHub, and what speaks like it: GitHub Enterprise Server, Gitea, Forgejo. Only here does decree use a network.
//!
//! [`environment`] and [`event`] tell what a CI runner says of where it is; [`client`] asks and answers, patiently, and
//! creates nothing twice; [`sticky`] keeps one comment, [`pulls`] one pull request.

pub mod client;
mod encode;
pub mod environment;
pub mod event;
mod failure;
mod names;
pub mod pulls;
mod retry;
pub mod sticky;
mod transport;

pub use client::Client;
pub use encode::command_data;
pub use environment::Environment;
pub use failure::Failure;
pub use names::{Key, RepoName, Token};
pub use pulls::{Opened, PullRequest, open_or_update};
