//! The one table of config keys: the name of each, how its value is parsed, and which field it sets.

use std::path::PathBuf;
use std::time::Duration;

use super::settings::{Config, OnNoChange};
use crate::checkpoint::ignore::PatternList;
use crate::project::RoutineName;
use crate::project::units::{TIME_EXAMPLES, parse_duration, parse_size};
use crate::yaml::{Mistake, ScalarKind, YamlNode, YamlValue};

/// Sets the field of a key.
pub(super) type Set<T> = fn(&mut T, &YamlNode) -> ValueResult<()>;

/// Why a value is rejected.
#[derive(Debug)]
pub(super) struct BadValue {
    /// The text after the key's name in the message.
    pub(super) reason: String,
    pub(super) hint: Option<String>,
    /// The line of the rejected item, if the value is a list.
    pub(super) item_line: Option<usize>,
}

pub(super) type ValueResult<T> = Result<T, BadValue>;

/// A larger number of retries or messages in a chain is a typing mistake.
const MAX_COUNT: u64 = 1000;

/// With the section before the dot.
pub(super) const KEYS: &[(&str, Set<Config>)] = &[
    ("commands.router", |c, v| assign(&mut c.commands.router, text(v))),
    ("commands.router_timeout", |c, v| assign(&mut c.commands.router_timeout, duration(v))),
    ("commands.ai", |c, v| assign(&mut c.commands.ai, text(v))),
    ("max_retries", |c, v| assign(&mut c.max_retries, number(v, 0, MAX_COUNT).map(to_u32))),
    ("max_depth", |c, v| assign(&mut c.max_depth, number(v, 1, MAX_COUNT).map(to_u32))),
    ("default_routine", |c, v| assign(&mut c.default_routine, routine(v))),
    ("notebook_support", |c, v| assign(&mut c.notebook_support, boolean(v))),
    ("timeout", |c, v| assign(&mut c.timeout, duration(v))),
    ("retry_delay", |c, v| assign(&mut c.retry_delay, duration(v))),
    ("verify", |c, v| assign(&mut c.verify, text(v))),
    ("on_no_change", |c, v| assign(&mut c.on_no_change, on_no_change(v))),
    ("hooks.before_all", |c, v| assign(&mut c.hooks.before_all, text(v))),
    ("hooks.before_each", |c, v| assign(&mut c.hooks.before_each, text(v))),
    ("hooks.after_each", |c, v| assign(&mut c.hooks.after_each, text(v))),
    ("hooks.after_all", |c, v| assign(&mut c.hooks.after_all, text(v))),
    ("routine_paths", |c, v| assign(&mut c.routine_paths, list(v, path))),
    ("budget.usd", |c, v| assign(&mut c.budget.usd, amount(v))),
    ("budget.time", |c, v| assign(&mut c.budget.time, duration(v))),
    ("budget.attempts", |c, v| assign(&mut c.budget.attempts, number(v, 0, u32::MAX.into()).map(to_u32))),
    ("log_limit", |c, v| assign(&mut c.log_limit, size(v))),
    ("sensitive.exclude", |c, v| assign(&mut c.sensitive.exclude, list(v, pattern))),
    ("sensitive.allow", |c, v| assign(&mut c.sensitive.allow, list(v, pattern))),
    ("policy.allow", |c, v| assign(&mut c.policy.allow, list(v, pattern))),
    ("policy.deny", |c, v| assign(&mut c.policy.deny, list(v, pattern))),
    ("policy.max_files", |c, v| assign(&mut c.policy.max_files, number(v, 0, u64::MAX))),
    ("policy.max_bytes", |c, v| assign(&mut c.policy.max_bytes, size(v))),
    ("pass_env", |c, v| assign(&mut c.pass_env, list(v, variable))),
];

pub(super) fn assign<T>(field: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    *field = value?;
    Ok(())
}

/// Sets one key, unless it has no value.
pub(super) fn set_key<T>(
    (name, set): (&str, Set<T>),
    key: &YamlNode,
    value: &YamlNode,
    target: &mut T,
) -> Result<(), Mistake> {
    if matches!(value.value, YamlValue::Null) {
        return Ok(());
    }
    set(target, value).map_err(|bad| Mistake {
        line: bad.item_line.unwrap_or(key.line),
        message: format!("'{name}' {}", bad.reason),
        hint: bad.hint,
    })
}

fn reject<T>(reason: impl Into<String>) -> ValueResult<T> {
    Err(BadValue { reason: reason.into(), hint: None, item_line: None })
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
        _ => must_be(TIME_EXAMPLES, node),
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
        YamlValue::Scalar(ScalarKind::Text, text) if text == "auto" => Ok(OnNoChange::Auto),
        YamlValue::Scalar(ScalarKind::Text, text) if text == "accept" => Ok(OnNoChange::Accept),
        YamlValue::Scalar(ScalarKind::Text, text) if text == "retry" => Ok(OnNoChange::Retry),
        _ => must_be("'auto', 'accept' or 'retry'", node),
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
    let parse = |item: &YamlNode| parse(item).map_err(|bad| BadValue { item_line: Some(item.line), ..bad });
    items.iter().map(parse).collect()
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
        return reject(format!("has an entry that is not an ignore pattern: {}", node.describe()));
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
