//! GitHub, and what speaks like it: GitHub Enterprise Server, Gitea, Forgejo. Only here does decree use a network.
//!
//! [`environment`] and [`event`] tell what a CI runner says of where it is; [`client`] asks and answers, patiently, and
//! creates nothing twice; [`sticky`] keeps one comment, [`pulls`] one pull request.

pub mod client;
mod encode;
pub mod environment;
mod failure;
mod names;
pub mod pulls;
mod retry;

pub use client::Client;
pub use environment::Environment;
pub use failure::Failure;
pub use names::{Key, RepoName, Token};
pub use pulls::{Opened, PullRequest, open_or_update};
