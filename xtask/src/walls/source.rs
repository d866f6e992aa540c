//! Splits a Rust file into the code and the comments.
//!
//! This is not a parser: it knows comments, string and character literals, and nothing else. That
//! is enough to ask "does the *code* name `std::fs`?" without a false alarm from a comment.

/// Two copies of a file with the same line structure. Each copy is blank where the other one has
/// text, and the contents of string and character literals are blank in both.
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) comments: String,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Source {
        let chars: Vec<char> = text.chars().collect();
        let mut source = Source {
            code: String::with_capacity(text.len()),
            comments: String::new(),
        };
        let mut at = 0;
        while at < chars.len() {
            let (kind, end) = next_piece(&chars, at);
            for &c in &chars[at..end] {
                let blank = if c == '\n' { '\n' } else { ' ' };
                source.code.push(if kind == Kind::Code { c } else { blank });
                source
                    .comments
                    .push(if kind == Kind::Comment { c } else { blank });
            }
            at = end;
        }
        source
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Returns the kind of the piece that begins at `at`, and its end. A piece of code is one character
/// long.
fn next_piece(chars: &[char], at: usize) -> (Kind, usize) {
    let peek = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
    match chars[at] {
        '/' if peek(1) == '/' => (Kind::Comment, end_of_line(chars, at)),
        '/' if peek(1) == '*' => (Kind::Comment, end_of_block_comment(chars, at)),
        '"' => (Kind::Literal, end_of_quoted(chars, at + 1, '"')),
        'r' if begins_raw_string(chars, at) => (Kind::Literal, end_of_raw_string(chars, at + 1)),
        // `'a'` and `'\n'` are literals, `'a` is a lifetime.
        '\'' if peek(1) == '\\' || peek(2) == '\'' => {
            (Kind::Literal, end_of_quoted(chars, at + 1, '\''))
        }
        _ => (Kind::Code, at + 1),
    }
}

fn end_of_line(chars: &[char], at: usize) -> usize {
    chars[at..]
        .iter()
        .position(|&c| c == '\n')
        .map_or(chars.len(), |length| at + length)
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
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
    chars.len()
}

fn end_of_quoted(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Returns true for `r"`, `r#"`, also after the `b` or `c` of a byte or C string, but not for the
/// raw identifier `r#type`.
fn begins_raw_string(chars: &[char], at: usize) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = chars[..at].iter().rev();
    let prefix_ok = match before.next() {
        Some('b' | 'c') => !before.next().copied().is_some_and(is_name),
        Some(&c) => !is_name(c),
        None => true,
    };
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    prefix_ok && chars.get(at + 1 + hashes) == Some(&'"')
}

fn end_of_raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    let mut at = at + hashes + 1;
    while at < chars.len() {
        let closing = chars[at + 1..]
            .iter()
            .take(hashes)
            .filter(|&&c| c == '#')
            .count();
        if chars[at] == '"' && closing == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "let a = \"x // y\"; // std::fs\n/* std::net /* nested */ */ let b = 'c';\n";
        let source = Source::parse(text);
        assert_eq!(
            source.code,
            "let a =         ;           \n                            let b =    ;\n"
        );
        assert!(source.comments.contains("// std::fs\n"));
        assert!(source.comments.contains("nested"));
        assert!(!source.comments.contains("let"));
    }

    #[test]
    fn every_kind_of_literal_ends_where_it_ends() {
        for text in [
            r##"r#"a " b"# end"##,
            r#""a \" b" end"#,
            r"b'\'' end",
            r#"br"a \" end"#,
            "'\\\\' end",
            "r\"\" end",
        ] {
            let source = Source::parse(text);
            assert!(source.code.ends_with(" end"), "{text}: {}", source.code);
            assert!(!source.code.contains('a'), "{text}: {}", source.code);
        }
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        let text = "fn f<'a>(x: &'a str, r#type: &'static u8) {} // '";
        let source = Source::parse(text);
        assert!(source.code.contains("&'a str, r#type: &'static u8) {}"));
    }

    #[test]
    fn an_open_literal_or_comment_runs_to_the_end() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\"] {
            let source = Source::parse(text);
            assert_eq!(source.code.trim(), "", "{text}");
            assert_eq!(source.code.len(), text.len());
        }
    }
}
