//! The content of commits: exactly what the runs left.

use super::Repo;

const SHAPES: &str = r#"
printf 'a\0b\377' >new.bin
printf 'x\0y' >image.bin
: >empty-file
rm docs/guide.md
ln -sf docs link
chmod +x notes.txt
chmod -x tool.sh
mkdir -p 'sp ace/d"q' && echo 1 >'sp ace/d"q/it'"'"'s'
echo 2 >$'new\nline'
echo 3 >$'latin\xe9'
echo 4 >-rf
echo 5 >:top
printf 'no newline' >bare.txt
mkdir void
rm becomes-dir && mkdir becomes-dir && echo in >becomes-dir/inside
rm -r becomes-file && echo file >becomes-file
rm becomes-link && ln -s nowhere becomes-link
"#;

/// PUB-09. The oracle is `git add -A` on a copy.
#[test]
fn binary_links_modes_deletions_swaps_and_odd_names_are_what_git_add_would_make_of_them() {
    let repo = Repo::with(SHAPES, &[]);
    repo.write("becomes-dir", "x\n").write("becomes-file/a", "x\n").write("becomes-link", "x\n");
    repo.spec("01-a", "# A\n");
    repo.commit_all("more");
    repo.process().ok();
    repo.publish(&[]).ok();
    repo.is_clean();
    let published = repo.says(["rev-parse", "HEAD^{tree}"]);
    repo.git(["read-tree", "HEAD~1"]).ok();
    repo.git(["add", "-A"]).ok();
    assert_eq!(repo.says(["write-tree"]), published);
    let names = repo.git(["ls-tree", "-r", "-z", "HEAD"]).ok().out;
    for part in [&b"new\nline"[..], b"latin\xe9", b"120000 blob", b"100755 blob", b"-rf", b":top"] {
        assert!(names.windows(part.len()).any(|window| window == part), "{part:?}");
    }
}

/// PUB-09. Shapes that change again within one publish.
#[test]
fn a_path_that_is_a_file_then_a_directory_then_a_link_has_its_shape_in_each_commit() {
    let script = r#"
case $spec_file in
  *01*) echo one >thing;;
  *02*) rm thing && mkdir thing && echo two >thing/inside;;
  *03*) rm -r thing && ln -s elsewhere thing;;
  *04*) rm thing;;
esac
"#;
    let repo = Repo::with(script, &[("01", "# A\n"), ("02", "# B\n"), ("03", "# C\n"), ("04", "# D\n")]);
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.blob("HEAD~3", "thing"), b"one\n");
    assert_eq!(repo.blob("HEAD~2", "thing/inside"), b"two\n");
    assert_eq!(repo.blob("HEAD~1", "thing"), b"elsewhere");
    assert_eq!(repo.says(["ls-tree", "HEAD", "thing"]), "");
    repo.is_clean();
}

/// PUB-10.
#[test]
fn edits_from_after_the_run_are_not_committed() {
    let repo = Repo::with("echo run >>notes.txt; echo run >made.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    let left = repo.read("notes.txt");
    repo.write("notes.txt", "mine\n").write("tool.sh", "mine\n").write("untracked.txt", "mine\n");
    repo.remove("made.txt");
    let before = repo.snapshot();
    repo.publish(&[]).ok();
    crate::harness::assert_same(&repo.snapshot(), &before);
    assert_eq!(repo.blob("HEAD", "notes.txt"), left);
    assert_eq!(repo.blob("HEAD", "made.txt"), b"run\n");
    let status = repo.git(["status", "--porcelain"]).ok().text();
    assert_eq!(status, " D made.txt\n M notes.txt\n M tool.sh\n?? untracked.txt\n");
    repo.is_sound();
}

/// PUB-11.
#[test]
fn what_else_is_staged_stays_staged() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.write("tool.sh", "staged\n").write("fresh.txt", "staged\n");
    repo.git(["add", "tool.sh", "fresh.txt"]).ok();
    repo.git(["rm", "-q", "--cached", "image.bin"]).ok();
    repo.write("tool.sh", "edited since\n");
    repo.publish(&[]).ok();
    let status = repo.git(["status", "--porcelain"]).ok().text();
    assert_eq!(status, "A  fresh.txt\nD  image.bin\nMM tool.sh\n?? image.bin\n");
    assert_eq!(repo.says(["show", ":tool.sh"]), "staged");
    repo.is_sound();
}

