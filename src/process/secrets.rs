//! Which values of an environment are secrets, or which parts of them.
//!
//! A variable is judged by the words of its name (`AWS_BEARER_TOKEN_BEDROCK`), except for values that are obviously none, and any value by
//! its form: the password in a URL or a connection string is a secret whatever the variable is called.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

/// Words that make the whole value a secret.
const WORDS: [&str; 21] = [
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PW",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "APIKEY",
    "APIKEYS",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "JWT",
    "PAT",
];
/// What stands between the words of a name.
const SEPARATORS: [char; 3] = ['_', '-', '.'];
/// Ends of words that are written without underscores: `PGPASSWORD`, `CLIENTSECRET`.
const WORD_ENDINGS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY"];
/// Names from database clients that have none of these words.
const NAMES: [&str; 1] = ["MYSQL_PWD"];
/// What may follow `KEY`; elsewhere it is any key, such as that of a table. `B` and `BASE` are from `B64` and `BASE64`.
const AFTER_KEY: [&str; 7] = ["ID", "PEM", "B", "BASE", "PROD", "DEV", "TEST"];
/// Last words by which the value is about a secret, and is none.
const ABOUT: [&str; 33] = [
    "FILE",
    "FILENAME",
    "PATH",
    "DIR",
    "SOCK",
    "SOCKET",
    "URL",
    "URI",
    "HOST",
    "PORT",
    "ENDPOINT",
    "DOMAIN",
    "REGION",
    "ISSUER",
    "AUDIENCE",
    "NAME",
    "USER",
    "USERNAME",
    "TYPE",
    "METHOD",
    "MODE",
    "PROVIDER",
    "HELPER",
    "FORMAT",
    "ALGORITHM",
    "VERSION",
    "PERMISSIONS",
    "SCOPES",
    "LIMIT",
    "TTL",
    "EXPIRY",
    "ENABLED",
    "REQUIRED",
];
/// Values that are settings.
const SETTINGS: [&str; 12] = [
    "disabled",
    "enabled",
    "required",
    "optional",
    "default",
    "always",
    "inherit",
    "manual",
    "automatic",
    "oauth2",
    "public",
    "private",
];
/// Headers whose values are no secrets.
const PLAIN_HEADERS: [&str; 10] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "user-agent",
];
/// The same as for whole values, in [`super::redact`].
const MIN_LEN: usize = 6;

/// A secret of the environment.
#[derive(Debug, PartialEq, Eq)]
pub enum SecretValue<'v> {
    /// All of it, and each of its lines.
    Whole(&'v [u8]),
    /// A part, by itself.
    Part(Vec<u8>),
}

/// The secrets in a variable.
pub fn secrets_in<'v>(name: &OsStr, value: &'v [u8]) -> Vec<SecretValue<'v>> {
    let name = name.to_string_lossy();
    let text = std::str::from_utf8(value).unwrap_or_default();
    let mut parts = url_secrets(text);
    let mut found = Vec::new();
    // The pairs of a list of headers have separators of their own.
    if !is_header_list(&name) {
        parts.extend(pair_secrets(text));
    }
    if is_header_list(&name) {
        match header_values(text) {
            values if values.is_empty() => found.push(SecretValue::Whole(value)),
            values => parts.extend(values),
        }
    } else if is_secret_name(&name) && !is_plain_value(&name, text) {
        found.push(SecretValue::Whole(value));
        if let Ok(json) = serde_json::from_str::<Value>(text) {
            json_secrets(&json, &mut parts);
        }
    }
    let parts = parts.into_iter().filter(|part| part.len() >= MIN_LEN);
    found.extend(parts.map(|part| SecretValue::Part(part.into_bytes())));
    found
}

/// Whether a variable holds a secret, or has the name of one.
pub fn holds_secret(name: &OsStr, value: &OsStr) -> bool {
    is_secret_name(&name.to_string_lossy()) || !secrets_in(name, value.as_bytes()).is_empty()
}

/// Whether a variable of this name holds a secret, by its words with or without the borders inside of them: `secretThing` has one,
/// and `passWord` is one.
fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let whole: Vec<&str> = upper.split(SEPARATORS).filter(|word| !word.is_empty()).collect();
    let split = split_words(name);
    let split: Vec<&str> = split.iter().map(String::as_str).collect();
    let Some(last) = split.last() else { return false };
    if NAMES.contains(&upper.as_str()) {
        return true;
    }
    let numbered = split.iter().rev().find(|word| !is_number(word));
    if split.contains(&"WEBHOOK") && matches!(numbered, Some(&("URL" | "URI" | "WEBHOOK"))) {
        return true;
    }
    if ABOUT.contains(last) {
        return false;
    }
    let is_secret = |word: &&str| WORDS.contains(word) || WORD_ENDINGS.iter().any(|end| word.ends_with(end));
    split.iter().chain(&whole).any(is_secret) || is_key(&split)
}

