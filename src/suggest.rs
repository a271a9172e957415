//! "Did you mean …?": the known word that is nearest to a mistyped one.

/// The candidate that is most likely meant by `word`, if any is near enough; the first of equals.
///
/// Near enough is one slip in three characters, at least one and at most three: more would be a guess.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(LONGEST + 1).collect();
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let allowed = (word.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let letters: Vec<char> = candidate.to_lowercase().chars().take(LONGEST + 1).collect();
        if letters.len().abs_diff(word.len()) > allowed {
            continue;
        }
        let slips = distance(&word, &letters);
        // As many slips as letters would be another word altogether.
        if slips <= allowed && slips < letters.len() && best.is_none_or(|(fewest, _)| slips < fewest) {
            best = Some((slips, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The text of a hint for [`closest`].
pub fn did_you_mean(word: &str) -> String {
    format!("did you mean '{word}'?")
}

/// Nobody mistypes a word of this length; and the comparison is quadratic.
const LONGEST: usize = 200;

/// How many letters have to be typed, left out, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slips(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn slips_are_counted_as_people_make_them() {
        assert_eq!(slips("", "abc"), 3);
        assert_eq!(slips("devlop", "develop"), 1);
        assert_eq!(slips("veirfy", "verify"), 1);
        assert_eq!(slips("max_retry", "max_retries"), 3);
        assert_eq!(slips("größe", "grösse"), 2);
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
