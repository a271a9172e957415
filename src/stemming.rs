//! Splits text into words and reduces them to stems, for naming messages and for choosing routines.

/// Common words that do not describe a task. Sorted, for binary search.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because", "been",
    "before", "but", "by", "can", "could", "do", "does", "each", "for", "from", "had", "has", "have", "how",
    "i", "if", "in", "into", "is", "it", "its", "just", "let", "lets", "like", "may", "me", "more", "must",
    "my", "need", "needs", "no", "not", "now", "of", "on", "one", "only", "or", "our", "out", "over",
    "please", "shall", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "too", "up", "us", "very", "want", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "why", "will", "with", "would", "you", "your",
];

/// Whether a lower-case word is too common to describe a task.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The words of a text in lower case: runs of letters and digits. An apostrophe does not end a word.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’')).filter_map(|run| {
        let word: String = run.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).collect();
        (!word.is_empty()).then_some(word)
    })
}

/// Removes English endings, so that `tests`, `testing` and `tested` have the same stem.
///
/// A few rules, not a full stemmer: the result is a key to compare, not a word to show.
pub fn stem(word: &str) -> String {
    let mut stem = word;
    for ending in ["ing", "ed", "es", "s"] {
        if let Some(rest) = stem.strip_suffix(ending)
            && rest.chars().count() >= 3
            && !(ending == "s" && rest.ends_with('s'))
        {
            stem = rest;
            break;
        }
    }
    // `stopping` and `stop`, `create` and `creating`.
    let mut letters: Vec<char> = stem.chars().collect();
    if let [.., a, b] = letters[..]
        && a == b
        && stem.len() < word.len()
        && !matches!(a, 'l' | 's' | 'z')
    {
        letters.pop();
    }
    if letters.len() > 3 && letters.last() == Some(&'e') {
        letters.pop();
    }
    letters.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && is_stop_word("a") && is_stop_word("your"));
        assert!(!is_stop_word("fix"));
    }

    #[test]
    fn text_is_split_into_lower_case_words() {
        let found: Vec<String> = words("Don't touch `src/Main.rs`, ÄNDERN!  ").collect();
        assert_eq!(found, ["dont", "touch", "src", "main", "rs", "ändern"]);
        assert_eq!(words("'' -- …").count(), 0);
    }

    #[test]
    fn forms_of_a_word_have_the_same_stem() {
        for (a, b) in [
            ("tests", "testing"),
            ("tested", "test"),
            ("create", "creating"),
            ("created", "creates"),
            ("stopping", "stop"),
            ("review", "reviews"),
            ("fixes", "fix"),
            ("types", "type"),
        ] {
            assert_eq!(stem(a), stem(b), "{a} {b}");
        }
        for word in ["class", "red", "bus", "is", "", "es"] {
            assert_eq!(stem(word), word);
        }
    }
}
