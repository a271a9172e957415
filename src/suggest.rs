//! "Did you mean …?": the known word that is nearest to a mistyped one.

/// No typing error is in a word longer than this, and the comparison takes quadratic time.
const LONGEST: usize = 200;

/// The candidate that is most likely meant by `word`, if any is near enough; the first of equals.
///
/// Near enough is one edit per three characters, at least one and at most three: more would be a guess. An edit
/// inserts, deletes or replaces a character, or swaps two neighbours.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    let allowed = (length / 3).clamp(1, 3);
    let edits = |candidate: &'a str| {
        let known = candidate.to_lowercase();
        let known_length = known.chars().count();
        if known_length.abs_diff(length) > allowed {
            return None;
        }
        let edits = strsim::osa_distance(&word, &known);
        // As many edits as letters would make any word of it.
        (edits <= allowed && edits < known_length).then_some((edits, candidate))
    };
    let (_, candidate) = candidates.into_iter().filter_map(edits).min_by_key(|(edits, _)| *edits)?;
    Some(candidate)
}

/// The candidate that `word` is a typing mistake of: it differs in case only, or by one edit.
pub fn one_edit_away<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    if word.chars().count() > LONGEST {
        return None;
    }
    candidates.into_iter().find(|candidate| strsim::osa_distance(&word, candidate) <= 1)
}

/// The text of a hint for [`closest`].
pub fn did_you_mean(word: &str) -> String {
    format!("did you mean '{word}'?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        assert_eq!(closest("veirfy", ["verify"]), Some("verify"));
        assert_eq!(closest("eb", ["be"]), Some("be"));
        assert_eq!(closest("größe", ["grösse"]), None);
    }

    #[test]
    fn the_nearest_word_is_suggested_and_the_first_of_equals() {
        assert_eq!(closest("devlop", ["review", "develop", "deploy"]), Some("develop"));
        assert_eq!(closest("max_retry", ["max_depth", "max_retries"]), Some("max_retries"));
        assert_eq!(closest("Verify", ["verify"]), Some("verify"));
        assert_eq!(closest("tets", ["text", "test"]), Some("test"));
    }

    #[test]
    fn a_word_that_is_like_none_gets_no_suggestion() {
        assert_eq!(closest("frobnicate", ["verify", "timeout"]), None);
        assert_eq!(closest("", ["a"]), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest(&"x".repeat(100_000), ["x"]), None);
    }
}
