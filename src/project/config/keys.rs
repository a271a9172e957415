//! The one table of keys: what each is called, what it may hold, and where that goes.

use std::path::PathBuf;
use std::time::Duration;

use super::settings::{Config, OnNoChange};
use crate::checkpoint::ignore::PatternList;
use crate::project::RoutineName;
use crate::project::units::{parse_duration, parse_size};
use crate::yaml::{ScalarKind, YamlNode, YamlValue};

/// A key with its section before the dot, and how its value is taken.
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    pub(super) set: fn(&mut Config, &YamlNode) -> Result<(), BadValue>,
}

/// Why a value is not taken.
#[derive(Debug)]
pub(super) struct BadValue {
    /// What comes after the key's name in the message.
    pub(super) reason: String,
    pub(super) hint: Option<String>,
    /// Which entry of a list it is about.
    pub(super) item: Option<usize>,
}

pub(super) type ValueResult<T> = Result<T, BadValue>;

/// More would be a slip of the finger: the numbers are counted up to.
const MOST: u64 = 1000;

pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey { name: "commands.router", set: |c, v| put(&mut c.commands.router, text(v)) },
    ConfigKey { name: "commands.ai", set: |c, v| put(&mut c.commands.ai, text(v)) },
    ConfigKey { name: "max_retries", set: |c, v| put(&mut c.max_retries, number(v, 0, MOST).map(small)) },
    ConfigKey { name: "max_depth", set: |c, v| put(&mut c.max_depth, number(v, 1, MOST).map(small)) },
    ConfigKey { name: "default_routine", set: |c, v| put(&mut c.default_routine, routine(v)) },
    ConfigKey { name: "notebook_support", set: |c, v| put(&mut c.notebook_support, yes_or_no(v)) },
    ConfigKey { name: "timeout", set: |c, v| put(&mut c.timeout, duration(v)) },
    ConfigKey { name: "retry_delay", set: |c, v| put(&mut c.retry_delay, duration(v)) },
    ConfigKey { name: "verify", set: |c, v| put(&mut c.verify, text(v)) },
    ConfigKey { name: "on_no_change", set: |c, v| put(&mut c.on_no_change, on_no_change(v)) },
    ConfigKey { name: "hooks.before_all", set: |c, v| put(&mut c.hooks.before_all, text(v)) },
    ConfigKey { name: "hooks.before_each", set: |c, v| put(&mut c.hooks.before_each, text(v)) },
    ConfigKey { name: "hooks.after_each", set: |c, v| put(&mut c.hooks.after_each, text(v)) },
    ConfigKey { name: "hooks.after_all", set: |c, v| put(&mut c.hooks.after_all, text(v)) },
    ConfigKey { name: "routine_paths", set: |c, v| put(&mut c.routine_paths, list(v, path)) },
    ConfigKey { name: "budget.usd", set: |c, v| put(&mut c.budget.usd, amount(v)) },
    ConfigKey { name: "budget.time", set: |c, v| put(&mut c.budget.time, duration(v)) },
    ConfigKey {
        name: "budget.attempts",
        set: |c, v| put(&mut c.budget.attempts, number(v, 0, u32::MAX.into()).map(small)),
    },
    ConfigKey { name: "log_limit", set: |c, v| put(&mut c.log_limit, size(v)) },
    ConfigKey { name: "sensitive.exclude", set: |c, v| put(&mut c.sensitive.exclude, list(v, pattern)) },
    ConfigKey { name: "sensitive.allow", set: |c, v| put(&mut c.sensitive.allow, list(v, pattern)) },
    ConfigKey { name: "policy.allow", set: |c, v| put(&mut c.policy.allow, list(v, pattern)) },
    ConfigKey { name: "policy.deny", set: |c, v| put(&mut c.policy.deny, list(v, pattern)) },
    ConfigKey { name: "policy.max_files", set: |c, v| put(&mut c.policy.max_files, number(v, 0, u64::MAX)) },
    ConfigKey { name: "policy.max_bytes", set: |c, v| put(&mut c.policy.max_bytes, size(v)) },
    ConfigKey { name: "pass_env", set: |c, v| put(&mut c.pass_env, list(v, variable)) },
];

