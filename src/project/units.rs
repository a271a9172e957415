//! The notation of durations and sizes in the config, in front matter and in options: `1h30m`, `20MiB`.
//!
//! jiff's duration parser was compared: it takes no bare number (seconds here), no `1.5d` and no `2 Days`, and would
//! accept `5s ago`, `+1s` and `1:30:00`. Months and years have no fixed length and are no units here.

use std::time::Duration;

/// A longer duration would overflow a deadline.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

const SECOND: u64 = 1_000_000_000;

/// In nanoseconds, in the order in which they may follow each other.
const TIME_UNITS: &[(&[&str], u64)] = &[
    (&["w", "week", "weeks"], 7 * 24 * 3600 * SECOND),
    (&["d", "day", "days"], 24 * 3600 * SECOND),
    (&["h", "hr", "hrs", "hour", "hours"], 3600 * SECOND),
    (&["m", "min", "mins", "minute", "minutes"], 60 * SECOND),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["ms"], SECOND / 1000),
];

/// As in SI, `k` is a thousand; `Ki` is 1024.
const SIZE_UNITS: &[(&[&str], u64)] = &[
    (&["", "b"], 1),
    (&["k", "kb"], 1_000),
    (&["ki", "kib"], 1 << 10),
    (&["m", "mb"], 1_000_000),
    (&["mi", "mib"], 1 << 20),
    (&["g", "gb"], 1_000_000_000),
    (&["gi", "gib"], 1 << 30),
    (&["t", "tb"], 1_000_000_000_000),
    (&["ti", "tib"], 1 << 40),
];

/// What [`parse_duration`] accepts, for messages.
pub const TIME_EXAMPLES: &str = "a time such as '90s', '1h30m', '7d' or '2w'";

/// Reads `1h`, `90s`, `1h30m`, `1.5h`, `500ms`, `2 days`, `2w`; a bare number is seconds.
///
/// The error says what was expected. It is usable as a clap value parser.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected {TIME_EXAMPLES}, not '{text}'");
    let too_long = || format!("'{text}' is too long");
    let mut rest = text.trim();
    if rest.starts_with('-') {
        return Err(format!("a time cannot be negative: '{text}'"));
    }
    if let Some((seconds, "")) = split_number(rest) {
        return multiply(seconds, SECOND).and_then(as_duration).ok_or_else(too_long);
    }
    let mut units = TIME_UNITS.iter();
    let mut total: u128 = 0;
    loop {
        let (number, after) = split_number(rest).ok_or_else(expected)?;
        let after = after.trim_start();
        let (unit, next) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        // Continues after the unit before, so that each is smaller than the one before it.
        let (_, nanos) = units.find(|(names, _)| is_one_of(names, unit)).ok_or_else(expected)?;
        total = multiply(number, *nanos).and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        rest = next.trim_start();
        if rest.is_empty() {
            return as_duration(total).ok_or_else(too_long);
        }
    }
}

/// Reads `20MiB`, `5 MB`, `1k`, `1.5GiB`; a bare number is bytes. Part of a byte is dropped.
///
/// The error says what was expected. It is usable as a clap value parser.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a size such as '20MiB' or '500kB', not '{text}'");
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(format!("a size cannot be negative: '{text}'"));
    }
    let (number, unit) = split_number(trimmed).ok_or_else(expected)?;
    let (_, bytes) =
        SIZE_UNITS.iter().find(|(names, _)| is_one_of(names, unit.trim_start())).ok_or_else(expected)?;
    multiply(number, *bytes)
        .and_then(|size| u64::try_from(size).ok())
        .ok_or_else(|| format!("'{text}' is too large"))
}

fn as_duration(nanos: u128) -> Option<Duration> {
    let nanos = u64::try_from(nanos).ok()?;
    Some(Duration::from_nanos(nanos)).filter(|time| *time <= LONGEST)
}

fn is_one_of(names: &[&str], unit: &str) -> bool {
    names.iter().any(|name| unit.eq_ignore_ascii_case(name))
}

/// Splits off digits with an optional fraction.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(text);
    if end == 0 {
        return None;
    }
    if text[end..].starts_with('.') {
        match digits(&text[end + 1..]) {
            0 => return None,
            fraction => end += 1 + fraction,
        }
    }
    Some(text.split_at(end))
}

/// `number` times `unit`, without the rounding errors of binary fractions.
fn multiply(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
    // Digits beyond the eighteenth are less than a nanosecond of anything.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part =
        if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? * u128::from(unit) / scale };
    whole.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_notation() {
        for (text, millis) in [
            ("1h", 3_600_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1 hour 30 min", 5_400_000),
            ("500ms", 500),
            ("0s", 0),
            ("0", 0),
            ("45", 45_000),
            ("1.5h", 5_400_000),
            ("0.5", 500),
            (" 2 Days ", 172_800_000),
            ("2w", 1_209_600_000),
            ("1 week 2d", 777_600_000),
            ("1d 2h 3m 4s 5ms", 93_784_005),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_rejected_with_an_example() {
        for text in [
            "", " ", "h", "1x", "30m1h", "1d1w", "1h1h", "1h30", "1 2", ".5h", "1.h", "1e3s", "eins", "1m٣s",
            "+1s", "1y", "1mo",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.starts_with("expected a time such as"), "{text}: {error}");
        }
        assert!(parse_duration("-5s").unwrap_err().contains("negative"));
        for text in ["999999999999999999999999999999999999999999h", "200000d", "18446744073709551616ms"] {
            assert!(parse_duration(text).unwrap_err().contains("too long"), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_every_notation() {
        for (text, bytes) in [
            ("20MiB", 20 << 20),
            ("5 MB", 5_000_000),
            ("1k", 1000),
            ("1 KiB", 1024),
            ("0", 0),
            ("4096", 4096),
            ("12b", 12),
            ("1.5GiB", 3 << 29),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "5 XB", "1 0", "five", "1..5k", "1.k"] {
            assert!(parse_size(text).unwrap_err().starts_with("expected a size such as"), "{text}");
        }
        assert!(parse_size("-1").unwrap_err().contains("negative"));
        assert!(parse_size("18446744073709551616").unwrap_err().contains("too large"));
        assert!(parse_size("20000000TiB").unwrap_err().contains("too large"));
    }
}
