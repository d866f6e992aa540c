//! Settings from files, including useless ones.

use super::*;

/// Whatever a file may set, nodes continue: useless values give bad service, but nothing breaks.
#[test]
fn no_value_of_a_setting_breaks_a_node() {
    const VALUES: [&str; 14] = [
        "0",
        "1",
        "100",
        "0.001",
        "10",
        "1000000",
        "18446744073709551615",
        "\"0ms\"",
        "\"1ms\"",
        "\"86400s\"",
        "true",
        "false",
        "\"off\"",
        "\"tahoe\"",
    ];
    let more = "[[flow]]\nfrom = 'a'\nto = 'b'\n[[flow]]\nname = 's'\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'reliable'\n";
    let lossy = PAIR.replace("delay=10ms", "delay=10ms loss=10% rate=200kbit");
    let mut taken = 0;
    for key in Settings::keys() {
        for value in VALUES {
            for profile in ["modern", "paper"] {
                let text = lossy.replace(
                    "duration = '2s'",
                    &format!("duration = '2s'\nsettle = '1s'\nprofile = '{profile}'"),
                );
                let text = format!("{text}{more}[settings]\n{key} = {value}\n");
                if let Ok(scenario) = Scenario::parse("test.toml", &text) {
                    let report = simulate(&scenario, 1);
                    taken += usize::from(report.flows.len() == 2);
                }
            }
        }
    }
    assert!(taken > 4 * Settings::keys().len(), "{taken}");
}
