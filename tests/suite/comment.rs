//! `decree comment`: the real binary against a server on loopback, and what is on that server afterwards.

mod events;
mod finding;
mod modes;
mod posting;
mod pull_requests;
mod refused;
pub mod server;
mod stage;
mod text;
mod tls;
mod trouble;
