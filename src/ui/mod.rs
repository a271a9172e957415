//! What people see. Data goes to standard output, everything else to standard error; colours, bars and questions appear on a
//! terminal only.

mod lines;
mod live;
mod output;
mod progress;
mod text;

pub use lines::LineReporter;
pub use live::LiveReporter;
pub use output::{Color, Ui};
pub use progress::Bar;
pub use text::table;
