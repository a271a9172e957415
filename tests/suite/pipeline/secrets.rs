//! Which values of the environment are secrets: masked in every place that people and programs read.

use super::pipeline_project::PipelineProject;
use crate::harness::temp_dir;

/// Name, value, and what of the value is secret.
const SECRETS: [(&str, &str, &[&str]); 22] = [
    ("AWS_BEARER_TOKEN_BEDROCK", "bedrock-bearer-0001", &["bedrock-bearer-0001"]),
    (
        "ANTHROPIC_CUSTOM_HEADERS",
        "X-Gateway-Auth: gateway-word-0002\nX-Team: team-name-0003",
        &["gateway-word-0002", "team-name-0003"],
    ),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=Bearer otel-word-0004,x-tenant=tenant-0005",
        &["otel-word-0004", "tenant-0005"],
    ),
    ("DATABASE_URL", "postgres://app:db-word-0006@db.example/app", &["db-word-0006"]),
    ("SENTRY_DSN", "https://sentry-word-0007@o1.ingest.example/42", &["sentry-word-0007"]),
    ("PIP_INDEX_URL", "https://user:index-word-0008@pypi.example/simple", &["index-word-0008"]),
    ("MONGO_CONNECTION_STRING", "AccountEndpoint=https://x;AccountKey=conn-word-0009;", &["conn-word-0009"]),
    ("MY_SECRET_VALUE", "secret-value-0010", &["secret-value-0010"]),
    ("APIKEY", "apikey-word-0011", &["apikey-word-0011"]),
    ("OPENAI_APIKEY_2", "apikey-word-0012", &["apikey-word-0012"]),
    ("GH_PASSWD", "passwd-word-0013", &["passwd-word-0013"]),
    ("NPM_AUTH", "npm-auth-0014", &["npm-auth-0014"]),
    ("GOOGLE_CREDENTIALS", "{\"private_key\": \"google-word-0015\"}", &["google-word-0015"]),
    ("SSH_PRIVATE_KEY_PEM", "pem-word-0016", &["pem-word-0016"]),
    ("azure_client_secret_id", "azure-word-0017", &["azure-word-0017"]),
    ("SERVICE_PASSPHRASE", "pass-phrase-0018", &["pass-phrase-0018"]),
    ("DEEPSEEK_API_KEY1", "deepseek-word-0020", &["deepseek-word-0020"]),
    ("secretThing", "camel-word-0021", &["camel-word-0021"]),
    ("openaiApiKey2", "camel-word-0022", &["camel-word-0022"]),
    ("TOKEN2", "token-word-0023", &["token-word-0023"]),
    ("dbPassWord", "camel-word-0024", &["camel-word-0024"]),
    ("DOCKER_AUTH_CONFIG", "{\"auths\":{\"r\":{\"auth\":\"docker-word-0019\"}}}", &["docker-word-0019"]),
];

/// Harmless although the name has a word of a secret.
const HARMLESS: [(&str, &str); 16] = [
    ("GITHUB_TOKEN_PERMISSIONS", "contents-read-only-0100"),
    ("SSH_AUTH_SOCK", "/run/agent-0101/socket"),
    ("KEYBOARD_LAYOUT", "dvorak-0102"),
    ("MAX_TOKENS", "1234567"),
    ("AUTHOR_NAME", "author-0103"),
    ("TOKENIZERS_PARALLELISM", "tokenizers-0104"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/x/cred-0105.json"),
    ("SECRET_FILE", "./secrets-0106/file"),
    ("PUBLIC_URL", "https://example.com/page-0107"),
    ("USE_TOKEN", "disabled"),
    ("MONKEY", "banana-0108"),
    ("KEYBOARD", "qwerty-0109"),
    ("TURKEY2", "gobble-0110"),
    ("tokenUrl", "token-url-0111"),
    ("monkeyBusiness", "business-0112"),
    ("KEY1", "column-one-0113"),
];

/// A routine that prints all of them, the first time with a failure, and writes one into a file.
const PRINTS: &str = r#"
for name in $NAMES; do printf '%s is <%s>\n' "$name" "${!name}"; done
echo "$AWS_BEARER_TOKEN_BEDROCK" >leaked.txt
echo "error: ${AWS_BEARER_TOKEN_BEDROCK} and ${ANTHROPIC_CUSTOM_HEADERS}"
exit 1
"#;

fn environment() -> Vec<(&'static str, String)> {
    let names: Vec<&str> = SECRETS.iter().map(|it| it.0).chain(HARMLESS.iter().map(|it| it.0)).collect();
    let mut list = vec![("NAMES", names.join(" "))];
    list.extend(SECRETS.iter().map(|(name, value, _)| (*name, (*value).to_owned())));
    list.extend(HARMLESS.iter().map(|(name, value)| (*name, (*value).to_owned())));
    list
}

#[track_caller]
fn assert_masked(place: &str, text: &str) {
    for (name, _, parts) in SECRETS {
        for part in parts {
            assert!(!text.contains(part), "{name} is in {place}: {text}");
        }
    }
}

/// RUN-41.
#[test]
fn a_value_is_masked_by_the_words_in_its_name() {
    let project = PipelineProject::with(PRINTS);
    project.config("max_retries: 1\n").spec("01-x", "Do\n");
    let environment = environment();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = project.decree_with_env(&["process"], &environment).fails(1);
    assert_masked("the terminal", &output.err);
    assert_masked("the closing report", &output.text());
    let id = project.only_run();
    let log = project.of_run(&id, "routine.log");
    assert_masked("the log", &log);
    for (name, value) in HARMLESS {
        assert!(log.contains(&format!("{name} is <{value}>")), "{name} is masked: {log}");
    }
    // What is not secret of a value is still there.
    for shown in [
        "DATABASE_URL is <postgres://app:***@db.example/app>",
        "SENTRY_DSN is <https://***@o1.ingest.example/42>",
        "ANTHROPIC_CUSTOM_HEADERS is <X-Gateway-Auth: ***\nX-Team: ***>",
        "AWS_BEARER_TOKEN_BEDROCK is <***>",
    ] {
        assert!(log.contains(shown), "{shown:?} is not in {log}");
    }
    for file in ["failure-context.md", "result.json", "message.md", "attempts/1/routine.log"] {
        assert_masked(file, &project.of_run(&id, file));
    }
    assert_masked("summary.json", &project.text(".decree/summary.json"));
    assert_masked("the dead letter", &project.text(&format!(".decree/inbox/dead/{}.md", project.dead()[0])));
    for args in [
        &["log", &id][..],
        &["status"],
        &["report"],
        &["report", "--format", "markdown"],
        &["report", "--format", "html"],
        &["report", "--format", "json"],
        &["comment", "--dry-run", "--key", "k"],
    ] {
        assert_masked(&args.join(" "), &project.decree_with_env(args, &environment).ok().text());
    }
    let dir = temp_dir();
    let target = dir.path().join("artifact");
    let staged = project.decree_with_env(&["stage", target.to_str().unwrap()], &environment).ok();
    staged.mentions(&["left out of the artifact", "changes.diff"]);
    for entry in walkdir(&target) {
        assert_masked(
            &entry.display().to_string(),
            &String::from_utf8_lossy(&std::fs::read(&entry).unwrap()),
        );
    }
}

fn walkdir(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walkdir(&path)) } else { found.push(path) }
    }
    found
}

