//! Flows to groups.

use super::*;

#[test]
fn a_group_gets_each_packet_at_each_member() {
    let more = "[[node]]\nname = 'c'\n[[link]]\na = 'b'\nb = 'c'\npath = 'delay=20ms'\n\
                [[flow]]\nfrom = 'a'\nto = 'b'\nalso = ['c']\ncount = 2\n";
    let scenario = parsed(&format!("{PAIR}{more}"));
    let mut simulation = Simulation::new(&scenario, 1);
    while simulation.run_for(Duration::from_secs(60)) {}
    let (report, calls) = simulation.finish_with_calls();
    let flow = &report.flows[0];
    // There are two streams of 100 packets, at each of two members.
    assert_eq!((flow.packets.sent, flow.packets.lost), (400, 0), "{flow:?}");
    assert_eq!(flow.to, "b + c");
    let delays: Vec<Option<u32>> = calls[0].iter().map(|call| call[50]).collect();
    let (near, far) = (Some(10_000), Some(30_000));
    assert_eq!(delays, [near, far, near, far], "each stream at each member");
}

#[test]
fn a_group_takes_the_ways_that_its_flow_says() {
    let bytes = |ways: &str| {
        let more = format!(
            "[[node]]\nname = 'c'\n[[link]]\na = 'b'\nb = 'c'\npath = 'delay=20ms'\n\
             [[link]]\na = 'a'\nb = 'c'\npath = 'delay=5ms'\n\
             [[flow]]\nfrom = 'a'\nto = 'b'\nalso = ['c']\nways = {ways}\n"
        );
        let scenario = parsed(&format!("{PAIR}{more}"));
        let mut simulation = Simulation::new(&scenario, 1);
        while simulation.run_for(Duration::from_secs(60)) {}
        simulation.carried_bytes()
    };
    let (one, two) = (bytes("1"), bytes("2"));
    assert!(two as f64 > 1.8 * one as f64, "{one} {two}");
    for calm in ["'1'", "'targeted'", "'auto'"] {
        assert_eq!(bytes(calm), one, "{calm}");
    }
    assert_eq!(bytes("'2'"), two);
}

#[test]
fn only_groups_have_ways_and_not_those_that_must_arrive() {
    let more = "[[node]]\nname = 'c'\n[[link]]\na = 'b'\nb = 'c'\npath = 'delay=20ms'\n\
                [[flow]]\nfrom = 'a'\nto = 'b'\n";
    for (line, says) in [
        ("ways = 2", "add `also`"),
        ("also = ['c']\nways = 3", "expected one of"),
        (
            "also = ['c']\nways = 'targetted'",
            "did you mean `targeted`?",
        ),
        (
            "also = ['c']\nclass = 'reliable'\nways = 'targeted'",
            "second ways are for what has a deadline",
        ),
    ] {
        let text = format!("{PAIR}{more}{line}\n");
        let why = Scenario::parse("test.toml", &text).unwrap_err().to_string();
        assert!(why.contains(says), "{line}: {why}");
    }
}
