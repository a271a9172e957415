//! Signals that ask decree to stop.
//!
//! SIGINT, SIGTERM and SIGHUP (a closed terminal) set a flag. Long work checks it between two files, cleans up and returns an
//! error; moving staged files into the user's tree does not check it, because that takes only a moment. What follows such a move
//! (a comparison, git's own state, the records) and a revert that an interrupt caused run behind a [`Shield`], so that the signal
//! does not stop them halfway. A second signal of the same kind
//! ends the process at once, which is safe too: the next decree finishes or undoes the work. The last words of the process say
//! so ([`set_last_words`]). One of another kind changes nothing, because a CI runner sends SIGINT, then SIGTERM. It only has the log say
//! what comes next, as the runner kills the process soon after.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::error::{Error, ErrorKind, Result};

static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
static SHIELDS: AtomicUsize = AtomicUsize::new(0);
/// How many kinds of signals came.
static KINDS: AtomicUsize = AtomicUsize::new(0);
/// Whether a signal came a second time.
static IS_REPEATED: AtomicBool = AtomicBool::new(false);
/// How many signals of one kind end the process at once.
static LIMIT: AtomicUsize = AtomicUsize::new(2);
/// Whether the last act is under way, after which the process ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);
static LAST_ACT: Mutex<Option<LastAct>> = Mutex::new(None);
static LAST_ANSWER: Mutex<Option<LastAnswer>> = Mutex::new(None);

/// What the process still does if a signal ends it at once.
pub type LastAct = Box<dyn FnOnce() -> LastActOutcome + Send>;

/// Renders the error that ends the process for the program that reads standard output.
pub type LastAnswer = Box<dyn FnOnce(&Error) -> String + Send>;

/// What comes after the last act.
pub enum LastActOutcome {
    /// The process ends, and says this of the last act.
    End(String),
    /// The process does not end, because that would lose something: it goes on with what it was doing, and says why.
    GoOn(String),
}

/// How long a reader of one of the streams that does not read may keep the process from ending.
const WORDS_LIMIT: Duration = Duration::from_millis(300);
/// How long the last act may keep the process from ending.
const ACT_LIMIT: Duration = Duration::from_secs(8);
/// What is true whatever decree was doing.
const DEFAULT_WORDS: &str =
    "the next decree command that changes the project finishes or undoes what was in progress";

/// Installs the signal handlers. Only the binary calls this, because signals belong to the whole process.
pub fn listen() -> io::Result<()> {
    let requested = SIGNAL.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).expect("signals are small positive numbers");
        signal_hook::flag::register_usize(signal, Arc::clone(requested), number)?;
        let (ours, handlers) = UnixStream::pair()?;
        low_level::pipe::register(signal, handlers)?;
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || count_signals(signal, ours))?;
    }
    Ok(())
}

/// Counts the signals of one kind, of which each is a byte, and ends the process at the last that it waits for. A handler could
/// not say why.
fn count_signals(signal: i32, mut signals: UnixStream) {
    let mut count = 0;
    while signals.read_exact(&mut [0]).is_ok() {
        count += 1;
        if count >= 2 {
            IS_REPEATED.store(true, Ordering::Relaxed);
        } else if KINDS.fetch_add(1, Ordering::Relaxed) > 0 {
            say_what_a_kill_leaves();
        }
        if count >= LIMIT.load(Ordering::Relaxed) {
            IS_ENDING.store(true, Ordering::SeqCst);
            match do_last_act() {
                LastActOutcome::End(done) => {
                    say_last_words(signal, &done);
                    low_level::exit(128 + signal);
                }
                LastActOutcome::GoOn(why) => {
                    LIMIT.store(usize::MAX, Ordering::Relaxed);
                    IS_ENDING.store(false, Ordering::SeqCst);
                    say(format!("\ninterrupted again: {why}\n"));
                }
            }
        }
    }
}

/// Does what was set as the last act, and returns what to say of it.
fn do_last_act() -> LastActOutcome {
    let Some(act) = LAST_ACT.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return LastActOutcome::End(String::new());
    };
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(act());
    });
    let too_long = "; restoring what only decree held took too long: check likely secrets and repositories";
    done.recv_timeout(ACT_LIMIT).unwrap_or_else(|_| LastActOutcome::End(too_long.to_owned()))
}

