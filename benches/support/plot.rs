//! Draws a growth series as an SVG file, without any dependency.
//!
//! Both axes are logarithmic, so that a cost proportional to size is a line at 45 degrees, and one that does not grow is level.
//! The colours follow the reader's scheme, light or dark; markers tell the lines apart without colours.

use std::fmt::Write;

use super::units::{Unit, grouped};

/// One picture.
pub struct Plot {
    /// The file's name, without extension.
    pub file: &'static str,
    pub title: String,
    pub x_label: &'static str,
    pub unit: Unit,
    pub lines: Vec<Line>,
}

/// What one contender needs, by size.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 470.0;
/// Of the field within the axes.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 672.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 392.0;
/// Between two values at the right edge.
const LABEL_GAP: f64 = 15.0;

const STYLE: &str = "\
  text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #59636e }
  .card { fill: #ffffff; stroke: #d1d9e0 } .title { font-size: 17px; font-weight: 600; fill: #1f2328 }
  .grid { stroke: #d1d9e0 } .minor { stroke: #eff2f5 } .legend { fill: #1f2328 }
  path { fill: none; stroke-width: 2 } path.c0 { stroke-width: 3 } .end { font-weight: 600 }
  .c0 { stroke: #0969da } .c1 { stroke: #cf222e } .c2 { stroke: #1a7f37 } .c3 { stroke: #9a6700 }
  .f0 { fill: #0969da } .f1 { fill: #cf222e } .f2 { fill: #1a7f37 } .f3 { fill: #9a6700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .card { fill: #0d1117; stroke: #3d444d } .title, .legend { fill: #f0f6fc }
    .grid { stroke: #3d444d } .minor { stroke: #1c222b }
    .c0 { stroke: #58a6ff } .c1 { stroke: #ff7b72 } .c2 { stroke: #3fb950 } .c3 { stroke: #d29922 }
    .f0 { fill: #58a6ff } .f1 { fill: #ff7b72 } .f2 { fill: #3fb950 } .f3 { fill: #d29922 }
  }
";

/// A logarithmic axis.
struct Axis {
    /// The logarithms of its ends.
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From the smallest value to the largest.
    fn exact(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let first = logs.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let last = logs.iter().copied().reduce(f64::max).unwrap_or(0.0);
        Self { first, last: if last > first { last } else { first + 1.0 }, from, to }
    }

    /// From a power of ten to another.
    fn in_decades(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let axis = Self::exact(values, from, to);
        // A value that is a power of ten, but for rounding, lies on its line.
        let first = (axis.first + 1e-9).floor();
        Self { first, last: (axis.last - 1e-9).ceil().max(first + 1.0), ..axis }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - self.first) / (self.last - self.first);
        self.from + part * (self.to - self.from)
    }

    /// The powers of ten on the axis.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let (first, last) = ((self.first - 1e-9).ceil() as i32, (self.last + 1e-9).floor() as i32);
        (first..=last).map(|power| 10_f64.powi(power))
    }

    /// The values between two decades that have a faint line.
    fn between(&self) -> impl Iterator<Item = f64> {
        (self.first as i32..self.last as i32)
            .flat_map(|power| (2..10).map(move |digit| f64::from(digit) * 10_f64.powi(power)))
    }
}

impl Plot {
    /// The picture; `caption` says in which conditions it was measured.
    pub fn to_svg(&self, caption: &str) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::exact(points().map(|point| point.0), LEFT, RIGHT);
        let y = Axis::in_decades(points().map(|point| point.1), BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
             <text class=\"title\" x=\"24\" y=\"36\">{title}</text>\n",
            WIDTH - 1.0,
            HEIGHT - 1.0,
            title = escape(&self.title),
        );
        self.draw_axes(&mut svg, &x, &y);
        self.draw_legend(&mut svg);
        for (number, line) in self.lines.iter().enumerate().rev() {
            draw_line(&mut svg, number, &line.points, &x, &y);
        }
        self.draw_ends(&mut svg, &y);
        let middle = f64::midpoint(LEFT, RIGHT);
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"24\" y=\"{}\" style=\"font-size:11px\">{}</text>\n</svg>\n",
            BOTTOM + 42.0,
            escape(self.x_label),
            HEIGHT - 12.0,
            escape(caption),
        );
        svg
    }

    fn draw_axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let mut rule = |class, x1, y1, x2, y2| {
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
            );
        };
        y.between().map(|value| y.place(value)).for_each(|at| rule("minor", LEFT, at, RIGHT, at));
        y.decades().map(|value| y.place(value)).for_each(|at| rule("grid", LEFT, at, RIGHT, at));
        x.decades().map(|value| x.place(value)).for_each(|at| rule("grid", at, TOP, at, BOTTOM));
        rule("grid", RIGHT, TOP, RIGHT, BOTTOM);
        for value in y.decades() {
            let (at, label) = (y.place(value) + 4.5, decade(self.unit, value));
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 10.0);
        }
        for value in x.decades() {
            let (at, label) = (x.place(value), grouped(value.round() as u64));
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                BOTTOM + 20.0
            );
        }
    }

    fn draw_legend(&self, svg: &mut String) {
        let mut at = 24.0;
        for (number, line) in self.lines.iter().enumerate() {
            let _ = writeln!(svg, "<path class=\"c{number}\" d=\"M{at:.1} 64h26\"/>");
            draw_marker(svg, number, at + 13.0, 64.0);
            let _ = writeln!(
                svg,
                "<text class=\"legend\" x=\"{:.1}\" y=\"68.5\">{}</text>",
                at + 34.0,
                escape(&line.name)
            );
            at += 62.0 + 7.2 * line.name.chars().count() as f64;
        }
    }

    /// The last value of each line beside it, moved apart where they would overlap.
    fn draw_ends(&self, svg: &mut String, y: &Axis) {
        let last = |(number, line): (usize, &Line)| Some((number, line.points.last()?.1));
        let mut ends: Vec<(usize, f64)> = self.lines.iter().enumerate().filter_map(last).collect();
        ends.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut lowest = f64::NEG_INFINITY;
        let mut places: Vec<f64> = Vec::new();
        for (_, value) in &ends {
            lowest = y.place(*value).max(lowest + LABEL_GAP);
            places.push(lowest);
        }
        // The lowest ones move up again where they would leave the field.
        let mut limit = BOTTOM;
        for place in places.iter_mut().rev() {
            *place = place.min(limit);
            limit = *place - LABEL_GAP;
        }
        for ((number, value), place) in ends.iter().zip(places) {
            let text = self.unit.format_decimal(*value);
            let _ = writeln!(
                svg,
                "<text class=\"end f{number}\" x=\"{}\" y=\"{:.1}\">{text}</text>",
                RIGHT + 10.0,
                place + 4.5
            );
        }
    }
}

