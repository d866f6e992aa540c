//! Links with two paths.

use super::*;

#[test]
fn a_link_with_a_second_path_outlasts_the_first() {
    const MORE: &str = "[[flow]]\nfrom = 'a'\nto = 'b'\n[[flow]]\nname = 'back'\nfrom = 'b'\nto = 'a'\n\
        [[fault]]\nat = '5s'\nkind = 'link-down'\na = 'a'\nb = 'b'\n";
    let text = |second: &str| format!("{PAIR}{second}{MORE}").replace("'2s'", "'10s'");
    let lost = |text: &str| simulate(&parsed(text), 1).flows[0].packets.lost;
    let (one, two) = (lost(&text("")), lost(&text("second = 'delay=15ms'\n")));
    assert!(one > 200 && two < 10, "{one} {two}");
    // In the opposite case the second path fails, which nobody needs.
    let other = format!("{}second = true\n", text("second = 'delay=15ms'\n"));
    assert_eq!(lost(&other), 0);
    let none = format!("{}second = true\n", text(""));
    let mistake = Scenario::parse("test.toml", &none).unwrap_err();
    assert!(
        mistake.to_string().contains("no `second` path"),
        "{mistake}"
    );
}
