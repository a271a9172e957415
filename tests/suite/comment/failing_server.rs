//! A server that fails: in the end there is exactly one comment.

use std::process::Stdio;

use rustix::process::{Pid, Signal};

use super::fixture::{FIXTURE, MARKER, Stage};
use super::server::ServerFault;
use crate::harness::wait_until;

const AT_ONCE: &[(&str, &str)] = &[("retry-after", "0")];

#[track_caller]
fn one_comment(stage: &Stage) {
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(bodies[0].starts_with(MARKER), "{}", bodies[0]);
}

/// CMT-11.
#[test]
fn what_was_created_in_spite_of_an_error_is_not_created_again() {
    for fault in
        [ServerFault::DoneThenStatus(502), ServerFault::DoneThenStatus(504), ServerFault::DoneThenCut]
    {
        let stage = Stage::github();
        stage.server.fault("POST", fault);
        let output = stage.comment(&[]).ok();
        assert_eq!(output.text(), "https://git.example.org/octo/repo/pull/7#issuecomment-1001\n");
        one_comment(&stage);
        assert_eq!(stage.server.count("POST"), 1);
    }
}

/// CMT-11.
#[test]
fn what_was_not_created_is_looked_for_and_then_created() {
    for fault in [
        ServerFault::Status(502, &[], "Bad gateway"),
        ServerFault::Status(500, &[], "Server Error"),
        ServerFault::Cut,
        ServerFault::Status(429, AT_ONCE, "Too many requests"),
        ServerFault::Status(403, AT_ONCE, "You have exceeded a secondary rate limit."),
    ] {
        let stage = Stage::github();
        stage.server.fault("POST", fault.clone()).fault("POST", fault);
        stage.comment(&[]).ok();
        one_comment(&stage);
        let requests = stage.server.state().requests.clone();
        let methods: Vec<&str> = requests.iter().filter_map(|request| request.split(' ').next()).collect();
        assert_eq!(methods, ["GET", "POST", "GET", "POST", "GET", "POST"]);
    }
}

/// CMT-11.
#[test]
fn it_is_found_although_older_ones_are_there() {
    let stage = Stage::github();
    stage.comment_on_spec("one", &[]).ok();
    stage.server.fault("POST", ServerFault::DoneThenCut);
    stage.comment_on_spec("two", &["--mode", "delete-old"]).ok();
    one_comment(&stage);
    assert!(stage.server.bodies()[0].contains("| two |"));
}

/// CMT-11.
#[test]
fn a_server_that_stays_in_trouble_is_given_up() {
    let stage = Stage::github();
    for _ in 0..20 {
        stage.server.fault("POST", ServerFault::Status(503, &[], "Unavailable"));
    }
    stage.comment(&[]).fails(1).mentions(&["cannot comment on octo/repo#7", "503", "later"]);
    assert_eq!((stage.server.count("POST"), stage.server.bodies().len()), (5, 0));
}

/// CMT-10.
#[test]
fn reading_changing_and_deleting_are_tried_again() {
    for fault in [
        ServerFault::Status(502, &[], "Bad gateway"),
        ServerFault::DoneThenStatus(502),
        ServerFault::Cut,
        ServerFault::DoneThenCut,
        ServerFault::Status(429, AT_ONCE, "Too many requests"),
        ServerFault::Status(
            403,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")],
            "API rate limit exceeded",
        ),
    ] {
        let stage = Stage::github();
        stage.comment_on_spec("one", &[]).ok();
        stage.server.fault("GET", fault.clone()).fault("PATCH", fault.clone());
        stage.comment_on_spec("two", &[]).ok();
        one_comment(&stage);
        assert!(stage.server.bodies()[0].contains("| two |"));
        stage.server.fault("DELETE", fault);
        stage.comment_on_spec("three", &["--mode", "delete-old"]).ok();
        one_comment(&stage);
        assert!(stage.server.bodies()[0].contains("| three |"));
    }
}

/// CMT-10.
#[test]
fn it_waits_as_long_as_it_is_asked_to_but_not_for_hours() {
    let stage = Stage::github();
    stage.server.fault("GET", ServerFault::Status(429, &[("retry-after", "1")], "Too many requests"));
    let start = std::time::Instant::now();
    stage.comment(&[]).ok();
    assert!(start.elapsed().as_millis() >= 1000);
    stage.server.fault(
        "GET",
        ServerFault::Status(403, &[("retry-after", "3600")], "You have exceeded a secondary rate limit"),
    );
    let start = std::time::Instant::now();
    stage.comment(&[]).fails(1).mentions(&["rate limit", "works later"]);
    assert!(start.elapsed().as_secs() < 60);
}

/// CMT-10.
#[test]
fn who_asks_it_to_stop_does_not_wait_with_it() {
    let slow = ServerFault::Status(429, &[("retry-after", "60")], "Too many requests");
    for fault in [slow, ServerFault::Silence] {
        let stage = Stage::github();
        stage.server.fault("GET", fault);
        let start = std::time::Instant::now();
        let child = stage
            .command(&["--summary", FIXTURE])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("a request", || stage.server.count("GET") > 0);
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(start.elapsed().as_secs() < 20);
    }
}