/// Says what is left to the next decree if the process is killed before it is done.
fn say_what_a_kill_leaves() {
    let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let words = words.as_deref().unwrap_or(DEFAULT_WORDS);
    say(format!("\ninterrupted again: decree is still at work; if it is killed now, {words}\n"));
}

fn say_last_words(signal: i32, done: &str) {
    const ENDED: &str = "interrupted again: decree stopped at once";
    let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
    let words = words.as_deref().unwrap_or(DEFAULT_WORDS);
    say(format!("\n{ENDED}; {words}{done}\n"));
    if let Some(answer) = LAST_ANSWER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let kind = ErrorKind::Interrupted { signal: u8::try_from(signal).unwrap_or_default() };
        let error = Error::new(kind, ENDED).detail(words);
        let done = done.trim_start_matches("; ");
        let error = if done.is_empty() { error } else { error.detail(done) };
        write_in_time(io::stdout(), answer(&error));
    }
}

fn say(text: String) {
    write_in_time(io::stderr(), text);
}

/// Writes without the lock of the stream, which another thread may hold for good.
fn write_in_time(stream: impl AsFd + Send + 'static, text: String) {
    let (sender, written) = mpsc::channel();
    std::thread::spawn(move || {
        let mut rest = text.as_bytes();
        while let Ok(length @ 1..) = rustix::io::write(stream.as_fd(), rest) {
            rest = &rest[length..];
        }
        let _ = sender.send(());
    });
    let _ = written.recv_timeout(WORDS_LIMIT);
}

/// Sets what the process prints to standard output if a second signal ends it at once, in the format that was asked for.
pub fn set_last_answer(answer: Option<LastAnswer>) {
    *LAST_ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = answer;
}

/// Sets what the process says if a second signal ends it at once: in which state it leaves the tree, and what comes next.
pub fn set_last_words(words: Option<String>) {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = words;
}

/// Sets what the process does before a second signal ends it at once: something that takes a moment and cannot be done later.
pub fn set_last_act(act: Option<LastAct>) {
    *LAST_ACT.lock().unwrap_or_else(PoisonError::into_inner) = act;
}

/// Whether a signal came a second time. Only a caller of [`wait_for_a_third`] lives to see that.
pub fn is_repeated() -> bool {
    IS_REPEATED.load(Ordering::Relaxed)
}

/// Waits for the end of the process if the last act is under way. Called when a program has ended that the last act may have killed: what
/// follows would be cut off anywhere.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// From now on only a third signal of the same kind ends the process at once: the caller acts on the second.
pub fn wait_for_a_third() {
    LIMIT.store(3, Ordering::Relaxed);
}

/// The last signal that asked decree to stop, whether or not a [`Shield`] is held.
pub fn requested() -> Option<u8> {
    let signal = SIGNAL.get().map_or(0, |signal| signal.load(Ordering::Relaxed));
    u8::try_from(signal).ok().filter(|signal| *signal > 0)
}

/// Returns an error if decree was asked to stop and no [`Shield`] is held. It does not say what became of the tree: only the caller
/// knows what was done before ([`name_unchanged`]).
pub fn check() -> Result<()> {
    match requested() {
        Some(signal) if SHIELDS.load(Ordering::Relaxed) == 0 => {
            Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted"))
        }
        _ => Ok(()),
    }
}

/// Adds to an interrupt that the tree is unchanged, for a command that has not touched it, or has undone all that it did.
pub fn name_unchanged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Interrupted { .. } => {
            error.without_detail("nothing was touched").detail("the tree is as it was")
        }
        _ => error,
    }
}

/// While one is held, [`check`] succeeds on every thread.
#[derive(Debug)]
#[must_use = "it protects only while it is held"]
pub struct Shield(());

/// Starts a section that must be completed despite signals.
pub fn shield() -> Shield {
    SHIELDS.fetch_add(1, Ordering::Relaxed);
    Shield(())
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reader that fails when decree is asked to stop.
pub struct Interruptible<R>(pub R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        check().map_err(io::Error::other)?;
        self.0.read(out)
    }
}
