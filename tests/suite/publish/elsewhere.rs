//! The two-job set-up: one job runs the routines, another publishes their work.

use super::Repo;
use crate::artifact::{CHANGES, staged};

/// PUB-32.
#[test]
fn what_an_artifact_brought_is_published_as_if_it_had_been_made_here() {
    let specs = [("01-change", "# Change\n"), ("02-more", "# More\n")];
    let (here, there) = (Repo::with(CHANGES, &specs), Repo::with(CHANGES, &specs));
    here.process().ok();
    let (_dir, artifact) = staged(&here);
    let summary = artifact.join("summary.json");
    there.decree(["apply", "--all", "--from", artifact.to_str().unwrap()]).ok();
    there.publish(&["--summary", summary.to_str().unwrap()]).ok().mentions(&["2 commits on main"]);
    here.publish(&[]).ok();
    assert_eq!(there.subjects(), here.subjects());
    for commit in ["HEAD~1", "HEAD"] {
        let tree = |repo: &Repo| repo.says(["rev-parse", &format!("{commit}^{{tree}}")]);
        assert_eq!(tree(&there), tree(&here), "{commit}");
        assert_eq!(there.trailers(commit), here.trailers(commit));
    }
    there.is_clean();
}
