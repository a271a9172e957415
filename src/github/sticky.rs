//! One comment that stays: found by its hidden marker *and* its author, on whatever page it is, and changed in place.
//!
//! Anybody can copy a marker into a comment of their own. So a marker counts at the very beginning only, and only if we
//! wrote the comment. A new comment carries a word of its own at its end, by which it is found if the server did not say
//! whether it was created.

use serde_json::{Value, json};

use super::client::GithubClient;
use super::failure::ApiFailure;
use super::names::{CommentKey, RepoName};
use crate::fs::random_hex;

/// How many bytes of a body are taken up by the word at its end.
pub const ROOM: usize = 48;
/// Who writes with a GitHub runner's own token.
const GITHUB_BOT: &str = "github-actions[bot]";
/// The same elsewhere.
const OTHER_BOTS: [&str; 2] = ["gitea-actions", "forgejo-actions"];
/// The beginning of the last line of a comment that was created.
const WORD: &str = "\n<!-- decree:post ";

/// What to do with the comments that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommentMode {
    /// Change ours, or create it.
    #[default]
    Update,
    /// Create another one.
    New,
    /// Create another one, then delete ours.
    DeleteOld,
}

/// A comment to be.
#[derive(Debug)]
pub struct StickyComment<'w> {
    /// Where.
    pub repo: &'w RepoName,
    /// Which pull request.
    pub number: u64,
    /// Which of our comments.
    pub key: &'w CommentKey,
    /// All of it, from the marker on.
    pub body: &'w str,
    /// Who we are, if that is known.
    pub author: Option<&'w str>,
    /// What to do with the comments that are there.
    pub mode: CommentMode,
    /// Whether there is anything to tell. If not, a comment is changed, but none is created.
    pub anything: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentAction {
    /// There is a new comment.
    Created,
    /// There is a new text.
    Updated,
    /// The text was there already.
    Unchanged,
    /// There is no comment, and none is needed.
    Skipped,
}

/// What was done, and where it can be seen.
#[derive(Debug)]
pub struct PostedComment {
    /// What was done.
    pub action: CommentAction,
    /// The comment.
    pub id: Option<u64>,
    /// Its address for people.
    pub url: Option<String>,
    /// What people have to know besides.
    pub warnings: Vec<String>,
}

/// Makes the comment what it should be.
pub fn post(client: &GithubClient, wanted: &StickyComment<'_>) -> Result<PostedComment, ApiFailure> {
    let marked = marked(client, wanted)?;
    let ours = ours(client, wanted, &marked)?;
    match (wanted.mode, ours.first()) {
        (_, None) if !wanted.anything => {
            Ok(PostedComment { action: CommentAction::Skipped, id: None, url: None, warnings: Vec::new() })
        }
        (mode, Some(oldest)) if mode == CommentMode::Update || !wanted.anything => {
            update(client, wanted, oldest)
        }
        (mode, _) => {
            let made = create(client, wanted)?;
            let mut posted = PostedComment::of(CommentAction::Created, &made);
            if mode == CommentMode::DeleteOld {
                posted.warnings = delete(client, wanted, &ours);
            }
            if mode != CommentMode::New {
                posted.warnings.extend(unknown_self(&made, &marked, &ours));
            }
            Ok(posted)
        }
    }
}

impl PostedComment {
    fn of(action: CommentAction, comment: &Value) -> Self {
        PostedComment {
            action,
            id: comment["id"].as_u64(),
            url: comment["html_url"].as_str().map(str::to_owned),
            warnings: Vec::new(),
        }
    }
}

impl StickyComment<'_> {
    fn comments(&self) -> String {
        format!("repos/{}/issues/{}/comments", self.repo, self.number)
    }

    fn comment(&self, id: &Value) -> String {
        format!("repos/{}/issues/comments/{id}", self.repo)
    }

    fn list(&self, client: &GithubClient) -> Result<Vec<Value>, ApiFailure> {
        client.list(&format!("list the comments of {}#{}", self.repo, self.number), &self.comments())
    }
}

/// All comments that begin with the marker, the oldest first.
fn marked(client: &GithubClient, wanted: &StickyComment<'_>) -> Result<Vec<Value>, ApiFailure> {
    let marker = wanted.key.marker();
    let mut comments = wanted.list(client)?;
    comments.retain(|comment| body(comment).starts_with(&marker));
    comments.sort_by_key(|comment| comment["id"].as_u64());
    Ok(comments)
}

/// Those of them that we wrote.
fn ours<'c>(
    client: &GithubClient,
    wanted: &StickyComment<'_>,
    marked: &'c [Value],
) -> Result<Vec<&'c Value>, ApiFailure> {
    if marked.is_empty() {
        return Ok(Vec::new());
    }
    let author = match wanted.author {
        Some(author) => Some(author.to_owned()),
        None => myself(client)?,
    };
    let is_ours = |comment: &&Value| match &author {
        Some(author) => login(comment).eq_ignore_ascii_case(author),
        None => is_runner(comment),
    };
    Ok(marked.iter().filter(is_ours).collect())
}