fn draw_line(svg: &mut String, number: usize, points: &[(f64, f64)], x: &Axis, y: &Axis) {
    let places: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.1 > 0.0)
        .map(|point| (x.place(point.0), y.place(point.1)))
        .collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(svg, "<path class=\"c{number}\" d=\"M{}\"/>", path.join("L"));
    for (x, y) in places {
        draw_marker(svg, number, x, y);
    }
}

/// A circle, a square, a triangle or a diamond.
fn draw_marker(svg: &mut String, number: usize, x: f64, y: f64) {
    let around = |corners: &[(f64, f64)]| -> String {
        corners.iter().map(|(dx, dy)| format!("{:.1},{:.1} ", x + dx, y + dy)).collect()
    };
    let corners = match number {
        0 => {
            let _ = writeln!(svg, "<circle class=\"f0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>");
            return;
        }
        1 => around(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
        2 => around(&[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)]),
        _ => around(&[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)]),
    };
    let _ = writeln!(svg, "<polygon class=\"f{number}\" points=\"{}\"/>", corners.trim_end());
}

/// A power of ten on an axis.
fn decade(unit: Unit, value: f64) -> String {
    let (scaled, name) = unit.in_decimal_steps(value);
    format!("{} {name}", grouped(scaled.round() as u64)).trim_end().to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
