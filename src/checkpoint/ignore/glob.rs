//! Globs on bytes, with the meaning they have in git's ignore files.
//!
//! Git never decodes paths or patterns, so `?` and `[…]` take exactly one *byte* and names that
//! are not UTF-8 need no special case. A glob is compiled once into a short list of [`GlobToken`]s;
//! matching walks tokens and text side by side and remembers at most one position to resume from for
//! `*` and one for `**`, so its work is bounded for every pattern.
//!
//! `docs/architecture.md` lists where the matcher of the `ignore` crate differs from git.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Glob {
    /// No wildcards at all: plain comparison.
    Literal(Box<[u8]>),
    /// `*` and no other wildcard, such as `*.o`: by far the most
    /// common kind of wildcard, and the cheapest to reject.
    Suffix(Box<[u8]>),
    Tokens(Box<[GlobToken]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GlobToken {
    Byte(u8),
    /// `?`: any byte but `/`.
    AnyByte,
    /// `[...]`: one of these bytes.
    Class(Box<ByteSet>),
    /// `*`: any run of bytes without `/`.
    Star,
    /// `**/`: nothing, or any run of bytes ending in `/`.
    AnyDirs,
    /// `**` as the last component: any run of bytes.
    AnyPath,
}

impl Glob {
    /// Compiles a glob; `None` if it is malformed and hence matches nothing.
    pub(super) fn compile(glob: &[u8]) -> Option<Self> {
        if !glob.iter().copied().any(is_special) {
            return Some(Self::Literal(glob.into()));
        }
        if let Some(suffix) = glob.strip_prefix(b"*")
            && !suffix.iter().copied().any(is_special)
        {
            return Some(Self::Suffix(suffix.into()));
        }
        let mut tokens = Vec::with_capacity(glob.len());
        let mut rest = glob;
        // Whether a `**` found here is on a component boundary on its left.
        let mut at_boundary = true;
        // Git compares the text before the first wildcard separately and then
        // matches the remainder on its own. A `**` starting that remainder
        // hence counts as standing on a boundary: `foo**/bar` matches
        // `foo1/2/bar`.
        let mut in_plain_prefix = true;
        while let Some((&byte, tail)) = rest.split_first() {
            let boundary = at_boundary || in_plain_prefix;
            at_boundary = byte == b'/';
            in_plain_prefix &= !is_special(byte);
            rest = tail;
            let token = match byte {
                b'?' => GlobToken::AnyByte,
                b'[' => {
                    let (class, tail) = ByteSet::parse(rest)?;
                    rest = tail;
                    GlobToken::Class(Box::new(class))
                }
                b'\\' => {
                    let (&escaped, tail) = rest.split_first()?;
                    rest = tail;
                    at_boundary = escaped == b'/';
                    GlobToken::Byte(escaped)
                }
                b'*' => {
                    let extra = rest.iter().take_while(|&&b| b == b'*').count();
                    rest = &rest[extra..];
                    if extra == 0 || !boundary {
                        GlobToken::Star
                    } else if let Some(tail) = rest.strip_prefix(b"/") {
                        rest = tail;
                        at_boundary = true;
                        GlobToken::AnyDirs
                    } else if rest.is_empty() || rest.starts_with(b"\\/") {
                        GlobToken::AnyPath
                    } else {
                        GlobToken::Star
                    }
                }
                _ => GlobToken::Byte(byte),
            };
            tokens.push(token);
        }
        Some(Self::Tokens(tokens.into()))
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Suffix(suffix) => text.strip_suffix(&**suffix).is_some_and(|stem| !stem.contains(&b'/')),
            Self::Tokens(tokens) => tokens_match(tokens, text),
        }
    }
}