/// Who we are, if the server tells. It does not tell a runner's own token.
fn myself(client: &GithubClient) -> Result<Option<String>, ApiFailure> {
    match client.get("ask who the token belongs to", "user") {
        Ok(user) => Ok(user["login"].as_str().map(str::to_owned)),
        Err(failure) if [401, 403, 404].iter().any(|status| failure.is_status(*status)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn is_runner(comment: &Value) -> bool {
    match comment["user"]["type"].as_str() {
        Some(kind) => kind == "Bot" && login(comment) == GITHUB_BOT,
        // Only others than GitHub tell no type; on GitHub anybody could be called like their bots.
        None => OTHER_BOTS.contains(&login(comment)),
    }
}

fn login(comment: &Value) -> &str {
    comment["user"]["login"].as_str().unwrap_or_default()
}

fn body(comment: &Value) -> &str {
    comment["body"].as_str().unwrap_or_default()
}

/// A body as far as it matters: without the word of its creation, and without what servers do to the ends of lines.
fn normalized(body: &str) -> String {
    let body = body.replace("\r\n", "\n");
    let end = body.rfind(WORD).filter(|at| !body[at + WORD.len()..].trim_end().contains('\n'));
    body[..end.unwrap_or(body.len())].trim_end().to_owned()
}

fn update(
    client: &GithubClient,
    wanted: &StickyComment<'_>,
    old: &Value,
) -> Result<PostedComment, ApiFailure> {
    if normalized(body(old)) == normalized(wanted.body) {
        return Ok(PostedComment::of(CommentAction::Unchanged, old));
    }
    let doing = format!("change the comment on {}#{}", wanted.repo, wanted.number);
    let body = json!({"body": wanted.body});
    match client.patch(&doing, &wanted.comment(&old["id"]), &body) {
        Ok(new) => Ok(PostedComment::of(CommentAction::Updated, &new)),
        // Somebody deleted it just now.
        Err(failure) if failure.is_status(404) && wanted.anything => {
            Ok(PostedComment::of(CommentAction::Created, &create(client, wanted)?))
        }
        Err(failure) => Err(failure),
    }
}

fn create(client: &GithubClient, wanted: &StickyComment<'_>) -> Result<Value, ApiFailure> {
    let word = format!("{WORD}{} -->\n", random_hex());
    debug_assert!(word.len() <= ROOM, "{word:?}");
    let text = format!("{}{word}", wanted.body.trim_end());
    let doing = format!("comment on {}#{}", wanted.repo, wanted.number);
    client.create(&doing, &wanted.comments(), &json!({"body": text}), || {
        let comments = wanted.list(client)?;
        Ok(comments.into_iter().find(|comment| body(comment).contains(word.trim())))
    })
}

/// Deletes what is older. That this did not work is no reason to fail: the new one is there.
fn delete(client: &GithubClient, wanted: &StickyComment<'_>, old: &[&Value]) -> Vec<String> {
    let mut warnings = Vec::new();
    for comment in old {
        let doing = format!("delete an older comment on {}#{}", wanted.repo, wanted.number);
        match client.delete(&doing, &wanted.comment(&comment["id"])) {
            Err(failure) if !failure.is_status(404) => warnings.push(failure.to_string()),
            _ => {}
        }
    }
    warnings
}

/// If an older comment turns out to be of the same author, we did not know who we are.
fn unknown_self(made: &Value, marked: &[Value], ours: &[&Value]) -> Option<String> {
    let me = login(made);
    let same = |comment: &&Value| login(comment) == me && !ours.contains(comment);
    (!me.is_empty() && marked.iter().any(|comment| same(&comment))).then(|| {
        format!("this comment is by {me}, as is an older one with the same key; `--author '{me}'` changes that instead")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMT-03.
    #[test]
    fn a_body_is_the_same_whatever_word_it_ends_with() {
        let word = format!("{WORD}0123456789abcdef -->\n");
        assert!(word.len() <= ROOM);
        assert_eq!(normalized(&format!("a\r\nb{word}")), "a\nb");
        assert_eq!(normalized("a\nb\n"), "a\nb");
        let quoted = format!("a{word}b");
        assert_eq!(normalized(&quoted), quoted);
    }

    /// CMT-04.
    #[test]
    fn a_runner_is_a_bot_and_not_somebody_called_like_one() {
        let by =
            |login: &str, kind: Option<&str>| is_runner(&json!({"user": {"login": login, "type": kind}}));
        assert!(by("github-actions[bot]", Some("Bot")) && by("gitea-actions", None));
        assert!(!by("github-actions[bot]", Some("User")) && !by("gitea-actions", Some("User")));
        assert!(!by("dependabot[bot]", Some("Bot")) && !by("octocat", None));
    }
}
