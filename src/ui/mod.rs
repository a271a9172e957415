//! Output for users. Data goes to standard output, everything else to standard error; colours, progress bars and questions
//! appear only on a terminal.

mod lines;
mod live;
mod output;
mod progress;

pub use lines::LineReporter;
pub use live::LiveReporter;
pub use output::{Color, Ui, table};
