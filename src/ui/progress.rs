//! A progress bar for long operations.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::checkpoint::progress::Progress;

/// A progress bar that appears only for at least 2,000 files.
pub struct Bar {
    shown: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Bar {
    /// Draws nothing if `shown` is false.
    pub fn new(shown: bool) -> Self {
        Bar { shown, bar: Mutex::new(None) }
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, total: u64) {
        if !self.shown || total < 2000 {
            return;
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {human_pos} of {human_len} files  {eta}")
            .expect("the template is fixed")
            .progress_chars("━╸ ");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10))
            .with_style(style)
            .with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        *self.bar.lock().expect("drawing does not panic") = Some(bar);
    }

    fn advance(&self, steps: u64) {
        if let Some(bar) = &*self.bar.lock().expect("drawing does not panic") {
            bar.inc(steps);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.lock().expect("drawing does not panic").take() {
            bar.finish_and_clear();
        }
    }
}