/// PUB-11. Staging the run's own work is no obstacle.
#[test]
fn the_runs_own_work_may_be_staged_already() {
    let repo = Repo::with("echo run >>notes.txt; rm docs/guide.md", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.git(["add", "-A"]).ok();
    repo.publish(&[]).ok();
    repo.is_clean();
}

/// PUB-12.
#[test]
fn line_endings_are_converted_as_git_add_does() {
    let repo = Repo::with("printf 'one\\r\\ntwo\\r\\n' >dos.txt; echo >>was.txt", &[("01-a", "# A\n")]);
    repo.write("was.txt", "a\r\nb\r\n");
    repo.git(["config", "core.autocrlf", "true"]).ok();
    repo.commit_all("more");
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.blob("HEAD", "dos.txt"), b"one\ntwo\n");
    assert_eq!(repo.blob("HEAD", "was.txt"), b"a\nb\n\n");
    repo.is_clean();
}

/// PUB-12. The attributes are those of the commit, also if the run brought them.
#[test]
fn clean_filters_run() {
    let repo = Repo::with(
        "echo secret >a.upper; echo more >>b.upper; echo '*.low filter=lower' >>.gitattributes; echo ABC >c.low",
        &[("01-a", "# A\n")],
    );
    repo.git(["config", "filter.upper.clean", "tr a-z A-Z"]).ok();
    repo.git(["config", "filter.lower.clean", "tr A-Z a-z"]).ok();
    repo.write(".gitattributes", "*.upper filter=upper\n").write("b.upper", "old\n");
    repo.commit_all("more");
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.blob("HEAD", "a.upper"), b"SECRET\n");
    assert_eq!(repo.blob("HEAD", "b.upper"), b"OLD\nMORE\n");
    assert_eq!(repo.blob("HEAD", "c.low"), b"abc\n");
    repo.is_clean();
}

/// PUB-13.
#[test]
fn what_git_ignores_is_left_out_and_named() {
    let repo =
        Repo::with("echo x >private.txt; echo x >public.txt; echo x >>listed.txt", &[("01-a", "# A\n")]);
    repo.write("listed.txt", "x\n");
    repo.commit_all("more");
    repo.write(".git/info/exclude", "private.txt\nlisted.txt\n");
    repo.process().ok();
    repo.publish(&[]).ok().mentions(&["private.txt is left out"]);
    assert_eq!(repo.says(["ls-tree", "--name-only", "HEAD", "private.txt", "public.txt"]), "public.txt");
    assert_eq!(repo.blob("HEAD", "listed.txt"), b"x\nx\n");
    repo.is_clean();
}

/// PUB-13. A later run's `.gitignore` does not hide what an earlier one made.
#[test]
fn what_a_later_run_ignores_is_still_in_the_commit_of_the_earlier_one() {
    let script = "case $spec_file in *01*) mkdir out && echo x >out/x;; *) echo /out >.gitignore;; esac";
    let repo = Repo::with(script, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.blob("HEAD~1", "out/x"), b"x\n");
    repo.is_clean();
}

/// PUB-14. A process for each file would take minutes.
#[test]
fn two_thousand_files_take_seconds() {
    let repo = Repo::with("for i in $(seq 2000); do echo $i >many/$i; done", &[("01-a", "# A\n")]);
    repo.write("many/1", "old\n");
    repo.commit_all("more");
    repo.process().ok();
    let start = std::time::Instant::now();
    repo.publish(&[]).ok();
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    assert_eq!(repo.blob("HEAD", "many/1999"), b"1999\n");
    repo.is_clean();
}
