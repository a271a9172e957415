//! Text that compresses like C source.
//!
//! A file is a chain of blocks drawn from templates, filled with names that the files of its directory
//! share; now and then it repeats a passage of its own. The proportions were tuned against Linux 6.1:
//! zlib shrinks a file 3.4 times at level 1 and 4.1 times at level 6 (`fs/`: 3.3 and 3.9; `drivers/net/`:
//! 3.7 and 4.4), and zstd gains another eighth from a window over many files, as it does there.
//! Text of one repeated line, or of random bytes, would flatter one contender or the other.

use super::phrases::{
    DECLARATIONS, ERRORS, FUNCTIONS, HEADER_OPENING, PARAGRAPHS, SOURCE_OPENING, STATEMENTS, stems, words,
};
use super::random::Random;

/// What a generated file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Source,
    Header,
    Prose,
    Binary,
}

impl Kind {
    pub fn extension(self) -> &'static str {
        match self {
            Self::Source => "c",
            Self::Header => "h",
            Self::Prose => "rst",
            Self::Binary => "bin",
        }
    }
}

/// The names that the files of one directory share.
struct Names {
    prefix: String,
    variables: Vec<String>,
    members: Vec<String>,
    types: Vec<String>,
    functions: Vec<String>,
    constants: Vec<String>,
}

impl Names {
    fn of_directory(directory: usize) -> Self {
        let mut random = Random::for_item(0xd1, directory);
        let prefix = format!("{}{}", random.pick(stems()), random.below(90));
        let mut compound = |count: usize, left: &str| -> Vec<String> {
            (0..count).map(|_| join(left, random.pick(stems()), random.pick(stems()))).collect()
        };
        let types = compound(8, &prefix);
        let mut functions = compound(24, &prefix);
        functions.extend(compound(24, ""));
        let members = compound(40, "");
        let constants = compound(30, &prefix).into_iter().map(|name| name.to_uppercase()).collect();
        let variables = (0..16).map(|_| random.pick(stems()).to_owned()).collect();
        Self { prefix, variables, members, types, functions, constants }
    }
}

fn join(left: &str, middle: &str, right: &str) -> String {
    if left.is_empty() { format!("{middle}_{right}") } else { format!("{left}_{middle}_{right}") }
}

/// Writes one file.
struct Writer<'a> {
    random: Random,
    names: Names,
    text: &'a mut Vec<u8>,
}

/// The content of file number `index`, which lies in `directory`: `size` bytes, more or less a line.
pub fn write_file(text: &mut Vec<u8>, kind: Kind, directory: usize, index: usize, size: usize) {
    text.clear();
    let mut writer =
        Writer { random: Random::for_item(0xf1, index), names: Names::of_directory(directory), text };
    match kind {
        Kind::Binary => writer.binary(size),
        Kind::Prose => writer.until(size, PARAGRAPHS),
        Kind::Header => {
            writer.fill(HEADER_OPENING);
            writer.until(size, DECLARATIONS);
        }
        Kind::Source => writer.source(size),
    }
}

/// A few new lines, as an edit would bring them.
pub fn write_edit(text: &mut Vec<u8>, random: &mut Random) {
    let seed = random.next();
    let mut writer =
        Writer { random: Random::new(seed), names: Names::of_directory(seed as usize % 1000), text };
    let template = writer.random.pick(STATEMENTS);
    writer.fill(template);
}

impl Writer<'_> {
    fn source(&mut self, size: usize) {
        self.fill(SOURCE_OPENING);
        self.until(size.min(600), DECLARATIONS);
        while self.text.len() < size {
            if self.text.len() > 2_000 && self.random.chance(30) {
                self.repeat();
            } else {
                self.function();
            }
        }
    }

    fn function(&mut self) {
        let opening = self.random.pick(FUNCTIONS);
        self.fill(opening);
        for _ in 0..2 + self.random.skewed(14) {
            let statement = self.random.pick(STATEMENTS);
            self.fill(statement);
        }
        self.fill("\n\treturn ret;\n}\n\n");
    }

    /// Says again, word for word, what stands somewhere above: people copy and paste.
    fn repeat(&mut self) {
        let length = 100 + self.random.skewed(900);
        let start = self.random.below(self.text.len() - length);
        self.text.extend_from_within(start..start + length);
    }

    fn until(&mut self, size: usize, templates: &[&str]) {
        while self.text.len() < size {
            let template = self.random.pick(templates);
            self.fill(template);
        }
    }

    /// Half noise, half a table with small numbers: firmware and pictures are about like this.
    fn binary(&mut self, size: usize) {
        self.text.extend_from_slice(b"\x7fDATA\0\0\0");
        while self.text.len() < size {
            let noise = self.random.next();
            let word = if self.text.len() % 1024 < 512 { noise } else { noise & 0x0f00 };
            self.text.extend_from_slice(&word.to_le_bytes());
        }
        self.text.truncate(size.max(8));
    }

    /// Appends a template with every placeholder filled.
    fn fill(&mut self, template: &str) {
        let mut pieces = template.split('$');
        self.text.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
        for piece in pieces {
            let (letter, rest) = piece.split_at(1);
            self.placeholder(letter.as_bytes()[0]);
            self.text.extend_from_slice(rest.as_bytes());
        }
    }

    fn placeholder(&mut self, letter: u8) {
        let Self { random, names, text } = self;
        let name: &str = match letter {
            b'v' => random.pick_skewed(&names.variables),
            b'm' => random.pick_skewed(&names.members),
            b't' => random.pick_skewed(&names.types),
            b'f' => random.pick_skewed(&names.functions),
            b'k' => random.pick_skewed(&names.constants),
            b'n' => random.pick(stems()),
            b'w' => random.pick_skewed(words()),
            b'e' => random.pick_skewed(ERRORS),
            b's' => return self.sentence(),
            b'd' => return text.extend_from_slice(random.skewed(100).to_string().as_bytes()),
            b'x' => {
                return text.extend_from_slice(format!("0x{:04x}", random.skewed(1 << 16)).as_bytes());
            }
            b'F' => {
                return text.extend_from_slice(
                    join(&names.prefix, random.pick(stems()), random.pick(stems())).as_bytes(),
                );
            }
            _ => {
                let name = join(&names.prefix, random.pick(stems()), random.pick(stems())).to_uppercase();
                return text.extend_from_slice(name.as_bytes());
            }
        };
        text.extend_from_slice(name.as_bytes());
    }

    fn sentence(&mut self) {
        for position in 0..4 + self.random.below(7) {
            if position > 0 {
                self.text.push(b' ');
            }
            let word = self.random.pick_skewed(words());
            self.text.extend_from_slice(word.as_bytes());
        }
    }
}
