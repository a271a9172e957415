//! Formats numbers, durations and sizes for people.

use std::time::Duration;

/// A number with its noun in the right form: `1 file`, `1,234 files`, `2 entries`.
pub fn count(number: usize, noun: &str) -> String {
    if let (Some(stem), true) = (noun.strip_suffix("ry"), number != 1) {
        return format!("{} {stem}ries", grouped(number as u64));
    }
    let plural = match (number, noun.ends_with('s')) {
        (1, _) => "",
        (_, false) => "s",
        (_, true) => "es",
    };
    format!("{} {noun}{plural}", grouped(number as u64))
}

/// A duration with its two largest units: `2.3s`, `2m 14s`, `1h 02m`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A number with thousands separators: `78,622`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size with two digits in decimal units: `1.3 GB`.
pub fn bytes(number: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if number < 1000 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 1 } else { 0 };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_290_000_000), "1.3 GB");
        assert_eq!(bytes(999_600), "1.0 MB");
    }

    #[test]
    fn durations_read_well() {
        for (millis, text) in
            [(40, "0.0s"), (2_340, "2.3s"), (31_000, "31s"), (134_000, "2m 14s"), (3_723_000, "1h 02m")]
        {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!((count(1, "file"), count(0, "file")), ("1 file".to_owned(), "0 files".to_owned()));
        for (number, noun, text) in
            [(1, "process", "1 process"), (2, "process", "2 processes"), (2, "entry", "2 entries")]
        {
            assert_eq!(count(number, noun), text);
        }
    }
}
