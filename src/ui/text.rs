//! Numbers and tables for people.

use console::{measure_text_width, pad_str};

/// Columns that line up, two blanks between them, none at the end of a line.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| pad_str(cell, *width, console::Alignment::Left, None))
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// `78,622`.
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

/// `1.3 GB`.
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
    match value < 10.0 {
        true => format!("{value:.1} {}", units[unit]),
        false => format!("{value:.0} {}", units[unit]),
    }
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
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let rows = vec![vec!["a".into(), "b".into()], vec!["long".into(), String::new()]];
        assert_eq!(table(&rows), "a     b\nlong\n");
    }
}
