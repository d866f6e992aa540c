//! Flows over connections: messages, requests and answers, bulk; over the overlay and by TCP.

use super::*;

/// Two hops of 10 Mbit/s for five seconds, whose buffers hold 20 ms.
const HOPS: &str = "[scenario]\nname = 'hops'\nduration = '6s'\n\
    [[node]]\nname = 'a'\n[[node]]\nname = 'r'\n[[node]]\nname = 'b'\n\
    [[link]]\na = 'a'\nb = 'r'\npath = 'delay=10ms rate=10mbit queue=18'\n\
    [[link]]\na = 'r'\nb = 'b'\npath = 'delay=10ms rate=10mbit queue=18'\n\
    [measure]\nfrom = '2s'\n";

fn mistake(more: &str) -> String {
    Scenario::parse("test.toml", &format!("{PAIR}{more}"))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_reliable_stream_brings_everything_however_late() {
    let outage = "[[fault]]\nat = '500ms'\nkind = 'link-down'\na = 'a'\nb = 'b'\n\
                  [[fault]]\nat = '900ms'\nkind = 'link-up'\na = 'a'\nb = 'b'\n";
    let flow =
        "[[flow]]\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'reliable'\ndeadline = '100ms'\n";
    let long = PAIR.replace("duration = '2s'", "duration = '4s'");
    let scenario = parsed(&format!("{long}{flow}{outage}"));
    let packets = &simulate(&scenario, 1).flows[0].packets;
    assert_eq!((packets.sent, packets.lost), (200, 0), "{packets:?}");
    assert!((15..60).contains(&packets.late), "{packets:?}");
    assert_eq!(packets.reordered, 0);
}

#[test]
fn messages_expire_where_the_file_says_so() {
    let flow = "[[flow]]\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'best-effort'\n\
                deadline = '100ms'\nexpires = true\n";
    let outage = "[[fault]]\nat = '500ms'\nkind = 'link-down'\na = 'a'\nb = 'b'\n\
                  [[fault]]\nat = '900ms'\nkind = 'link-up'\na = 'a'\nb = 'b'\n";
    let packets = &run(&format!("{flow}{outage}")).flows[0].packets;
    // The outage is 0.4 s plus the recovery: messages in this span are given up, and the others do not wait for them.
    assert!((15..40).contains(&packets.lost), "{packets:?}");
    assert!(packets.late < 10, "{packets:?}");
    assert!(mistake("[[flow]]\nfrom = 'a'\nto = 'b'\nexpires = true\n").contains("stream = true"));
}

#[test]
fn a_question_beside_bulk_is_answered_after_a_round_trip_and_bulk_fills_the_path() {
    let flow = "[[flow]]\nfrom = 'a'\nto = 'b'\nclass = 'reliable'\nstream = true\n";
    let echo = "name = 'echo'\npattern = 'cbr'\nrate = '10kbit'\npacket = 64\nanswered = true\n";
    let bulk = "name = 'bulk'\ncount = 2\npattern = 'bulk'\n";
    let report = |more: &str| {
        let scenario = parsed(&format!("{HOPS}{flow}{echo}{more}"));
        simulate(&scenario, 1)
    };
    let alone = report("");
    let packets = &alone.flows[0].packets;
    assert_eq!((packets.lost, packets.reopened), (0, 0), "{packets:?}");
    let p50 = packets.delay_ms.p50.unwrap();
    assert!((40.0..44.0).contains(&p50), "{packets:?}");
    let both = report(&format!("{flow}{bulk}"));
    let (echo, bulk) = (&both.flows[0].packets, &both.flows[1]);
    assert_eq!((echo.lost, echo.reopened), (0, 0), "{echo:?}");
    let p99 = echo.delay_ms.p99.unwrap();
    assert!(p99 > p50 && p99 <= p50 + 40.0, "{echo:?}");
    assert!((9.0e6..10e6).contains(&bulk.goodput_bps), "{bulk:?}");
    assert_eq!(bulk.packets.bulk_bytes as f64 * 8.0 / 4.0, bulk.goodput_bps);
}

#[test]
fn tcp_goes_over_its_own_path_or_shares_that_of_a_link() {
    let tcp = |more: &str| format!("[[flow]]\nfrom = 'a'\nto = 'r'\ntcp = 'newreno'\n{more}");
    let own = tcp("pattern = 'bulk'\npath = 'delay=20ms rate=2mbit queue=20'\n");
    let echo = tcp("name = 'echo'\nanswered = true\npath = 'delay=20ms'\n");
    let shared = tcp("name = 'shared'\ncount = 2\npattern = 'bulk'\nshared = true\n");
    let stream =
        "[[flow]]\nfrom = 'a'\nto = 'r'\nstream = true\nclass = 'reliable'\npattern = 'bulk'\n";
    let text = format!("{HOPS}{own}{echo}{shared}{stream}");
    let long = text.replace("duration = '6s'", "duration = '20s'");
    let report = simulate(&parsed(&long), 1);
    let [own, echo, shared, stream] = &report.flows[..] else {
        panic!("{report:?}");
    };
    assert_eq!((own.name.as_str(), own.carrier), ("a-r newreno", "tcp"));
    assert!((1.7e6..2e6).contains(&own.goodput_bps), "{own:?}");
    let packets = &echo.packets;
    assert_eq!((packets.sent, packets.lost), (900, 0), "{packets:?}");
    assert_eq!(packets.delay_ms.p50, Some(40.0));
    // The streams of one link together count as one flow, which shares with the two TCP connections.
    let all = shared.goodput_bps + stream.goodput_bps;
    assert!((8.5e6..10e6).contains(&all), "{shared:?} {stream:?}");
    let share = stream.goodput_bps / all;
    assert!((0.15..0.6).contains(&share), "{share}");
    // A fault of the link affects all flows that share it.
    let cut = "[[fault]]\nat = '3s'\nkind = 'link-down'\na = 'a'\nb = 'r'\n";
    let report = simulate(&parsed(&format!("{long}{cut}")), 1);
    assert!(report.flows[2].goodput_bps < 1e6, "{:?}", report.flows[2]);
    assert!(report.flows[0].goodput_bps > 1.7e6, "{:?}", report.flows[0]);
}

#[test]
fn what_no_connection_can_do_is_told_by_its_key() {
    let flow = |more: &str| mistake(&format!("[[flow]]\nfrom = 'a'\nto = 'b'\n{more}"));
    for (more, word) in [
        ("answered = true\n", "answered"),
        ("pattern = 'bulk'\n", "pattern"),
        (
            "stream = true\npattern = 'bulk'\n",
            "give every link a `rate`",
        ),
        ("tcp = 'fack'\n", "shared = true"),
        (
            "tcp = 'fack'\nstream = true\npath = 'clean'\n",
            "`stream` is for flows over the overlay",
        ),
        (
            "tcp = 'fack'\nshared = true\npath = 'clean'\n",
            "exclude each other",
        ),
        (
            "tcp = 'fack'\ndirect = true\npath = 'clean'\n",
            "`direct` is UDP",
        ),
        ("direct = true\nshared = true\n", "only TCP shares"),
        ("tcp = 'fac'\npath = 'clean'\n", "fack"),
        ("control = 'bbr'\n", "stream = true"),
        ("stream = true\ncontrol = 'reno'\n", "cubic"),
    ] {
        let told = flow(more);
        assert!(told.contains(word), "{more}: {told}");
    }
}

#[test]
fn equal_seeds_give_equal_runs_of_all_of_them() {
    let flows = "[[flow]]\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'reliable'\npattern = 'bulk'\n\
                 [[flow]]\nname = 'tcp'\nfrom = 'a'\nto = 'r'\ntcp = 'bbr'\nshared = true\npattern = 'bulk'\n\
                 [[flow]]\nname = 'echo'\nfrom = 'a'\nto = 'r'\ntcp = 'cubic'\nanswered = true\nshared = true\n";
    let scenario = parsed(&format!("{HOPS}{flows}").replace("queue=18", "queue=18 loss=1%"));
    assert_eq!(simulate(&scenario, 7), simulate(&scenario, 7));
    assert_ne!(
        simulate(&scenario, 7).trace_hash,
        simulate(&scenario, 8).trace_hash
    );
}
