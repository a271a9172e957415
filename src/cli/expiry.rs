//! The values of `--expiry`: a time from now, a date, a time, or never.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::history::Expiry;
use crate::project::{TIME_EXAMPLES, parse_duration};

const EXAMPLES: &str = "a date such as '2026-12-01', or 'never'";

/// Reads a value of `--expiry`. The error says what was expected. It is usable as a clap value parser.
pub fn parse_expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" {
        return Ok(Expiry::Never);
    }
    if is_date(text) {
        return at(text, Timestamp::now());
    }
    // A bare number is seconds elsewhere, which is hardly ever meant for an expiry.
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("expected {TIME_EXAMPLES}, with its unit, {EXAMPLES}, not '{text}'"));
    }
    let time = parse_duration(text).map_err(|why| format!("{why}; also {EXAMPLES}"))?;
    if time.is_zero() { Err("it would expire at once".to_owned()) } else { Ok(Expiry::After(time)) }
}

/// Whether it begins like a date. A duration has no hyphen.
fn is_date(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits == 4 && text[digits..].starts_with('-')
}

/// Reads a date or a time of ISO 8601, in UTC unless it has an offset. It has to be after `now`.
fn at(text: &str, now: Timestamp) -> Result<Expiry, String> {
    let in_utc = |_| {
        text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC)).map(|time| time.timestamp())
    };
    let time = text.parse::<Timestamp>().or_else(in_utc).map_err(|_| {
        format!("expected a date or a time such as '2026-12-01' or '2026-12-01T10:00:00Z', not '{text}'")
    })?;
    if time <= now {
        return Err(format!("{} is in the past", time.strftime("%Y-%m-%dT%H:%M:%SZ")));
    }
    Ok(Expiry::At(time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lifetimes_are_read_as_people_write_them() {
        let time = |text| parse_expiry(text).unwrap();
        assert_eq!(time("never"), Expiry::Never);
        assert_eq!(time("7d"), Expiry::After(Duration::from_secs(604_800)));
        assert_eq!(time("24h"), Expiry::After(Duration::from_secs(86_400)));
        assert_eq!(time("2w"), Expiry::After(Duration::from_secs(1_209_600)));
        assert_eq!(time("1w 12h"), Expiry::After(Duration::from_secs(648_000)));
        for wrong in
            ["soon", "-1d", "24", "0", "0d", "1y", "NEVER", "1.5", "", "999999999d", "2026", "20261201"]
        {
            assert!(parse_expiry(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_in_utc_unless_it_has_an_offset() {
        let now: Timestamp = "2026-11-17T10:00:00Z".parse().unwrap();
        for (text, time) in [
            ("2026-12-01", "2026-12-01T00:00:00Z"),
            ("2026-12-01T10:00", "2026-12-01T10:00:00Z"),
            ("2026-12-01 10:00:00", "2026-12-01T10:00:00Z"),
            ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
            ("2026-12-01T10:00:00+02:00", "2026-12-01T08:00:00Z"),
        ] {
            assert_eq!(at(text, now), Ok(Expiry::At(time.parse().unwrap())), "{text}");
        }
        for text in ["2026-13-01", "2026-12-32", "2026-12-01T25:00", "2026-12", "2026-12-01x"] {
            assert!(at(text, now).unwrap_err().starts_with("expected a date"), "{text}");
        }
        assert_eq!(at("2026-11-17T10:00:00Z", now), Err("2026-11-17T10:00:00Z is in the past".to_owned()));
    }
}