/// The words of a name in upper case: between separators, and at borders between digits and letters and from a small to a capital
/// letter.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let is_border = before.is_ascii_digit() != c.is_ascii_digit()
            || (before.is_ascii_lowercase() && c.is_ascii_uppercase());
        if is_border || SEPARATORS.contains(&c) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !SEPARATORS.contains(&c)) {
            word.push(c.to_ascii_uppercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the words name a key that opens something: `API_KEY`, `API_KEYS`, `PRIVATE_KEY_PEM`, `API_KEY_2`.
fn is_key(words: &[&str]) -> bool {
    let is_end = |word: &&&str| AFTER_KEY.contains(word) || is_number(word);
    let ends = words.iter().rev().take_while(is_end).count();
    let before = &words[..words.len() - ends];
    before.len() > 1 && matches!(before.last(), Some(&("KEY" | "KEYS")))
}

/// Whether a value is no secret although the name is one's: a setting, a number of tokens, or the path of a file.
fn is_plain_value(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.to_ascii_uppercase();
    let counts = name.ends_with("TOKENS") || name.ends_with("KEYS");
    let has_root = ["/", "./", "../", "~/"].iter().any(|root| value.starts_with(root));
    // A key in base64 may begin with a slash, but has no dot.
    let is_path = has_root && !value.contains(['\n', '+', '=']) && (value.contains('.') || exists(value));
    SETTINGS.contains(&value.to_ascii_lowercase().as_str()) || (is_number && counts) || is_path
}

fn exists(path: &str) -> bool {
    std::path::Path::new(path).symlink_metadata().is_ok()
}

fn is_header_list(name: &str) -> bool {
    matches!(split_words(name).last().map(String::as_str), Some("HEADERS" | "HEADER"))
}

/// The values in `Name: value` lines, or in `name=value,name=value`.
fn header_values(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    for line in text.lines() {
        let pairs: Vec<(&str, &str)> = match line.split_once(':') {
            Some(pair) if !pair.0.contains(['=', ',']) => vec![pair],
            _ => line.split(',').filter_map(|pair| pair.split_once('=')).collect(),
        };
        for (name, value) in pairs {
            let value = value.trim();
            if PLAIN_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str()) {
                continue;
            }
            values.push(value.to_owned());
            // `Bearer …`, `Basic …`: the second word is the secret, also without the first.
            values.extend(value.split_once(' ').map(|(_, word)| word.trim().to_owned()));
            values.extend(percent_decoded(value));
        }
    }
    values
}

/// Passwords in URLs, and what stands for one: `scheme://user:password@host`, `https://token@host`.
fn url_secrets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let scheme =
            rest[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next().unwrap_or_default();
        rest = &rest[at + 3..];
        let end = rest.find(['/', '?', '#', ' ', '\n', '"', '\'', '>', ',']).unwrap_or(rest.len());
        let Some((user_info, _)) = rest[..end].rsplit_once('@') else { continue };
        let secret = match user_info.split_once(':') {
            Some((user, "")) | Some((user, "x-oauth-basic")) => user,
            Some((_, password)) => password,
            None if scheme.starts_with("http") => user_info,
            None => continue,
        };
        found.push(secret.to_owned());
        found.extend(percent_decoded(secret));
    }
    found
}

/// Passwords in connection strings: `…;AccountKey=…;`, `host=x password=y`.
fn pair_secrets(text: &str) -> Vec<String> {
    let pairs = text.split([';', ' ', '\n', '&', '?']).filter_map(|pair| pair.split_once('='));
    let secret = pairs.filter(|(key, _)| {
        let key: String =
            key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase();
        matches!(key.as_str(), "PWD" | "SIG")
            || key.ends_with("ACCOUNTKEY")
            || key.ends_with("ACCESSKEY")
            || WORD_ENDINGS.iter().any(|end| key.ends_with(end))
    });
    secret.map(|(_, value)| value.trim_matches(['"', '\'']).to_owned()).collect()
}

/// The texts in a JSON value whose key has the name of a secret.
fn json_secrets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_key = key.eq_ignore_ascii_case("key");
                match value {
                    Value::String(text) if is_key || is_secret_name(key) => found.push(text.clone()),
                    value => json_secrets(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| json_secrets(value, found)),
        _ => {}
    }
}