pub(super) fn put<T>(place: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    *place = value?;
    Ok(())
}

fn refuse<T>(reason: impl Into<String>) -> ValueResult<T> {
    Err(BadValue { reason: reason.into(), hint: None, item: None })
}

fn must_be<T>(what: &str, node: &YamlNode) -> ValueResult<T> {
    refuse(format!("must be {what}, not {}", node.describe()))
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("the range was checked")
}

fn text(node: &YamlNode) -> ValueResult<String> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text, text) if text.contains('\0') => refuse("must not contain a NUL"),
        YamlValue::Scalar(ScalarKind::Text, text) => Ok(text.clone()),
        YamlValue::Scalar(_, literal) => {
            let hint = format!("write it in quotes if it is meant as text: \"{literal}\"");
            must_be("text", node).map_err(|refusal| BadValue { hint: Some(hint), ..refusal })
        }
        _ => must_be("text", node),
    }
}

fn number(node: &YamlNode, least: u64, most: u64) -> ValueResult<u64> {
    let YamlValue::Scalar(ScalarKind::Number, text) = &node.value else {
        return must_be("a whole number", node);
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return must_be("a whole number", node);
    }
    match text.parse::<u64>() {
        Ok(number) if number < least => refuse(format!("must be at least {least}, not {text}")),
        Ok(number) if number <= most => Ok(number),
        _ if text.starts_with('-') => refuse(format!("must not be negative: {text}")),
        _ => refuse(format!("must be at most {most}, not {text}")),
    }
}

fn amount(node: &YamlNode) -> ValueResult<f64> {
    let YamlValue::Scalar(ScalarKind::Number, text) = &node.value else {
        return must_be("an amount in US dollars", node);
    };
    match text.parse::<f64>() {
        Ok(amount) if amount < 0.0 => refuse(format!("must not be negative: {text}")),
        // A minus before a zero would be shown.
        Ok(amount) if amount.is_finite() => Ok(amount.abs()),
        _ => must_be("an amount in US dollars", node),
    }
}

fn yes_or_no(node: &YamlNode) -> ValueResult<bool> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Bool, text) => Ok(text.eq_ignore_ascii_case("true")),
        _ => must_be("true or false", node),
    }
}

pub(super) fn duration(node: &YamlNode) -> ValueResult<Duration> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text | ScalarKind::Number, text) => measured(parse_duration(text)),
        _ => must_be("a time such as '90s' or '1h30m'", node),
    }
}

fn size(node: &YamlNode) -> ValueResult<u64> {
    match &node.value {
        YamlValue::Scalar(ScalarKind::Text | ScalarKind::Number, text) => measured(parse_size(text)),
        _ => must_be("a size such as '20MiB' or '500kB'", node),
    }
}

fn measured<T>(value: Result<T, String>) -> ValueResult<T> {
    value.or_else(|why| refuse(format!("is not valid: {why}")))
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
        Err(why) => refuse(format!("is not a routine's name: {why}")),
    }
}

fn list<T>(node: &YamlNode, take: fn(&YamlNode) -> ValueResult<T>) -> ValueResult<Vec<T>> {
    let YamlValue::List(items) = &node.value else {
        return must_be("a list", node);
    };
    let taken = items.iter().enumerate();
    taken.map(|(i, item)| take(item).map_err(|why| BadValue { item: Some(i), ..why })).collect()
}

pub(super) fn filled(node: &YamlNode) -> ValueResult<String> {
    match text(node)? {
        text if text.trim().is_empty() => refuse("must not hold an empty text"),
        text => Ok(text),
    }
}

fn path(node: &YamlNode) -> ValueResult<PathBuf> {
    filled(node).map(PathBuf::from)
}

fn pattern(node: &YamlNode) -> ValueResult<String> {
    let pattern = filled(node)?;
    // A pattern that matches nothing would protect nothing.
    if pattern.contains('\n') || PatternList::parse(pattern.as_bytes()).is_empty() {
        return refuse(format!("holds something that is no ignore pattern: {}", node.describe()));
    }
    Ok(pattern)
}

fn variable(node: &YamlNode) -> ValueResult<String> {
    let name = filled(node)?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        return refuse(format!("must hold names of environment variables, not {}", node.describe()));
    }
    Ok(name)
}
