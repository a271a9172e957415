//! Follow-ups: depth first, up to `max_depth`, and withdrawn with the run that wrote them.

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::assert_same;

/// Leaves a follow-up until the chain is three deep, and says who it was.
const GOES_DEEPER: &str = r#"
echo "$message_id" >>order.txt
if [ "$seq" -lt 3 ]; then echo "step $((seq + 1))" >".decree/inbox/$chain-$((seq + 1)).md"; fi
"#;

/// RUN-04.
#[test]
fn a_follow_up_is_carried_out_right_after_its_parent_and_before_any_other_chain() {
    let project = PipelineProject::with(
        "echo \"${spec_file:-follow-up $seq}\" >>order.txt\ncase $spec_file in *01*) echo more >.decree/inbox/$chain-1.md;; esac",
    );
    project.spec("01-a", "# A\n").spec("02-b", "# B\n").process().ok();
    assert_eq!(project.text("order.txt"), "specs/01-a.spec.md\nfollow-up 1\nspecs/02-b.spec.md\n");
    let runs = project.runs();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[1], format!("{}-1", runs[0].trim_end_matches("-0")), "same chain, next place");
    assert_eq!(project.done(), ["01-a", "02-b", &runs[1]]);
}

/// RUN-05.
#[test]
fn a_chain_of_four_has_four_runs_in_the_order_they_were_processed() {
    let project = PipelineProject::with(GOES_DEEPER);
    project.run(&["-m", "start", "-p", "begin"]).ok();
    let runs = project.runs();
    let places: Vec<_> = runs.iter().map(|id| id.rsplit('-').next().unwrap()).collect();
    assert_eq!(places, ["0", "1", "2", "3"]);
    assert_eq!(project.text("order.txt"), runs.iter().map(|id| format!("{id}\n")).collect::<String>());
    assert_eq!(project.summary()["kept"], 4);
    assert!(project.inbox().is_empty());
}

/// RUN-04.
#[test]
fn a_waiting_message_of_another_chain_comes_after_the_whole_chain() {
    let project = PipelineProject::with(GOES_DEEPER);
    project.message("2025010101010100-0", "first\n").message("2025010101010101-3", "other\n");
    project.process().ok();
    assert_eq!(
        project.text("order.txt"),
        "2025010101010100-0\n2025010101010100-1\n2025010101010100-2\n2025010101010100-3\n2025010101010101-3\n"
    );
}

/// RUN-04, MSG-06.
#[test]
fn follow_ups_under_any_name_belong_to_the_chain_that_their_front_matter_names() {
    let project = PipelineProject::with(
        "echo \"$seq $(tail -n 1 \"$message_file\")\" >>order.txt\nif [ $seq = 0 ]; then\n  for word in b a; do printf -- '---\\nchain: %s\\nseq: 1\\n---\\n%s\\n' $chain $word >.decree/inbox/next-$word.md; done\nfi",
    );
    project.run(&["-m", "start", "-p", "begin"]).ok();
    assert_eq!(
        project.text("order.txt"),
        "0 begin\n1 a\n2 b\n",
        "two at the same place come one after the other"
    );
    assert_eq!(project.done(), ["next-a", "next-b", "start"]);
}

/// RUN-06.
#[test]
fn a_message_at_max_depth_is_a_dead_letter_and_its_routine_does_not_run() {
    let project = PipelineProject::with(GOES_DEEPER);
    project.config("max_depth: 2\n").run(&["-m", "start", "-p", "begin"]).fails(1);
    let chain = project.runs()[0].trim_end_matches("-0").to_owned();
    assert_eq!(project.text("order.txt"), format!("{chain}-0\n{chain}-1\n"));
    assert_eq!(project.dead(), [format!("{chain}-2")]);
    assert_has(
        &project.dead_letter(&format!("{chain}-2")),
        &["MaxDepthExceeded", "seq 2", "max_depth", "step 2"],
    );
    assert_eq!(project.summary()["kept"], 2, "what came before is kept");
}

