use super::*;
use crate::fixture::open;

fn token() -> Token {
    Token {
        root: [1; 32],
        issuer: [2; 32],
        secret: [3; 16],
        expires_s: 1_790_000_000,
        endpoints: vec!["ams.example.net:7700".into(), "[2001:db8::7]:7700".into()],
    }
}

#[test]
fn a_token_is_one_line_and_comes_back() {
    let text = token().to_string();
    assert!(text.starts_with("sinew1-") && text.len() < 220, "{text}");
    assert!(
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    );
    assert_eq!(text.parse(), Ok(token()));
    // A token that was copied from a page has spaces around it.
    assert_eq!(format!("  {text}\r\n").parse(), Ok(token()));
    assert!(
        !format!("{:?}", token()).contains("3, 3"),
        "a secret in a log"
    );
}

#[test]
fn tokens_of_version_1_stay_as_they_are() {
    let mut fixtures = open!("token");
    let alone = Token {
        endpoints: Vec::new(),
        ..token()
    };
    for (name, token) in [("two-endpoints", token()), ("no-endpoint", alone)] {
        let text = token.to_string();
        fixtures.hold(name, text.as_bytes(), |frozen| {
            assert_eq!(str::from_utf8(frozen).unwrap().parse(), Ok(token));
        });
    }
    fixtures.end();
}

#[test]
fn tokens_that_were_cut_or_changed_are_refused_with_the_reason() {
    let text = token().to_string();
    for cut in 7..text.len() {
        assert_eq!(
            text[..cut].parse::<Token>(),
            Err(BadToken::Damaged),
            "{cut}"
        );
    }
    for at in 7..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(changed.parse::<Token>(), Err(BadToken::Damaged), "{at}");
    }
    assert_eq!("sinew2-AAAA".parse::<Token>(), Err(BadToken::Version));
    for text in ["", "sinew1", "tls://x", "sinewy-A", "AAAA"] {
        assert_eq!(text.parse::<Token>(), Err(BadToken::Prefix), "{text}");
    }
    for text in ["sinew1-", "sinew1-é", "sinew1-A", "sinew1-AAAAAA"] {
        assert_eq!(text.parse::<Token>(), Err(BadToken::Damaged), "{text}");
    }
}
