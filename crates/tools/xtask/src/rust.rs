//! Lexical views of a Rust file: code without comments and literals, comments alone, and which lines are test-only.
//!
//! No parser: a scanner that knows comments, strings and characters is enough to count lines and find words, and it
//! also reads code that does not compile yet.

use std::ops::Range;

/// The views. Each has the lines of the file, with everything else replaced by spaces.
pub struct Rust {
    /// Code: comments and the content of literals are blank.
    pub code: String,
    /// Comments only.
    pub comments: String,
    /// Code without test-only modules, functions and implementations.
    pub production: String,
}

/// A function with its place and size.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The line of its `fn`, 1-based.
    pub line: usize,
    /// Tokens from `fn` to the closing brace.
    pub tokens: usize,
    /// Where its body stands, from brace to brace.
    pub body: Range<usize>,
}

/// A type with its place.
#[derive(Debug, PartialEq, Eq)]
pub struct Type<'a> {
    /// Its name.
    pub name: &'a str,
    /// The line on which it is defined, 1-based.
    pub line: usize,
    /// Named fields, if it is a struct.
    pub fields: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Rust {
    /// Scans a file's text.
    pub fn scan(text: &str) -> Self {
        let kinds = kinds(text.as_bytes());
        let code = keep(text, &kinds, Kind::Code);
        let comments = keep(text, &kinds, Kind::Comment);
        let production = without_tests(&code);

        Self {
            code,
            comments,
            production,
        }
    }

    /// Tokens outside test-only code.
    pub fn tokens(&self) -> usize {
        tokens(&self.production)
    }

    /// The functions with a body, outside test-only code.
    pub fn functions(&self) -> Vec<Function<'_>> {
        words(&self.production, "fn")
            .filter_map(|at| function(&self.production, at))
            .collect()
    }

    /// The types that are defined outside functions, implementations and test-only code.
    pub fn types(&self) -> Vec<Type<'_>> {
        let mut types = Vec::new();
        for keyword in ["struct", "enum", "trait", "type", "union"] {
            let starts =
                words(&self.production, keyword).filter(|at| is_outermost(&self.production, *at));
            types.extend(starts.map(|at| definition(&self.production, keyword, at)));
        }
        types
    }
}

/// Where `word` stands as a whole word.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_name =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let bytes = text.as_bytes();
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            !part_of_name(before) && !part_of_name(bytes.get(at + word.len()))
        })
}

/// The 1-based line of a byte offset.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The identifier at the start of the text, after white space.
pub fn identifier(text: &str) -> &str {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let name = identifier(&code[at + 2..]);
    let open = body(code, at)?;
    let end = closing(code, open);
    let tokens = tokens(code.get(at..=end).unwrap_or(&code[at..]));

    (!name.is_empty()).then_some(Function {
        name,
        line: line_of(code, at),
        tokens,
        body: open..end,
    })
}

/// Does the line begin with the item, its visibility aside?
fn is_outermost(code: &str, at: usize) -> bool {
    let start = code[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = code[start..at].trim_end();
    before.is_empty() && start == at || before == "pub" || before.starts_with("pub(")
}

fn definition<'a>(code: &'a str, keyword: &str, at: usize) -> Type<'a> {
    let name = identifier(&code[at + keyword.len()..]);
    let fields = match body(code, at) {
        Some(open) if keyword == "struct" => fields(&code[open + 1..closing(code, open)]),
        _ => 0,
    };

    Type {
        name,
        line: line_of(code, at),
        fields,
    }
}

/// The named fields in the body of a struct: the colons that stand by themselves, outside of any brackets.
fn fields(body: &str) -> usize {
    let mut depth = 0_i32;
    let mut count = 0;
    let mut before = ' ';

    for (at, char) in body.char_indices() {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            ':' if depth == 0 && before != ':' && !body[at + 1..].starts_with(':') => count += 1,
            _ => {}
        }
        before = char;
    }

    count
}

/// How many things code says: words, numbers and signs. Literals count for nothing, so that data does not weigh more than the code that
/// uses it, and neither do white space and comments, so that air and reasons are free.
pub fn tokens(code: &str) -> usize {
    const PAIRS: [&str; 16] = [
        "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "..", "+=", "-=", "*=", "/=", "|=",
        "&=",
    ];
    let mut count = 0;
    let mut rest = code.trim_start();

    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|char: char| !char.is_alphanumeric() && char != '_')
            .unwrap_or(rest.len());
        let length = match word {
            0 if PAIRS.iter().any(|pair| rest.starts_with(pair)) => 2,
            0 => first.len_utf8(),
            word => word,
        };

        count += 1;
        rest = rest[length..].trim_start();
    }

    count
}

/// The offset of the brace that opens the item's body, or nothing when a semicolon ends it first.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[from..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(from + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }

    None
}

/// The offset of the brace that closes the one at `open`; the end of the text when there is none.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset,
            b'}' => depth -= 1,
            _ => {}
        }
    }

    code.len()
}

/// Blanks test-only items.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut production = code.as_bytes().to_vec();
    let mut from = 0;

    while let Some(at) = code[from..].find(MARK).map(|offset| from + offset) {
        from = at + MARK.len();
        let has_body = matches!(item_keyword(&code[from..]), "mod" | "fn" | "impl");
        if let Some(open) = body(code, from).filter(|_| has_body) {
            from = code.len().min(closing(code, open) + 1);
            production[at..from]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
                .for_each(|byte| *byte = b' ');
        }
    }

    String::from_utf8_lossy(&production).into_owned()
}