/// RUN-06.
#[test]
fn the_default_depth_is_ten_and_no_number_is_too_large() {
    let project = PipelineProject::with("touch ran");
    for seq in ["10", "99999999999999999999"] {
        project.message(&format!("2025010101010100-{seq}"), "deep\n");
    }
    project.process().fails(1);
    assert_eq!(project.dead().len(), 2);
    assert!(!project.exists("ran"));
    project.message("2025010101010100-9", "deep enough\n").process().ok();
    assert!(project.exists("ran"));
}

/// TRY-07.
#[test]
fn follow_ups_of_a_run_that_was_reverted_are_withdrawn_into_its_attempt() {
    let project = PipelineProject::with(
        "echo \"of attempt $DECREE_ATTEMPT\" >.decree/inbox/$chain-1.md; touch junk; exit 1",
    );
    project.config("max_retries: 1\n").message("2020010101010100-0", "unrelated, and it waits\n");
    let before = project.snapshot();
    project.run(&["-m", "start", "-p", "begin"]).fails(1);
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.inbox(), ["2020010101010100-0"], "nothing of the chain waits");
    let id = project.run_of("start");
    let follow_up = format!("{}-1.md", id.trim_end_matches("-0"));
    for attempt in [1, 2] {
        let kept = project.of_run(&id, &format!("attempts/{attempt}/follow-ups/{follow_up}"));
        assert_eq!(kept, format!("of attempt {attempt}\n"));
    }
    assert_eq!(project.runs().len(), 1, "none of them ran");
}

/// TRY-07.
#[test]
fn follow_ups_of_a_failed_attempt_wait_for_the_one_on_top_of_it() {
    let project = PipelineProject::with(
        "echo \"$message_id $DECREE_ATTEMPT\" >>order.txt\n[ $seq = 0 ] || exit 0\nif [ $DECREE_ATTEMPT = 1 ]; then echo more >.decree/inbox/$chain-1.md; exit 1; fi",
    );
    project.run(&["-m", "start", "-p", "begin"]).ok();
    let chain = project.runs()[0].trim_end_matches("-0").to_owned();
    assert_eq!(project.text("order.txt"), format!("{chain}-0 1\n{chain}-0 2\n{chain}-1 1\n"));
}

/// RUN-04, TRY-03.
#[test]
fn a_follow_up_that_fails_is_reverted_to_what_its_parent_left() {
    let project = PipelineProject::with(
        "echo \"$seq\" >>work.txt\n[ $seq = 0 ] || exit 1\necho more >.decree/inbox/$chain-1.md",
    );
    project.config("max_retries: 0\n").spec("01-a", "# A\n").process().fails(1);
    assert_eq!(project.text("work.txt"), "0\n");
    assert_eq!(project.tracker(), ["01-a.spec.md"], "the spec itself was fulfilled");
    assert_eq!(project.verdicts()[0], "01-a: success");
    assert_eq!(project.dead().len(), 1);
}

/// RUN-06, MSG-06.
#[test]
fn a_routine_that_queues_its_own_message_again_comes_to_an_end() {
    let project =
        PipelineProject::with("echo $seq >>order.txt; cp \"$message_file\" .decree/inbox/again-$seq.md");
    project.config("max_depth: 3\n").run(&["-m", "start", "-p", "begin"]).fails(1);
    assert_eq!(project.text("order.txt"), "0\n1\n2\n");
    assert_eq!(project.runs().len(), 3, "each copy has a place of its own");
    assert_has(&project.dead_letter("again-2"), &["MaxDepthExceeded"]);
}

/// RUN-04.
#[test]
fn what_is_hidden_in_the_inbox_is_not_taken() {
    let project = PipelineProject::with("touch ran");
    project.message(".half-written", "not yet\n").process().ok();
    assert!(!project.exists("ran"));
    project.message("tmp-idea", "a name like any other\n").process().ok();
    assert_eq!(project.done(), ["tmp-idea"]);
}
