//! A sticky comment: found by its hidden marker *and* its author, on any page, and updated in place.
//!
//! Anyone can copy a marker into a comment. So a marker counts only at the very beginning of a comment, and only if this
//! token's user wrote it. A new comment ends with a random post id, by which it is found if the response to its creation is lost.

use serde_json::{Value, json};

use super::client::GithubClient;
use super::failure::ApiFailure;
use super::names::{CommentKey, RepoName};
use crate::fs::random_hex;

/// The bytes to reserve in a body for the post id at its end.
pub const POST_ID_ROOM: usize = 48;
/// The author of comments that are written with a GitHub runner's token.
const GITHUB_BOT: &str = "github-actions[bot]";
/// The same on Gitea and Forgejo.
const OTHER_BOTS: [&str; 2] = ["gitea-actions", "forgejo-actions"];
/// The beginning of the last line of a comment, before the random post id.
const POST_ID: &str = "\n<!-- decree:post ";

/// How to treat existing comments with the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CommentMode {
    /// Update the existing comment, or create one
    #[default]
    Update,
    /// Always create a new comment
    New,
    /// Create a new comment, then delete the older ones
    DeleteOld,
}

/// What a comment is to say.
pub struct CommentContent<'c> {
    pub key: &'c CommentKey,
    /// The whole text, beginning with the marker.
    pub body: &'c str,
    /// The login that the token belongs to, if the caller knows it.
    pub author: Option<&'c str>,
    pub mode: CommentMode,
    /// Whether there is anything to report. If not, an existing comment is updated, but none is created.
    pub has_content: bool,
}

pub struct StickyComment<'c> {
    pub client: &'c GithubClient,
    pub repo: &'c RepoName,
    /// The number of the pull request.
    pub number: u64,
    pub content: &'c CommentContent<'c>,
}

/// What [`StickyComment::post`] did with the comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentAction {
    Created,
    Updated,
    /// The comment had this text already.
    Unchanged,
    /// There is no comment, and none is needed.
    Skipped,
}

/// The comment as [`StickyComment::post`] left it.
#[derive(Debug)]
pub struct PostedComment {
    pub action: CommentAction,
    pub id: Option<u64>,
    /// The web page of the comment.
    pub url: Option<String>,
    pub warnings: Vec<String>,
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
    pub fn post(&self) -> Result<PostedComment, ApiFailure> {
        let marked = self.marked()?;
        let ours = self.ours(&marked)?;
        match (self.content.mode, ours.first()) {
            (_, None) if !self.content.has_content => {
                Ok(PostedComment::of(CommentAction::Skipped, &Value::Null))
            }
            (mode, Some(oldest)) if mode == CommentMode::Update || !self.content.has_content => {
                self.update(oldest)
            }
            (mode, _) => {
                let created = self.create()?;
                let mut result = PostedComment::of(CommentAction::Created, &created);
                if mode == CommentMode::DeleteOld {
                    result.warnings = self.delete(&ours);
                }
                if mode != CommentMode::New {
                    result.warnings.extend(author_mismatch(&created, &marked, &ours));
                }
                Ok(result)
            }
        }
    }

    fn comments(&self) -> String {
        format!("repos/{}/issues/{}/comments", self.repo, self.number)
    }

    fn comment(&self, id: &Value) -> String {
        format!("repos/{}/issues/comments/{id}", self.repo)
    }

    fn list(&self) -> Result<Vec<Value>, ApiFailure> {
        self.client.list(&format!("list the comments of {}#{}", self.repo, self.number), &self.comments())
    }

    /// All comments that begin with the marker, oldest first.
    fn marked(&self) -> Result<Vec<Value>, ApiFailure> {
        let marker = self.content.key.marker();
        let mut comments = self.list()?;
        comments.retain(|comment| body(comment).starts_with(&marker));
        comments.sort_by_key(|comment| comment["id"].as_u64());
        Ok(comments)
    }