/// The keyword of an item, after its attributes and its visibility.
fn item_keyword(text: &str) -> &str {
    let text = text.trim_start();
    let after = |close| text.split_once(close).map_or("", |(_, after)| after);
    match identifier(text) {
        "" if text.starts_with("#[") => item_keyword(after(']')),
        "pub" if text.starts_with("pub(") => item_keyword(after(')')),
        "pub" | "async" | "const" | "unsafe" => item_keyword(after(' ')),
        keyword => keyword,
    }
}

/// Bytes of one kind and all line ends; other bytes become spaces.
fn keep(text: &str, kinds: &[Kind], kind: Kind) -> String {
    let kept = |(byte, of): (u8, &Kind)| {
        if *of == kind || byte == b'\n' {
            byte
        } else {
            b' '
        }
    };

    let bytes: Vec<u8> = text.bytes().zip(kinds).map(kept).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The kind of each byte of a Rust text: code, comment or literal.
fn kinds(text: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; text.len()];
    let mut at = 0;
    while at < text.len() {
        let (kind, end) = token(text, at);
        let end = end.min(text.len());
        kinds[at..end].fill(kind);
        at = end;
    }

    kinds
}

/// The kind and the end of the piece that begins at `at`.
fn token(text: &[u8], at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    if rest.starts_with(b"//") {
        let end = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        return (Kind::Comment, at + end);
    }

    if rest.starts_with(b"/*") {
        return (Kind::Comment, at + block_comment(rest));
    }
    if let Some(length) = raw_string(text, at) {
        return (Kind::Literal, at + length);
    }

    match rest[0] {
        b'"' => (Kind::Literal, at + quoted(rest, b'"')),
        b'\'' if is_character(rest) => (Kind::Literal, at + quoted(rest, b'\'')),
        _ => (Kind::Code, at + 1),
    }
}

/// The length of a block comment; they nest.
fn block_comment(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        match text.get(at..at + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }

        at += 2;
        if depth == 0 {
            return at;
        }
    }

    at
}

/// The length of a raw string (`r"..."`, `br#"..."#`) that begins at `at`.
fn raw_string(text: &[u8], at: usize) -> Option<usize> {
    let after_name = at > 0 && (text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_');
    let prefix = [&b"br"[..], b"cr", b"r"]
        .into_iter()
        .find(|prefix| text[at..].starts_with(prefix))?;
    let hashes = text[at + prefix.len()..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = at + prefix.len() + hashes;

    if after_name || text.get(open) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let content = &text[open + 1..];
    let length = content
        .windows(close.len())
        .position(|window| window == close)
        .unwrap_or(content.len());

    Some(open + 1 + length + close.len() - at)
}

/// The length of a literal with escapes, quotes included.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character literal, in contrast to a lifetime.
fn is_character(text: &[u8]) -> bool {
    match text.get(1) {
        Some(b'\\') => true,
        Some(byte) if byte.is_ascii() => text.get(2) == Some(&b'\''),
        Some(_) => true,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_view_blanks_comments_and_literals_and_keeps_lines() {
        let rust = Rust::scan("let a = \"x\\\"y\"; // one\n/* 2 /* 3 */ */ let b = r#\"q\"#;\n");
        assert_eq!(
            rust.code,
            "let a =       ;       \n                let b =       ;\n"
        );
        assert_eq!(
            rust.comments.trim_end(),
            "                // one\n/* 2 /* 3 */ */"
        );
    }

    #[test]
    fn a_lifetime_does_not_open_a_character() {
        let rust = Rust::scan("fn f<'a>(x: &'a str) -> char { '\\'' } // end");
        assert!(rust.code.contains("fn f<'a>(x: &'a str)"));
        assert!(rust.comments.contains("// end"));
        assert!(
            Rust::scan("let q = '\"'; // end")
                .comments
                .contains("// end")
        );
    }

    #[test]
    fn functions_are_measured_from_fn_to_closing_brace() {
        let rust = Rust::scan(
            "fn one(x: [u8; 4]) -> u8\n{\n    { 1 }\n}\ntrait T { fn two(); }\ntype F = fn(u8);\n",
        );
        assert_eq!(
            rust.functions(),
            [Function {
                name: "one",
                line: 1,
                tokens: 18,
                body: 25..37,
            }]
        );
    }

    #[test]
    fn tokens_are_words_numbers_and_signs() {
        assert_eq!(tokens("let a_1 = b::c(2)?;\n\n    x += 0.5;"), 11 + 6);
        assert_eq!(Rust::scan("let a = \"many words\"; // more\n").tokens(), 4);
    }

    #[test]
    fn types_are_found_with_their_fields() {
        let text = "pub struct A {\n    a: B<u8, C>,\n    pub b: fn(x: u8) -> D<E>,\n}\nimpl A {\n    type X = u8;\n}\nenum F { G { h: u8 } }\n";
        let found = Rust::scan(text);
        let found: Vec<_> = found
            .types()
            .into_iter()
            .map(|found| (found.name, found.line, found.fields))
            .collect();
        assert_eq!(found, [("A", 1, 2), ("F", 8, 0)]);
    }

    #[test]
    fn test_modules_do_not_count() {
        let rust =
            Rust::scan("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(
            rust.functions()
                .iter()
                .map(|function| function.name)
                .collect::<Vec<_>>(),
            ["a", "c"]
        );
    }

    #[test]
    fn other_attributes_and_visibility_do_not_hide_a_test_module() {
        let rust = Rust::scan(
            "#[cfg(test)]\n#[expect(missing_docs)]\npub(crate) mod support {\n}\nstruct A;\n",
        );
        assert_eq!(rust.tokens(), 3);
    }

    #[test]
    fn an_outer_test_file_takes_nothing_away() {
        assert_eq!(
            Rust::scan("#[cfg(test)]\nmod tests;\nfn a() {}\n")
                .functions()
                .len(),
            1
        );
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("fn fnord xfn fn", "fn").collect::<Vec<_>>(), [0, 13]);
    }
}
