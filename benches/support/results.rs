//! What was measured, and whether it meets the goal.

use serde_json::{Value, json};

use super::units::Unit;

/// What is asked of decree.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    None,
    /// The peer needs at least so many times as much.
    Times(f64),
    /// decree needs at most so many times as much as the peer.
    AtMost(f64),
    /// decree's figure alone is below this.
    Below(f64),
}

/// A cost that does not grow. On a busy machine, medians of the same thing differ by about as much.
pub const FLAT: Goal = Goal::AtMost(1.25);

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub what: String,
    pub unit: Unit,
    pub decree: f64,
    /// What decree is compared with.
    pub peer: Option<(String, f64)>,
    pub goal: Goal,
    /// What other tools need for it.
    pub others: Vec<(String, f64)>,
    pub note: Option<String>,
}

impl Row {
    pub fn new(name: &'static str, what: impl Into<String>, unit: Unit, decree: f64, goal: Goal) -> Self {
        Self { name, what: what.into(), unit, decree, peer: None, goal, others: Vec::new(), note: None }
    }

    pub fn peer(mut self, name: impl Into<String>, figure: f64) -> Self {
        self.peer = Some((name.into(), figure));
        self
    }

    pub fn other(mut self, name: impl Into<String>, figure: Option<f64>) -> Self {
        self.others.extend(figure.map(|figure| (name.into(), figure)));
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// How many times as much as decree the peer needs; the other way round where the goal is about that.
    pub fn ratio(&self) -> Option<f64> {
        let (_, peer) = self.peer.as_ref()?;
        Some(if let Goal::AtMost(_) = self.goal { self.decree / peer } else { peer / self.decree })
    }

    pub fn is_met(&self) -> Option<bool> {
        match self.goal {
            Goal::None => None,
            Goal::Times(least) => Some(self.ratio()? >= least),
            Goal::AtMost(most) => Some(self.ratio()? <= most),
            Goal::Below(most) => Some(self.decree < most),
        }
    }

    pub fn goal_text(&self) -> String {
        match self.goal {
            Goal::None => String::new(),
            Goal::Times(least) => format!("peer >= {least}x"),
            Goal::AtMost(most) => format!("<= {most}x peer"),
            Goal::Below(most) => format!("< {}", self.unit.format(most)),
        }
    }

    pub fn ratio_text(&self) -> String {
        let ratio = self
            .ratio()
            .map(|ratio| if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") });
        match (ratio, self.goal) {
            (None, _) => String::new(),
            (Some(ratio), Goal::AtMost(_)) => format!("{ratio}x peer"),
            (Some(ratio), _) => format!("peer {ratio}x"),
        }
    }

    pub fn to_json(&self) -> Value {
        let others: serde_json::Map<_, _> =
            self.others.iter().map(|(name, figure)| (name.clone(), json!(figure))).collect();
        json!({
            "name": self.name,
            "what": self.what,
            "unit": self.unit.name(),
            "decree": self.decree,
            "peer": self.peer.as_ref().map(|(name, figure)| json!({ "name": name, "figure": figure })),
            "others": others,
            "ratio": self.ratio(),
            "ratio_is": if let Goal::AtMost(_) = self.goal { "decree / peer" } else { "peer / decree" },
            "goal": self.goal_text(),
            "met": self.is_met(),
            "note": self.note,
        })
    }
}