    /// The marked comments that this token's user wrote.
    fn ours<'m>(&self, marked: &'m [Value]) -> Result<Vec<&'m Value>, ApiFailure> {
        if marked.is_empty() {
            return Ok(Vec::new());
        }
        let author = match self.content.author {
            Some(author) => Some(author.to_owned()),
            None => self.token_login()?,
        };
        let is_ours = |comment: &&Value| match &author {
            Some(author) => login(comment).eq_ignore_ascii_case(author),
            None => is_runner(comment),
        };
        Ok(marked.iter().filter(is_ours).collect())
    }

    /// The login of the token's user. GitHub does not return one for a runner's own token.
    fn token_login(&self) -> Result<Option<String>, ApiFailure> {
        match self.client.get("look up the user of the token", "user") {
            Ok(user) => Ok(user["login"].as_str().map(str::to_owned)),
            Err(failure) if failure.is_status(&[401, 403, 404]) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn update(&self, old: &Value) -> Result<PostedComment, ApiFailure> {
        if normalized(body(old)) == normalized(self.content.body) {
            return Ok(PostedComment::of(CommentAction::Unchanged, old));
        }
        let operation = format!("change the comment on {}#{}", self.repo, self.number);
        match self.client.patch(&operation, &self.comment(&old["id"]), &json!({"body": self.content.body})) {
            Ok(new) => Ok(PostedComment::of(CommentAction::Updated, &new)),
            // A concurrent process or a user has just deleted it.
            Err(failure) if failure.is_status(&[404]) && self.content.has_content => {
                Ok(PostedComment::of(CommentAction::Created, &self.create()?))
            }
            Err(failure) => Err(failure),
        }
    }

    fn create(&self) -> Result<Value, ApiFailure> {
        let post_id = format!("{POST_ID}{} -->\n", random_hex());
        debug_assert!(post_id.len() <= POST_ID_ROOM, "{post_id:?}");
        let text = format!("{}{post_id}", self.content.body.trim_end());
        let operation = format!("comment on {}#{}", self.repo, self.number);
        self.client.create(&operation, &self.comments(), &json!({"body": text}), || {
            Ok(self.list()?.into_iter().find(|comment| body(comment).contains(post_id.trim())))
        })
    }

    /// Deletes older comments. A failure is only a warning, because the new comment exists.
    fn delete(&self, old: &[&Value]) -> Vec<String> {
        let operation = format!("delete an older comment on {}#{}", self.repo, self.number);
        let delete = |comment: &&Value| self.client.delete(&operation, &self.comment(&comment["id"])).err();
        let failures = old.iter().filter_map(delete).filter(|failure| !failure.is_status(&[404]));
        failures.map(|failure| failure.to_string()).collect()
    }
}

fn is_runner(comment: &Value) -> bool {
    match comment["user"]["type"].as_str() {
        Some(kind) => kind == "Bot" && login(comment) == GITHUB_BOT,
        // Only Gitea and Forgejo return no type; on GitHub any user could have the name of their bots.
        None => OTHER_BOTS.contains(&login(comment)),
    }
}

fn login(comment: &Value) -> &str {
    comment["user"]["login"].as_str().unwrap_or_default()
}

fn body(comment: &Value) -> &str {
    comment["body"].as_str().unwrap_or_default()
}

/// A body in comparable form: without its post id, and with the line ends that servers rewrite made uniform.
fn normalized(body: &str) -> String {
    let body = body.replace("\r\n", "\n");
    let end = body.rfind(POST_ID).filter(|at| !body[at + POST_ID.len()..].trim_end().contains('\n'));
    body[..end.unwrap_or(body.len())].trim_end().to_owned()
}

/// Warns if the new comment's author also wrote an older one that was not recognised as ours.
fn author_mismatch(created: &Value, marked: &[Value], ours: &[&Value]) -> Option<String> {
    let me = login(created);
    let same = |comment: &&Value| login(comment) == me && !ours.contains(comment);
    (!me.is_empty() && marked.iter().any(|comment| same(&comment))).then(|| {
        format!(
            "{me} also wrote an older comment with the same key; `--author '{me}'` updates that one instead"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_same_whatever_post_id_it_ends_with() {
        let post_id = format!("{POST_ID}0123456789abcdef -->\n");
        assert!(post_id.len() <= POST_ID_ROOM);
        assert_eq!(normalized(&format!("a\r\nb{post_id}")), "a\nb");
        assert_eq!(normalized("a\nb\n"), "a\nb");
        let quoted = format!("a{post_id}b");
        assert_eq!(normalized(&quoted), quoted);
    }

    #[test]
    fn a_runner_is_a_bot_and_not_a_user_with_its_name() {
        let by =
            |login: &str, kind: Option<&str>| is_runner(&json!({"user": {"login": login, "type": kind}}));
        assert!(by("github-actions[bot]", Some("Bot")) && by("gitea-actions", None));
        assert!(!by("github-actions[bot]", Some("User")) && !by("gitea-actions", Some("User")));
        assert!(!by("dependabot[bot]", Some("Bot")) && !by("octocat", None));
    }
}
