//! The one table of config keys: the name of each, how its value is parsed, and which field it sets.

use std::path::PathBuf;
use std::time::Duration;

use super::settings::{Config, OnNoChange};
use crate::checkpoint::ignore::PatternList;
use crate::project::RoutineName;
use crate::project::units::{parse_duration, parse_size};
use crate::yaml::{ScalarKind, YamlNode, YamlValue};

/// A key, with its section before the dot, and the function that sets its field.
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    pub(super) set: fn(&mut Config, &YamlNode) -> Result<(), BadValue>,
}

/// Why a value is rejected.
#[derive(Debug)]
pub(super) struct BadValue {
    /// The text after the key's name in the message.
    pub(super) reason: String,
    pub(super) hint: Option<String>,
    /// The index in a list, if the value is one.
    pub(super) item: Option<usize>,
}

pub(super) type ValueResult<T> = Result<T, BadValue>;

/// A larger number of retries or messages in a chain is a typing mistake.
const MAX_COUNT: u64 = 1000;

pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey { name: "commands.router", set: |c, v| assign(&mut c.commands.router, text(v)) },
    ConfigKey { name: "commands.ai", set: |c, v| assign(&mut c.commands.ai, text(v)) },
    ConfigKey {
        name: "max_retries",
        set: |c, v| assign(&mut c.max_retries, number(v, 0, MAX_COUNT).map(to_u32)),
    },
    ConfigKey {
        name: "max_depth",
        set: |c, v| assign(&mut c.max_depth, number(v, 1, MAX_COUNT).map(to_u32)),
    },
    ConfigKey { name: "default_routine", set: |c, v| assign(&mut c.default_routine, routine(v)) },
    ConfigKey { name: "notebook_support", set: |c, v| assign(&mut c.notebook_support, boolean(v)) },
    ConfigKey { name: "timeout", set: |c, v| assign(&mut c.timeout, duration(v)) },
    ConfigKey { name: "retry_delay", set: |c, v| assign(&mut c.retry_delay, duration(v)) },
    ConfigKey { name: "verify", set: |c, v| assign(&mut c.verify, text(v)) },
    ConfigKey { name: "on_no_change", set: |c, v| assign(&mut c.on_no_change, on_no_change(v)) },
    ConfigKey { name: "hooks.before_all", set: |c, v| assign(&mut c.hooks.before_all, text(v)) },
    ConfigKey { name: "hooks.before_each", set: |c, v| assign(&mut c.hooks.before_each, text(v)) },
    ConfigKey { name: "hooks.after_each", set: |c, v| assign(&mut c.hooks.after_each, text(v)) },
    ConfigKey { name: "hooks.after_all", set: |c, v| assign(&mut c.hooks.after_all, text(v)) },
    ConfigKey { name: "routine_paths", set: |c, v| assign(&mut c.routine_paths, list(v, path)) },
    ConfigKey { name: "budget.usd", set: |c, v| assign(&mut c.budget.usd, amount(v)) },
    ConfigKey { name: "budget.time", set: |c, v| assign(&mut c.budget.time, duration(v)) },
    ConfigKey {
        name: "budget.attempts",
        set: |c, v| assign(&mut c.budget.attempts, number(v, 0, u32::MAX.into()).map(to_u32)),
    },
    ConfigKey { name: "log_limit", set: |c, v| assign(&mut c.log_limit, size(v)) },
    ConfigKey { name: "sensitive.exclude", set: |c, v| assign(&mut c.sensitive.exclude, list(v, pattern)) },
    ConfigKey { name: "sensitive.allow", set: |c, v| assign(&mut c.sensitive.allow, list(v, pattern)) },
    ConfigKey { name: "policy.allow", set: |c, v| assign(&mut c.policy.allow, list(v, pattern)) },
    ConfigKey { name: "policy.deny", set: |c, v| assign(&mut c.policy.deny, list(v, pattern)) },
    ConfigKey {
        name: "policy.max_files",
        set: |c, v| assign(&mut c.policy.max_files, number(v, 0, u64::MAX)),
    },
    ConfigKey { name: "policy.max_bytes", set: |c, v| assign(&mut c.policy.max_bytes, size(v)) },
    ConfigKey { name: "pass_env", set: |c, v| assign(&mut c.pass_env, list(v, variable)) },
];

pub(super) fn assign<T>(field: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    *field = value?;
    Ok(())
}

fn reject<T>(reason: impl Into<String>) -> ValueResult<T> {
    Err(BadValue { reason: reason.into(), hint: None, item: None })
}