/// The text without its percent escapes, if it has any.
fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok().filter(|decoded| decoded != text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str, value: &str) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = secrets_in(name.as_ref(), value.as_bytes());
        found
            .iter()
            .map(|secret| match secret {
                SecretValue::Whole(bytes) => format!("all of {}", text(bytes)),
                SecretValue::Part(bytes) => text(bytes),
            })
            .collect()
    }

    #[test]
    fn a_name_is_judged_by_its_words() {
        for name in [
            "A_TOKEN",
            "b_key",
            "C_Secret",
            "AWS_BEARER_TOKEN_BEDROCK",
            "PGPASSWORD",
            "MYSQL_PWD",
            "DB_PASS",
            "REDIS_PW",
            "REDISCLI_AUTH",
            "APIKEY",
            "API_KEYS",
            "AWS_ACCESS_KEY_ID",
            "SSH_PRIVATE_KEY_PEM",
            "OPENAI_API_KEY_2",
            "CLIENTSECRET",
            "GH_PAT",
            "SLACK_WEBHOOK_URL",
            "DOCKER_AUTH_CONFIG",
            "ANTHROPIC_AUTH_TOKEN",
            "DEEPSEEK_API_KEY1",
            "secretThing",
            "apiKey",
            "PassWord",
            "PASSWORD2",
            "A1_KEY_B64",
            "TOKEN_OF_USER2",
            "HOOK_WEBHOOK_URL2",
        ] {
            assert_eq!(parts(name, "a-value"), ["all of a-value"], "{name}");
        }
        for name in [
            "KEYS",
            "KEY",
            "MONKEY",
            "KEYBOARD",
            "TURKEY2",
            "KEY1",
            "tokenUrl",
            "xPath2",
            "PATH",
            "AUTHOR_NAME",
            "TOKENIZERS_PARALLELISM",
            "SSH_AUTH_SOCK",
            "PRIMARY_KEY_COLUMN",
            "GITHUB_TOKEN_PERMISSIONS",
            "F_TOKEN_FILE",
            "ACTIONS_ID_TOKEN_REQUEST_URL",
            "OAUTH_CLIENT_ID",
            "PWD",
            "BYPASS",
            "PASS_FILE",
            "",
        ] {
            assert!(parts(name, "a-value").is_empty(), "{name}");
        }
    }

    #[test]
    fn a_value_that_is_obviously_no_secret_is_none() {
        for (name, value) in [
            ("USE_TOKEN", "disabled"),
            ("MAX_TOKENS", "1234567"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/x/key.json"),
            ("A_SECRET", "/dev/null"),
        ] {
            assert!(parts(name, value).is_empty(), "{name}");
        }
        assert_eq!(parts("A_PASSWORD", "1234567"), ["all of 1234567"]);
        assert_eq!(parts("AWS_SECRET_ACCESS_KEY", "/abc/Def+123=").len(), 1);
        assert_eq!(parts("A_KEY", "/abc/Def123").len(), 1, "base64 has slashes");
    }

    #[test]
    fn a_value_is_judged_by_its_form_too() {
        assert_eq!(parts("DATABASE_URL", "postgres://app:p%40ssword@db/app?x=1"), ["p%40ssword", "p@ssword"]);
        assert_eq!(parts("X", "https://ghp_123456@github.com/a/b"), ["ghp_123456"]);
        assert_eq!(parts("X", "redis://:hunter22@cache:6379/0"), ["hunter22"]);
        assert_eq!(parts("X", "a=1 Password=hunter22;Server=db"), ["hunter22"]);
        assert_eq!(parts("X", "https://x/?sig=abcdef123&y=1"), ["abcdef123"]);
        for plain in ["https://example.com/a@b/c", "ssh://someone@host/x", "user@host:path", "a=b;c=d"] {
            assert!(parts("X", plain).is_empty(), "{plain}");
        }
    }

    #[test]
    fn headers_are_secret_one_by_one() {
        assert_eq!(
            parts(
                "ANTHROPIC_CUSTOM_HEADERS",
                "X-Auth: word-1234\nContent-Type: application/json\nAuthorization: Bearer abcdef12"
            ),
            ["word-1234", "Bearer abcdef12", "abcdef12"]
        );
        assert_eq!(parts("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc%20defg,x=1"), ["abc%20defg", "abc defg"]);
        assert_eq!(parts("MY_HEADER", "abcdefgh"), ["all of abcdefgh"]);
        assert_eq!(
            parts("A_CREDENTIALS", r#"{"a":{"private_key":"abcdefgh","type":"service"}}"#)[1],
            "abcdefgh"
        );
    }
}
