//! How existing comments are treated, also when there is nothing to report.

use super::fixture::{MARKER, Stage};
use super::server::ServerFault;

/// CMT-05.
#[test]
fn a_new_comment_each_time_if_that_is_asked_for() {
    let stage = Stage::github();
    for name in ["one", "two", "three"] {
        stage.comment_on_spec(name, &["--mode", "new"]).ok();
    }
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 3);
    assert!(bodies[0].contains("| one |") && bodies[2].contains("| three |"), "{bodies:?}");
}

/// CMT-05.
#[test]
fn older_ones_are_deleted_once_the_new_one_is_there() {
    let stage = Stage::github();
    stage.comment_on_spec("other", &["--key", "other"]).ok();
    stage.server.comment("mallory", "User", &format!("{MARKER}foreign"));
    stage.comment_on_spec("one", &["--mode", "new"]).ok();
    stage.comment_on_spec("two", &["--mode", "new"]).ok();
    stage.comment_on_spec("three", &["--mode", "delete-old"]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 3, "{bodies:?}");
    assert!(bodies[0].contains("| other |") && bodies[1].ends_with("foreign"), "{bodies:?}");
    assert!(bodies[2].contains("| three |"), "{bodies:?}");
    let requests = stage.server.state().requests.clone();
    let first_delete = requests.iter().position(|request| request.starts_with("DELETE")).unwrap();
    let last_post = requests.iter().rposition(|request| request.starts_with("POST")).unwrap();
    assert!(last_post < first_delete, "{requests:?}");
}

/// CMT-05.
#[test]
fn if_the_new_one_cannot_be_made_the_old_one_stays() {
    let stage = Stage::github();
    stage.comment_on_spec("one", &[]).ok();
    stage.server.fault("POST", ServerFault::Status(422, &[], "Validation Failed"));
    stage.comment_on_spec("two", &["--mode", "delete-old"]).fails(1);
    assert_eq!(stage.server.bodies().len(), 1);
    stage.server.fault("DELETE", ServerFault::Status(403, &[], "Must have admin rights"));
    let output = stage.comment_on_spec("two", &["--mode", "delete-old"]).ok();
    output.mentions(&["warning: cannot delete an older comment on octo/repo#7", "admin rights"]);
    assert_eq!(stage.server.bodies().len(), 2);
}

/// CMT-05.
#[test]
fn a_comment_that_is_deleted_during_an_update_is_created_again() {
    let stage = Stage::github();
    stage.comment_on_spec("one", &[]).ok();
    stage.server.fault("PATCH", ServerFault::Status(404, &[], "Not Found"));
    stage.server.state().comments[0].body.push_str("\nedited");
    let output = stage.comment_on_spec("two", &["--format", "json"]).ok();
    assert!(output.text().contains(r#""action":"created""#), "{}", output.text());
}

/// CMT-06.
#[test]
fn without_anything_to_report_a_comment_is_updated_but_not_created() {
    let stage = Stage::github();
    for mode in ["update", "new", "delete-old"] {
        let output = stage.comment_on_nothing(&["--mode", mode, "--format", "json"]).ok();
        output.mentions(&["nothing was processed"]);
    }
    assert_eq!(stage.server.bodies().len(), 0);
    for mode in ["update", "new", "delete-old"] {
        stage.comment_on_spec("one", &[]).ok();
        let output = stage.comment_on_nothing(&["--mode", mode, "--format", "json"]).ok();
        assert!(output.text().contains(r#""action":"updated""#), "{}", output.text());
        let bodies = stage.server.bodies();
        assert_eq!(bodies.len(), 1);
        assert!(bodies[0].contains("### decree: nothing to do"), "{}", bodies[0]);
    }
}
