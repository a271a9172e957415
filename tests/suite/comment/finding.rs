//! Which comment is recognised as decree's.

use super::fixture::{MARKER, Stage};
use super::server::{APP, PERSON};

/// CMT-04.
#[test]
fn it_is_found_on_whatever_page_it_is() {
    let stage = Stage::github();
    for number in 0..230 {
        stage.server.comment("octocat", "User", &format!("comment {number}"));
    }
    stage.comment_on_spec("one", &[]).ok();
    for number in 0..50 {
        stage.server.comment("octocat", "User", &format!("later {number}"));
    }
    stage.comment_on_spec("two", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 281);
    assert!(bodies[230].contains("two"), "{}", bodies[230]);
    let lists = stage.server.state().requests.iter().filter(|line| line.ends_with("/comments")).count();
    assert_eq!(lists, 3 + 1 + 3, "three pages, once created, three pages");
}

/// CMT-04.
#[test]
fn a_marker_that_another_user_copied_is_left_alone() {
    let stage = Stage::github();
    let foreign = [
        ("mallory", "User", format!("{MARKER}I am decree")),
        ("dependabot[bot]", "Bot", format!("{MARKER}I am a bot, too")),
        ("github-actions[bot]", "User", format!("{MARKER}I am called like one")),
        ("github-actions[bot]", "Bot", format!("> {MARKER}\nquoted by another workflow")),
        ("octocat", "User", format!("I see `{MARKER}` in there")),
        ("github-actions[bot]", "Bot", "<!-- decree:v1 key=CI/process2 -->\nanother key".to_owned()),
    ];
    for (login, kind, body) in &foreign {
        stage.server.comment(login, kind, body);
    }
    stage.comment_on_spec("one", &[]).ok();
    stage.comment_on_spec("two", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), foreign.len() + 1);
    for (found, (_, _, body)) in bodies.iter().zip(&foreign) {
        assert_eq!(found, body);
    }
    assert!(bodies[6].contains("two"), "{}", bodies[6]);
}

/// CMT-04.
#[test]
fn the_server_names_the_user_of_a_personal_token() {
    let mut stage = Stage::github();
    stage.set("DECREE_GITHUB_TOKEN", PERSON);
    stage.server.comment("github-actions[bot]", "Bot", &format!("{MARKER}the runner's"));
    stage.comment_on_spec("one", &[]).ok();
    stage.comment_on_spec("two", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].ends_with("the runner's") && bodies[1].contains("two"));
    assert_eq!(stage.server.state().comments[1].login, "octocat");
}

/// CMT-04.
#[test]
fn the_login_of_an_app_comes_from_an_option() {
    let mut stage = Stage::github();
    stage.set("GITHUB_TOKEN", APP);
    stage.comment_on_spec("one", &["--author", "our-app[bot]"]).ok();
    stage.comment_on_spec("two", &["--author", "Our-App[bot]"]).ok();
    assert_eq!(stage.server.bodies().len(), 1);
    assert!(stage.server.bodies()[0].contains("two"));
    let output = stage.comment_on_spec("three", &[]).ok();
    output.mentions(&["warning", "--author 'our-app[bot]'"]);
}

/// CMT-04.
#[test]
fn of_several_the_oldest_is_changed_and_none_is_deleted() {
    let stage = Stage::github();
    for words in ["first", "second"] {
        stage.server.comment("github-actions[bot]", "Bot", &format!("{MARKER}{words}"));
    }
    stage.comment_on_spec("one", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].contains("| one |") && bodies[1].ends_with("second"), "{bodies:?}");
}
