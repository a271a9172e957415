//! Figures for people.

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
}

const STEPS: [(f64, &str); 3] =
    [(1024.0 * 1024.0 * 1024.0, "GiB"), (1024.0 * 1024.0, "MiB"), (1024.0, "KiB")];

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Count => "count",
        }
    }

    /// A figure with three digits that count.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 0.9995 => format!("{} ms", three_digits(value * 1e3)),
            Self::Seconds => format!("{} s", three_digits(value)),
            Self::Bytes => match STEPS.iter().find(|(size, _)| value >= *size) {
                Some((size, name)) => format!("{} {name}", three_digits(value / size)),
                None => format!("{value:.0} B"),
            },
            Self::Count => grouped(value as u64),
        }
    }

    /// The same with steps of a thousand, as the decades of an axis have.
    pub fn format_decimal(self, value: f64) -> String {
        let (scaled, name) = self.in_decimal_steps(value);
        if name.is_empty() { self.format(value) } else { format!("{} {name}", three_digits(scaled)) }
    }

    /// A figure in the largest unit of which it has at least about one.
    pub fn in_decimal_steps(self, value: f64) -> (f64, &'static str) {
        let steps: &[(f64, &str)] = match self {
            Self::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
            Self::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Self::Count => &[(1.0, "")],
        };
        let fits = |(size, _): &&(f64, &str)| value >= 0.9995 * size;
        let (size, name) = steps.iter().find(fits).or(steps.last()).expect("every unit has a step");
        (value / size, name)
    }
}

fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
