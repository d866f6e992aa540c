//! Formats days, points in time and time spans for people.

/// Returns the date of a time in seconds since 1970, in UTC: `2026-11-21`.
pub fn day(unix_s: u64) -> String {
    let (year, month, day) = civil(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the time of day of a time in seconds since 1970, in UTC: `13:05:09`.
pub fn clock(unix_s: u64) -> String {
    let s = unix_s % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60)
}

/// Returns the date and time, in UTC, at which something ends, given in seconds since 1970: `2026-11-21 08:40:05 UTC`.
pub fn until(unix_s: u64) -> String {
    format!("{} {} UTC", day(unix_s), clock(unix_s))
}

/// Returns a time in milliseconds since 1970, in UTC, in ISO 8601 format: `2026-11-21T08:40:05.123Z`.
pub fn moment(unix_ms: u64) -> String {
    let (s, ms) = (unix_ms / 1_000, unix_ms % 1_000);
    let (hours, minutes, seconds) = (s / 3_600 % 24, s / 60 % 60, s % 60);
    format!("{}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z", day(s))
}

/// Returns the date of a day, given in days since 1970-01-01, in the Gregorian calendar. Years begin with March in this
/// computation, so that the leap day is the last day of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    // The year 0 began, with March, 719468 days before 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year_of_era + later, month, day)
}

/// Formats a time span: `3d 4h`, `2m 10s`, `5s`.
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m {:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h {:02}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d {:02}h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, expected) in [
            (0, "1970-01-01"),
            (68_169_600, "1972-02-29"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_795_219_199, "2026-11-20"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(unix_s), expected);
        }
    }

    #[test]
    fn a_clock_begins_anew_each_day() {
        assert_eq!(clock(86_400), "00:00:00");
        assert_eq!(clock(1_795_219_199), "23:59:59");
    }

    #[test]
    fn moments_are_those_of_utc() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(1_795_219_199_042), "2026-11-20T23:59:59.042Z");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, expected) in [
            (0.4, "0s"),
            (130.0, "2m 10s"),
            (3_661.0, "1h 01m"),
            (360_000.0, "4d 04h"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
