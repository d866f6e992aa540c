//! Shares on the command line: `5%` or `0.05`.

/// The text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share: write it like 5% or 0.05, between 0 and {1}")]
pub struct BadShare(String, String);

/// Reads a share of one: `5%` and `0.05` are the same.
///
/// # Errors
/// [`BadShare`] when it is no number, or not between 0 and 1.
pub fn parse(text: &str) -> Result<f64, BadShare> {
    up_to(1.0, text)
}

/// Reads a share that may be as large as `most`.
///
/// # Errors
/// [`BadShare`] when it is no number, or not between 0 and `most`.
pub fn up_to(most: f64, text: &str) -> Result<f64, BadShare> {
    let bad = || BadShare(text.to_owned(), most.to_string());
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    // `parse` would also take `inf`, `nan`, signs and exponents.
    if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(bad());
    }
    let share = number.parse::<f64>().map_err(|_| bad())? / scale;
    if share <= most { Ok(share) } else { Err(bad()) }
}

/// Formats a share as people write it: `5%`.
#[must_use]
pub fn percent(share: f64) -> String {
    let hundredths = (share * 1e4).round() / 100.0;
    format!("{hundredths}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_and_fraction_are_the_same() {
        assert_eq!(parse("5%"), parse("0.05"));
        assert_eq!(parse("0"), Ok(0.0));
        assert_eq!(parse("100%"), Ok(1.0));
        assert_eq!(parse("12.5%"), Ok(0.125));
        assert_eq!(up_to(2.54, "254%"), Ok(2.54));
        assert!(up_to(2.54, "2.6").is_err() && up_to(2.54, "-0").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "", "%", "5", "101%", "-5%", "inf", "nan", "1e-2", "five", "5 %", "1.1.1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn printed_shares_read_back() {
        for share in [0.0, 0.05, 0.125, 0.25, 1.0] {
            assert_eq!(parse(&percent(share)), Ok(share));
        }
        assert_eq!(percent(0.07), "7%");
    }
}
