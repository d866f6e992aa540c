//! Every key can be set, is documented, and refuses nonsense.

use super::*;

#[test]
fn every_key_can_be_set_and_is_the_one_that_changes() {
    const VALUES: [&str; 14] = [
        "77ms", "4", "0.25", "hop", "false", "true", "reno", "off", "on", "prefer", "paper",
        "measured", "7", "0.05",
    ];
    let before = format!("{:?}", Settings::modern());
    for key in Settings::keys() {
        let changes = |value: &&&str| {
            let mut settings = Settings::modern();
            settings.set(key, value).is_ok() && format!("{settings:?}") != before
        };
        let value = VALUES.iter().find(changes);
        let value = value.unwrap_or_else(|| panic!("{key}"));
        if key == BRAKE {
            continue;
        }
        let (mut changed, mut profile) = (Settings::modern(), Settings::modern());
        changed.set(key, value).unwrap();
        let fields = changed.fields().into_iter().zip(profile.fields());
        let other = fields.filter(|((_, a), (_, b))| format!("{a:?}") != format!("{b:?}"));
        let other: Vec<_> = other.map(|((key, _), _)| key).collect();
        assert_eq!(other, [key]);
    }
    let mut paper = Settings::paper();
    paper.set("brake_gamma", "0.5").unwrap();
    assert_eq!(paper.brake.unwrap().gamma, 0.5);
}

#[test]
fn the_documentation_has_every_key() {
    let page = include_str!("../../../../../docs/operation.md");
    for key in Settings::keys() {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn what_is_not_a_setting_is_told_with_all_there_are() {
    let mut settings = Settings::modern();
    let unknown = settings
        .set("hello_intervall", "1s")
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("`hello_intervall`") && unknown.contains("hello_interval,"));
    for (key, value) in [
        ("hello_interval", "0ms"),
        ("hello_interval", "fast"),
        ("link_up_hellos", "0"),
        ("recovery_strikes", "6"),
        ("recovery_ratio", "NaN"),
        ("protect", "always"),
        ("paths", "two"),
        ("outage_price", "2000000s"),
        ("brake", "slowly"),
        ("recovery_burst", "inf"),
        ("recovery_tail_probes", "256"),
        ("reliable_congestion", "fast"),
        ("seal_ends", "yes"),
        ("post_quantum", "always"),
        ("metric", "mine"),
        ("direct_links", "1"),
        ("protect_target", "0"),
        ("protect_target", "0.0000009"),
        ("protect_target", "0.066"),
        ("protect_most", "2.6"),
        ("protect_most_single", "-0.1"),
    ] {
        let before = format!("{settings:?}");
        assert!(settings.set(key, value).is_err(), "{key} {value}");
        assert_eq!(format!("{settings:?}"), before);
    }
}

#[test]
fn an_error_names_every_kind_of_protection_and_the_range_of_a_number() {
    let refused = |key: &str, value: &str| {
        let refused = Settings::modern().set(key, value).unwrap_err();
        refused.to_string()
    };
    assert_eq!(
        refused("protect", "autox"),
        "`protect`: expected one of `auto`, `off`, `requests`, `hop`, `end-to-end`, `paths`"
    );
    assert_eq!(
        refused("protect_target", "10"),
        "`protect_target`: expected a share of packets from 0.000001 to 0.065 (6.5 %)"
    );
    assert_eq!(
        refused("protect_most", "10"),
        "`protect_most`: expected a number of repair packets per packet from 0 to 2.54"
    );
    for (key, least, most) in [
        ("protect_target", "0.000001", "0.065"),
        ("protect_most", "0", "2.54"),
        ("protect_most_single", "0", "2.54"),
    ] {
        for value in [least, most] {
            Settings::modern().set(key, value).unwrap();
        }
    }
}
