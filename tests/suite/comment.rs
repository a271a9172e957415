//! `decree comment`: the real binary against a server on loopback, and what is on that server afterwards.

mod events;
mod failing_server;
mod finding;
mod fixture;
mod modes;
mod posting;
mod pull_requests;
mod refused;
pub mod server;
mod text;
mod tls;
