//! What decree writes for itself, the careful way: see [`atomic`]; and files that others wrote: see [`usable`].

pub mod atomic;
pub mod json;
pub mod usable;

/// 16 random hexadecimal digits, for names that must not meet another's.
pub fn random_hex() -> String {
    let number = getrandom::u64().expect("the system has random numbers");
    format!("{number:016x}")
}