fn must_be<T>(expected: &str, node: &YamlNode) -> ValueResult<T> {
    reject(format!("must be {expected}, not {}", node.describe()))
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).expect("the range was checked")
}

fn text(node: &YamlNode) -> ValueResult<String> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text, text) if text.contains('\0') => reject("must not contain a NUL"),
        YamlValue::Scalar(ScalarKind::Text, text) => Ok(text.clone()),
        YamlValue::Scalar(_, literal) => {
            let hint = format!("put it in quotes if it is meant as text: \"{literal}\"");
            must_be("text", node).map_err(|bad| BadValue { hint: Some(hint), ..bad })
        }
        _ => must_be("text", node),
    }
}

fn number(node: &YamlNode, min: u64, max: u64) -> ValueResult<u64> {
    let YamlValue::Scalar(ScalarKind::Number, text) = &node.value else {
        return must_be("a whole number", node);
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return must_be("a whole number", node);
    }
    match text.parse::<u64>() {
        Ok(number) if number < min => reject(format!("must be at least {min}, not {text}")),
        Ok(number) if number <= max => Ok(number),
        _ if text.starts_with('-') => reject(format!("must not be negative: {text}")),
        _ => reject(format!("must be at most {max}, not {text}")),
    }
}

fn amount(node: &YamlNode) -> ValueResult<f64> {
    let YamlValue::Scalar(ScalarKind::Number, text) = &node.value else {
        return must_be("an amount in US dollars", node);
    };
    match text.parse::<f64>() {
        Ok(amount) if amount < 0.0 => reject(format!("must not be negative: {text}")),
        // `abs` turns -0 into 0, which would be printed with its sign.
        Ok(amount) if amount.is_finite() => Ok(amount.abs()),
        _ => must_be("an amount in US dollars", node),
    }
}

fn boolean(node: &YamlNode) -> ValueResult<bool> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Bool, text) => Ok(text.eq_ignore_ascii_case("true")),
        _ => must_be("true or false", node),
    }
}

pub(super) fn duration(node: &YamlNode) -> ValueResult<Duration> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text | ScalarKind::Number, text) => quantity(parse_duration(text)),
        _ => must_be("a time such as '90s' or '1h30m'", node),
    }
}

fn size(node: &YamlNode) -> ValueResult<u64> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text | ScalarKind::Number, text) => quantity(parse_size(text)),
        _ => must_be("a size such as '20MiB' or '500kB'", node),
    }
}

fn quantity<T>(value: Result<T, String>) -> ValueResult<T> {
    value.or_else(|why| reject(format!("is not valid: {why}")))
}

fn on_no_change(node: &YamlNode) -> ValueResult<OnNoChange> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text, text) if text == "accept" => Ok(OnNoChange::Accept),
        YamlValue::Scalar(ScalarKind::Text, text) if text == "retry" => Ok(OnNoChange::Retry),
        _ => must_be("'accept' or 'retry'", node),
    }
}

fn routine(node: &YamlNode) -> ValueResult<String> {
    let name = text(node)?;
    match RoutineName::parse(&name) {
        Ok(_) => Ok(name),
        Err(why) => reject(format!("is not a routine name: {why}")),
    }
}

fn list<T>(node: &YamlNode, parse: fn(&YamlNode) -> ValueResult<T>) -> ValueResult<Vec<T>> {
    let YamlValue::List(items) = &node.value else {
        return must_be("a list", node);
    };
    let items = items.iter().enumerate();
    items.map(|(i, item)| parse(item).map_err(|bad| BadValue { item: Some(i), ..bad })).collect()
}

pub(super) fn non_empty(node: &YamlNode) -> ValueResult<String> {
    match text(node)? {
        text if text.trim().is_empty() => reject("must not be an empty text"),
        text => Ok(text),
    }
}

fn path(node: &YamlNode) -> ValueResult<PathBuf> {
    non_empty(node).map(PathBuf::from)
}

fn pattern(node: &YamlNode) -> ValueResult<String> {
    let pattern = non_empty(node)?;
    // A pattern that can match nothing would silently protect nothing.
    if pattern.contains('\n') || PatternList::parse(pattern.as_bytes()).is_empty() {
        return reject(format!("has an entry that is no ignore pattern: {}", node.describe()));
    }
    Ok(pattern)
}

fn variable(node: &YamlNode) -> ValueResult<String> {
    let name = non_empty(node)?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        return reject(format!("must be names of environment variables, not {}", node.describe()));
    }
    Ok(name)
}
