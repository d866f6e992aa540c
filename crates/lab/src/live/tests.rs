//! Errors about unsupported parts name their key, before anything is started.

use super::check::can_run;
use super::*;
use crate::files::Scratch;

const PAIR: &str = "[scenario]\nname = 'pair'\nduration = '10s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
                    [[link]]\na = 'a'\nb = 'b'\npath = 'delay=1ms'\n[[flow]]\nfrom = 'a'\nto = 'b'\n";

#[test]
fn what_only_the_simulator_does_is_refused_by_its_key() {
    let refused = |text: &str| {
        let scenario = Scenario::parse("file", text).unwrap();
        can_run(&scenario).expect_err(text)
    };
    let fine = Scenario::parse("file", PAIR).unwrap();
    can_run(&fine).unwrap();
    for (more, key) in [
        (
            "[[node]]\nname = 'c'\nclock_ahead = '1s'\n",
            "node c: clock_ahead",
        ),
        (
            "[[node]]\nname = 'c'\nclock_drift_ppm = -3\n",
            "node c: clock_drift_ppm",
        ),
        (
            "[[node]]\nname = 'c'\n[[link]]\na = 'a'\nb = 'c'\npath = 'clean'\nsecond = 'clean'\n",
            "link a-c: second",
        ),
        (
            "[[node]]\nname = 'c'\n[[link]]\na = 'a'\nb = 'c'\npath = 'outage=1s..2s'\n",
            "link a-c: path",
        ),
        (
            "[[flow]]\nfrom = 'a'\nto = 'b'\ndirect = true\npath = 'clean'\nback = 'outage=1s..2s'\n",
            "flow a-b direct: back",
        ),
        (
            "[[node]]\nname = 'c'\n[[link]]\na = 'b'\nb = 'c'\npath = 'clean'\n\
             [[flow]]\nname = 'group'\nfrom = 'a'\nto = 'b'\nalso = ['c']\n",
            "flow group: also",
        ),
        (
            "[[flow]]\nname = 'many'\nfrom = 'a'\nto = 'b'\ncount = 1000\n",
            "flow: count",
        ),
        (
            "[[fault]]\nat = '1s'\nkind = 'link-set'\na = 'a'\nb = 'b'\npath = 'outage=1s..2s'\n",
            "fault at 1.00s: path",
        ),
    ] {
        let (found, what) = refused(&format!("{PAIR}{more}"));
        assert_eq!(found, key);
        assert!(what.contains("simulat"), "{what}");
    }
    let open = PAIR.replacen("[[node]]", "sealing = false\n[[node]]", 1);
    assert_eq!(refused(&open).0, "scenario: sealing");
    let many = "[scenario]\nname = 'm'\nduration = '1s'\n[topology]\nkind = 'ring'\nnodes = 101\ndelay = '1ms'\n";
    assert_eq!(refused(many).0, "node");
}

#[test]
fn options_and_folders_that_cannot_be_are_told_before_nodes_start() {
    let scratch = Scratch::new("live").unwrap();
    let file = scratch.path().join("pair.toml");
    std::fs::write(&file, PAIR).unwrap();
    let options = LiveOptions {
        file: file.clone(),
        seconds: None,
        out: None,
        keep: false,
        program: "/nonexistent/sinew".into(),
    };
    let error = |options: &LiveOptions| up(options, Progress::Silent).unwrap_err().to_string();
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        let options = LiveOptions {
            seconds: Some(seconds),
            ..options.clone()
        };
        assert!(error(&options).contains("0.1 to 86400"), "{seconds}");
    }
    // A file has the name of the folder.
    let out = Some(file.join("out"));
    let in_the_way = LiveOptions {
        out,
        ..options.clone()
    };
    assert!(error(&in_the_way).contains("pair.toml"));
    let long = Some(scratch.path().join("x".repeat(100)));
    let kept = LiveOptions {
        out: long,
        keep: true,
        ..options.clone()
    };
    assert!(error(&kept).contains("shorter path"));
    // A missing program leaves no files behind.
    let out = scratch.path().join("out");
    let missing = LiveOptions {
        out: Some(out.clone()),
        ..options
    };
    assert!(error(&missing).contains("/nonexistent/sinew"));
    let none = down(&out).unwrap_err().to_string();
    assert!(none.contains("no nodes were left running"), "{none}");
}
