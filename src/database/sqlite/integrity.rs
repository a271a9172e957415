//! SQLite's own integrity check of a copy.
//!
//! A database may rely on functions, collations and table types of its application, and SQLite then
//! refuses to check anything. So each table is checked alone, and those that cannot be checked are reported.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::open;
use crate::error::{Error, Result};
use crate::sanitize::one_line;

/// How many problems an error lists.
const MAX_LISTED: usize = 5;
/// SQLite's message for something that it cannot check, which does not mean that it is damaged.
const CANNOT_CHECK: &str = "unable to validate";

/// Checks a copy; returns the tables that could not be. Damage is an error.
pub(super) fn check(copy: &Path) -> Result<Vec<String>> {
    let checked = open::unchanging(copy).and_then(|connection| {
        // Rows that violate a constraint are the application's concern, not damage.
        connection.pragma_update(None, "ignore_check_constraints", true)?;
        check_all(&connection)
    });
    let damaged = |why| {
        Error::integrity(format!("the copy of the database at {} is damaged", copy.display()))
            .details(why, MAX_LISTED)
    };
    match checked {
        Ok((problems, unchecked)) if problems.is_empty() => Ok(unchecked),
        Ok((problems, _)) => Err(damaged(problems)),
        Err(error) => match open::code(&error) {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Err(damaged(vec![format!("SQLite: {error}")]))
            }
            _ => Err(open::failure("check", copy, Duration::ZERO, error)),
        },
    }
}

/// The problems found, and the tables that could not be checked.
fn check_all(connection: &Connection) -> rusqlite::Result<(Vec<String>, Vec<String>)> {
    match problems(connection, None) {
        Err(error) if is_unknown(&error) => {}
        result => return result.map(|problems| (problems, Vec::new())),
    }
    let mut names =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")?;
    let names = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let (mut all, mut unchecked) = (Vec::new(), Vec::new());
    for name in names {
        match problems(connection, Some(&name)) {
            Ok(problems) => all.extend(problems),
            Err(error) if is_unknown(&error) => unchecked.push(one_line(&name)),
            Err(error) => return Err(error),
        }
    }
    Ok((all, unchecked))
}

/// Whether SQLite lacks a function or table type that only the application has.
fn is_unknown(error: &rusqlite::Error) -> bool {
    open::code(error) == Some(ErrorCode::Unknown)
}

fn problems(connection: &Connection, table: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut take = |row: &rusqlite::Row<'_>| {
        let line: String = row.get(0)?;
        if line != "ok" && !line.starts_with(CANNOT_CHECK) {
            problems.extend(line.lines().map(one_line));
        }
        Ok(())
    };
    match table {
        Some(table) => connection.pragma(None, "integrity_check", table, &mut take)?,
        None => connection.pragma_query(None, "integrity_check", &mut take)?,
    }
    Ok(problems)
}