/// RUN-41.
#[test]
fn a_snapshot_of_the_environment_leaves_the_same_names_out() {
    let project = PipelineProject::new();
    let args = [
        "checkpoint",
        "create",
        "--type",
        "state_snapshot",
        "--scope",
        "env:AWS_BEARER_TOKEN_BEDROCK",
        "--scope",
        "env:DATABASE_URL",
        "--scope",
        "env:AUTHOR_NAME",
        "--format",
        "json",
    ];
    let environment = environment();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = project.decree_with_env(&args, &environment).ok();
    assert_masked("the answer", &output.text());
    let id = project.names(".decree/checkpoints")[0].clone();
    let state = project.text(&format!(".decree/checkpoints/{id}/state.json"));
    assert_masked("state.json", &state);
    assert!(state.contains("author-0103"), "{state}");
}

/// SEE-33. What splits a secret on its way to a terminal, and is not seen there, does not hide it.
#[test]
fn a_secret_that_invisible_bytes_split_is_masked_everywhere() {
    let splits = [
        "\\033[0m",
        "\\0",
        "\\b",
        "\\033]0;title\\007",
        "\\r",
        "\\033(B",
        "\\302\\205",
        "\\033[31m\\0\\0\\033[0m",
    ];
    let mut script = String::new();
    for split in splits {
        script
            .push_str(&format!("printf 'split <%s{split}%s>\\n' \"${{A_TOKEN:0:7}}\" \"${{A_TOKEN:7}}\"\n"));
    }
    script.push_str(
        "printf 'late <%s\\033[1m' \"${A_TOKEN:0:7}\"; sleep 0.3; printf '\\033[0m%s>\\n' \"${A_TOKEN:7}\"\n",
    );
    script.push_str("cat \"$message_dir/attempts/1/log-tail.txt\" 2>/dev/null\nexit 1\n");
    let project = PipelineProject::with(&script);
    project.config("max_retries: 1\n").spec("01-x", "Do\n");
    let (secret, halves) = ("word-of-secret-0001", ["word-of", "-secret-0001"]);
    let output = project.decree_with_env(&["process"], &[("A_TOKEN", secret)]).fails(1);
    let id = project.only_run();
    let mut places = vec![
        ("the terminal", output.err),
        ("the plain log without the secret at hand", project.decree(["log", &id]).ok().text()),
        ("the coloured log", project.decree(["log", &id, "--color", "always"]).ok().text()),
    ];
    for file in [
        "attempts/1/routine.log",
        "attempts/1/log-tail.txt",
        "attempts/2/log-tail.txt",
        "failure-context.md",
        "result.json",
    ] {
        places.push((file, project.of_run(&id, file)));
    }
    for (place, text) in places {
        for half in halves {
            assert!(!text.contains(half), "{half} is in {place}: {text:?}");
        }
    }
    let log = project.decree(["log", &id, "--attempt", "1"]).ok().text();
    assert_eq!(log.matches("split <***>\n").count(), splits.len(), "{log}");
    assert!(log.contains("late <***>\n"), "{log}");
}

/// SEE-33. A log that is already there is masked after its escapes are gone, too.
#[test]
fn a_log_is_masked_after_it_was_stripped() {
    let project = PipelineProject::with("echo x >work.txt\n");
    project.spec("01-x", "Do\n").process().ok();
    let id = project.only_run();
    let log = project.path(format!(".decree/runs/{id}/routine.log"));
    std::fs::write(log, "a \x1b]word-of\0-secret-0001\nb word-of\x1b[0m-secret-0001\n").unwrap();
    let text = project.decree_with_env(&["log", &id], &[("A_TOKEN", "word-of-secret-0001")]).ok().text();
    assert_eq!(text, "a ]***\nb ***\n");
}