/// Whether a byte has a special meaning in a glob.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Matches all of `text` against all of `tokens`.
///
/// On a mismatch only the latest wildcard needs to grow: whatever an earlier
/// one could gain by growing, the later one, which starts from the leftmost
/// possible position, can reach as well. A `*` may not grow past a `/`, in
/// which case the latest `**` has to.
fn tokens_match(tokens: &[GlobToken], text: &[u8]) -> bool {
    let (mut token, mut pos) = (0, 0);
    // (token after the wildcard, text position where the wildcard ends)
    let mut star: Option<(usize, usize)> = None;
    let mut wide: Option<(usize, usize)> = None;
    loop {
        let matched = match tokens.get(token) {
            None => {
                if pos == text.len() {
                    return true;
                }
                false
            }
            Some(GlobToken::Star) => {
                star = Some((token + 1, pos));
                token += 1;
                continue;
            }
            Some(GlobToken::AnyDirs | GlobToken::AnyPath) => {
                wide = Some((token + 1, pos));
                star = None;
                token += 1;
                continue;
            }
            Some(GlobToken::Byte(byte)) => text.get(pos) == Some(byte),
            Some(GlobToken::AnyByte) => text.get(pos).is_some_and(|&b| b != b'/'),
            Some(GlobToken::Class(class)) => text.get(pos).is_some_and(|&b| class.contains(b)),
        };
        if matched {
            token += 1;
            pos += 1;
            continue;
        }
        if let Some((after, end)) = &mut star
            && text.get(*end).is_some_and(|&b| b != b'/')
        {
            *end += 1;
            (token, pos) = (*after, *end);
            continue;
        }
        star = None;
        let Some((after, end)) = &mut wide else {
            return false;
        };
        let step = match tokens[*after - 1] {
            GlobToken::AnyDirs => text[*end..].iter().position(|&b| b == b'/'),
            _ => (*end < text.len()).then_some(0),
        };
        let Some(step) = step else {
            return false;
        };
        *end += step + 1;
        (token, pos) = (*after, *end);
    }
}

/// A set of bytes, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteSet([u128; 2]);

impl ByteSet {
    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 7)] >> (byte & 0x7f) & 1 == 1
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 7)] |= 1 << (byte & 0x7f);
    }

    fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte >> 7)] &= !(1 << (byte & 0x7f));
    }

    /// Parses a bracket expression from just after its `[`. Returns the set
    /// and what follows the closing `]`, or `None` if malformed.
    ///
    /// A set never contains `/`, not even by negation.
    fn parse(glob: &[u8]) -> Option<(Self, &[u8])> {
        let (negated, mut rest) = match glob {
            [b'!' | b'^', rest @ ..] => (true, rest),
            _ => (false, glob),
        };
        let mut set = Self::default();
        // A possible start of a range: the previous single byte.
        let mut range_start = None;
        let mut first = true;
        loop {
            let (&byte, tail) = rest.split_first()?;
            rest = tail;
            match (byte, range_start) {
                (b']', _) if !first => break,
                (b'-', Some(start)) if rest.first().is_some_and(|&b| b != b']') => {
                    let (end, tail) = unescape(rest)?;
                    rest = tail;
                    // An inverted range is empty (though its start, already
                    // seen, stays in the set).
                    (start..=end).for_each(|b| set.insert(b));
                    range_start = None;
                }
                (b'[', _) if rest.starts_with(b":") => {
                    // The name extends to the next `]`, which must follow a `:`.
                    let close = 1 + rest[1..].iter().position(|&b| b == b']')?;
                    match rest[1..close].split_last() {
                        Some((b':', name)) => {
                            let is_member = named_class(name)?;
                            (0..=0x7f).filter(is_member).for_each(|b| set.insert(b));
                            rest = &rest[close + 1..];
                            range_start = None;
                        }
                        _ => {
                            set.insert(b'[');
                            range_start = Some(b'[');
                        }
                    }
                }
                (b'\\', _) => {
                    let (&escaped, tail) = rest.split_first()?;
                    rest = tail;
                    set.insert(escaped);
                    range_start = Some(escaped);
                }
                _ => {
                    set.insert(byte);
                    range_start = Some(byte);
                }
            }
            first = false;
        }
        if negated {
            set.0 = set.0.map(|bits| !bits);
        }
        set.remove(b'/');
        Some((set, rest))
    }
}

/// Takes one byte, or a backslash and the byte it escapes.
fn unescape(glob: &[u8]) -> Option<(u8, &[u8])> {
    match glob {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'\\'] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

/// The membership test of a POSIX class such as `alpha`, on ASCII bytes.
fn named_class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |b| matches!(b, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        // Git's notion of white space: no vertical tab or form feed.
        b"space" => |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}
