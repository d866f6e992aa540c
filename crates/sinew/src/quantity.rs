//! Times, rates and shares on the command line. Every option uses the same notation.
//!
//! A number has its unit: `200ms`, `1.5s`, `2m`, `10mbit`, `10M`, `5%`. Options with a customary
//! unit also accept a bare number in that unit: seconds for `ping -i`.

use base::{Duration, impair};
use tools::call;

/// Reads a time with its unit.
pub fn span(text: &str) -> Result<Duration, String> {
    impair::span(text).ok_or_else(|| format!("`{text}`: write a time like 200ms, 1.5s or 2m"))
}

/// Reads a time. A bare number is in seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    span_or(text, "s").map_err(|_| format!("`{text}`: write a time like 0.2, 200ms or 2m"))
}

/// Reads a time. A bare number is in milliseconds, as in earlier versions of these options.
pub fn millis(text: &str) -> Result<Duration, String> {
    span_or(text, "ms").map_err(|_| format!("`{text}`: write a time like 150ms or 0.5s"))
}

/// Reads the deadline of a call's packets. A bare number is in milliseconds.
pub fn call_deadline(text: &str) -> Result<Duration, String> {
    within(millis(text)?, call::DEADLINE_LEAST, call::DEADLINE_MOST)
}

/// Reads whole seconds, for longer times: `36`, `10m`, `24h`.
pub fn whole_seconds(text: &str) -> Result<u32, String> {
    let span = seconds(text)?;
    let whole = span.as_nanos().is_multiple_of(1_000_000_000);
    let count = u32::try_from(span.as_nanos() / 1_000_000_000).ok();
    count
        .filter(|_| whole)
        .ok_or_else(|| format!("`{text}`: write whole seconds, like 36, 10m or 24h"))
}

/// Reads a time as seconds with a fraction.
pub fn fraction_of_seconds(text: &str) -> Result<f64, String> {
    Ok(seconds(text)?.as_secs_f64())
}

/// Reads a rate in bits per second.
pub fn rate(text: &str) -> Result<u64, String> {
    impair::rate(text).ok_or_else(|| format!("`{text}`: write a rate like 10mbit or 10M"))
}

/// Reads a rate in bits per second. A bare number is in Mbit/s, as in earlier versions of these
/// options.
pub fn rate_or_mbit(text: &str) -> Result<u64, String> {
    let bare = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match bare {
        true => {
            rate(&format!("{text}mbit")).map_err(|_| format!("`{text}`: write a rate like 10mbit"))
        }
        false => rate(text),
    }
}

/// Formats a number of things: "1 tree", "3 trees".
pub fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Formats an amount of data for comparisons: three digits, and the unit in powers of ten.
pub fn bytes_in_words(bytes: u64) -> String {
    let mut amount = bytes as f64;
    for unit in ["bytes", "kB", "MB", "GB"] {
        // The limits count the value after rounding: 999 960 bytes are 1.00 MB, not 1000 kB.
        if amount < 999.5 {
            return match (unit, amount) {
                ("bytes", _) => format!("{bytes} bytes"),
                (_, ..9.995) => format!("{amount:.2} {unit}"),
                (_, ..99.95) => format!("{amount:.1} {unit}"),
                _ => format!("{amount:.0} {unit}"),
            };
        }
        amount /= 1e3;
    }
    format!("{amount:.2} TB")
}

/// Checks that a time is within limits. The error has the limits.
pub fn within(span: Duration, least: Duration, most: Duration) -> Result<Duration, String> {
    match (least..=most).contains(&span) {
        true => Ok(span),
        false => Err(format!("{span} is not from {least} to {most}")),
    }
}

fn span_or(text: &str, unit: &str) -> Result<Duration, String> {
    let bare = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match bare {
        true => span(&format!("{text}{unit}")),
        false => span(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_one_is_not_many() {
        for (bytes, words) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_960, "1.00 MB"),
            (2_666_296_657, "2.67 GB"),
            (494_145_834, "494 MB"),
            (7_000_000_000_000, "7.00 TB"),
        ] {
            assert_eq!(bytes_in_words(bytes), words);
        }
        assert_eq!(counted(1, "tree"), "1 tree");
        assert_eq!(counted(0, "tree"), "0 trees");
    }

    #[test]
    fn times_have_units_and_bare_numbers_what_habit_says() {
        let ms = Duration::from_millis;
        for (text, expected) in [("0.2", 200), ("200ms", 200), ("2", 2_000), ("2m", 120_000)] {
            assert_eq!(seconds(text), Ok(ms(expected)), "{text}");
        }
        for (text, expected) in [("150", 150), ("150ms", 150), ("0.5s", 500)] {
            assert_eq!(millis(text), Ok(ms(expected)), "{text}");
        }
        assert_eq!(span("24h"), Ok(ms(86_400_000)));
        for bad in ["", "soon", "10", "-1s", "1e3s", ".", "s"] {
            assert!(span(bad).unwrap_err().contains("write a time"), "{bad}");
        }
    }

    #[test]
    fn long_times_are_whole_seconds() {
        for (text, expected) in [("36", 36), ("10m", 600), ("24h", 86_400), ("1d", 86_400)] {
            assert_eq!(whole_seconds(text), Ok(expected), "{text}");
        }
        for bad in ["0.5", "1500ms", "1000000d", ""] {
            assert!(whole_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_written_as_elsewhere() {
        for text in ["10mbit", "10M", "10Mbit/s", "10000k", "10000000bit"] {
            assert_eq!(rate(text), Ok(10_000_000), "{text}");
            assert_eq!(rate_or_mbit(text), Ok(10_000_000), "{text}");
        }
        assert_eq!(rate_or_mbit("1000"), rate("1gbit"));
        for bad in ["10", "10mb", "fast", "/s"] {
            assert!(rate(bad).unwrap_err().contains("10mbit"), "{bad}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_told_with_its_limits() {
        let ms = Duration::from_millis;
        assert!(within(ms(5), ms(1), ms(10)).is_ok());
        let told = within(ms(50), ms(1), ms(10)).unwrap_err();
        assert!(told.contains("50.0ms") && told.contains("10.0ms"), "{told}");
    }
}
