//! Whether a copy is whole: SQLite's own check.
//!
//! A database may rely on functions, collations and kinds of tables that its application brings along, and SQLite then
//! refuses to check anything. So it is asked again, table by table, and what it cannot check is told.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::open;
use crate::error::{Error, Result};
use crate::sanitize::one_line;

/// How many complaints are told.
const MOST: usize = 5;
/// What SQLite says of something that it cannot check, which is not to say that it is damaged.
const CANNOT: &str = "unable to validate";

/// Checks a copy; returns the tables that could not be. Damage is an error.
pub(super) fn check(copy: &Path) -> Result<Vec<String>> {
    let checked = open::unchanging(copy).and_then(|connection| {
        // What an application let pass is its own affair.
        connection.pragma_update(None, "ignore_check_constraints", true)?;
        all(&connection)
    });
    let damaged = |why| {
        Error::integrity(format!("the copy of the database at {} is damaged", copy.display()))
            .details(why, MOST)
    };
    match checked {
        Ok((complaints, unchecked)) if complaints.is_empty() => Ok(unchecked),
        Ok((complaints, _)) => Err(damaged(complaints)),
        Err(error) => match open::code(&error) {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Err(damaged(vec![format!("SQLite says: {error}")]))
            }
            _ => Err(open::failure("check", copy, Duration::ZERO, error)),
        },
    }
}

/// Complaints, and tables that could not be checked.
fn all(connection: &Connection) -> rusqlite::Result<(Vec<String>, Vec<String>)> {
    match complaints(connection, None) {
        Err(error) if is_unknown(&error) => {}
        result => return result.map(|complaints| (complaints, Vec::new())),
    }
    let mut names =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")?;
    let names = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let (mut all, mut unchecked) = (Vec::new(), Vec::new());
    for name in names {
        match complaints(connection, Some(&name)) {
            Ok(complaints) => all.extend(complaints),
            Err(error) if is_unknown(&error) => unchecked.push(one_line(&name)),
            Err(error) => return Err(error),
        }
    }
    Ok((all, unchecked))
}

/// Whether it is not the database that is at fault: SQLite misses something that the application has.
fn is_unknown(error: &rusqlite::Error) -> bool {
    open::code(error) == Some(ErrorCode::Unknown)
}

fn complaints(connection: &Connection, table: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut take = |row: &rusqlite::Row<'_>| {
        let line: String = row.get(0)?;
        if line != "ok" && !line.starts_with(CANNOT) {
            complaints.extend(line.lines().map(one_line));
        }
        Ok(())
    };
    match table {
        Some(table) => connection.pragma(None, "integrity_check", table, &mut take)?,
        None => connection.pragma_query(None, "integrity_check", &mut take)?,
    }
    Ok(complaints)
}
