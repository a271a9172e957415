//! What programs read: `--format json|yaml` of successes and failures, paths, scopes, and the commands that answers name.

mod commands;
mod failures;
mod guard;
mod orphans;
mod paths;
mod scopes;
mod verify;

use serde_json::Value;

/// The one JSON document on standard output.
#[track_caller]
fn json(out: &[u8]) -> Value {
    serde_json::from_slice(out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(out)))
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}
