//! Own experiments as a whole: read, run, sharded, sent elsewhere, measured externally, and refused.

use super::super::cells::{self, Request};
use super::super::run::run_until;
use super::super::{LabOptions, Stop, catalogue, merge};
use super::*;
use crate::files::Scratch;
use crate::scenario::Texts;
use std::path::Path;
use std::path::PathBuf;
use tools::progress::Progress;

/// A pair of nodes; the placeholders are those of [`GRID`].
const SCENARIO: &str = "[scenario]\nname = 'pair'\nduration = '2s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
    [[link]]\na = 'a'\nb = 'b'\npath = 'delay={delay}ms loss={loss}%'\n[[flow]]\nfrom = 'a'\nto = 'b'\nclass = '{class}'\n";
const GRID: &str = "[experiment]\nid = 'own/pair'\ntitle = 'A pair'\nseeds = 2\n[experiment.grid]\nloss = [1, 5]\n\
    delay = [10]\nclass = ['voice', 'reliable']\n\"settings.hello_interval\" = '100ms'\n\
    [[experiment.measure]]\nname = 'sent'\ntake = 'flows.a-b.sent'\n\
    [[experiment.measure]]\nname = 'p50_ms'\ntake = 'flows.a-b.delay_ms.p50'\n";

fn definition(text: &str) -> Definition {
    Definition {
        file: "mine.toml".to_owned(),
        text: text.to_owned(),
        scenario: None,
        files: Texts::new(),
    }
}

fn refused(text: &str) -> String {
    let refused = definition(text).experiment();
    refused
        .err()
        .map_or_else(|| panic!("it is taken: {text}"), |error| error.to_string())
}

fn options(file: &Path, out: &Path, shard: Option<&str>) -> LabOptions {
    LabOptions {
        experiments: vec![file.display().to_string()],
        size: Size::Quick,
        seed: 7,
        out: out.to_owned(),
        shard: shard.map(|text| text.parse().unwrap()),
        program: PathBuf::new(),
        speech: None,
        overrides: Vec::new(),
    }
}

#[test]
fn the_grid_is_the_product_of_its_values() {
    let text = format!("{GRID}{SCENARIO}");
    let own = definition(&text).experiment().unwrap();
    let keys: Vec<String> = own
        .cells(Size::Quick)
        .into_iter()
        .map(|cell| cell.key)
        .collect();
    let word = |class: &str| format!("delay=10 class={class} settings.hello_interval=100ms");
    let (voice, reliable) = (word("voice"), word("reliable"));
    assert_eq!(
        keys,
        [
            format!("loss=1 {voice}"),
            format!("loss=1 {reliable}"),
            format!("loss=5 {voice}"),
            format!("loss=5 {reliable}"),
        ]
    );
    assert_eq!(
        (own.id(), own.title(), own.claims().len()),
        ("own/pair", "A pair", 0)
    );
    assert!(std::ptr::eq(own, definition(&text).experiment().unwrap()));
}

#[test]
fn the_example_gives_its_files_and_its_shards_make_a_whole() {
    let scratch = Scratch::new("own").unwrap();
    let at = |name: &str| scratch.path().join(name);
    // The experiment has two files, a measured path, and few seconds.
    std::fs::write(at("up.csv"), "at_s,delay_ms\n1,25\n").unwrap();
    let scenario = SCENARIO.replace("[[flow]]", "follows = 'up.csv'\n[[flow]]");
    std::fs::write(at("pair.toml"), scenario).unwrap();
    let text = GRID.replace("title", "scenario = 'pair.toml'\ntitle")
        + "[[experiment.claim]]\ncheck = 'p50_ms > 9.9'\n\
           [[experiment.claim]]\nkey = 'not'\ncheck = 'sent <= 1'\nwhere = { class = 'voice' }\n";
    std::fs::write(at("mine.toml"), text).unwrap();
    let started = |options: LabOptions| {
        let experiments = catalogue::select(&options.experiments).unwrap();
        run_until(&|| false, &experiments, &options, Progress::Silent).unwrap()
    };
    let run = |out: &str, shard| started(options(&at("mine.toml"), &at(out), shard));
    let whole = run("whole", None);
    let tally = &whole.experiments[0];
    assert_eq!(
        (tally.hold, tally.fail.as_slice()),
        (1, ["not".to_owned()].as_slice())
    );
    assert_eq!(tally.table.len(), 5);
    run("one", Some("1/2"));
    let definition = Definition::load(&at("mine.toml")).unwrap();
    let carried = definition.write(scratch.path()).unwrap();
    // The parts contain everything, so merging needs no file.
    for file in ["mine.toml", "pair.toml", "up.csv"] {
        std::fs::remove_file(at(file)).unwrap();
    }
    started(options(&at(&carried), &at("two"), Some("2/2")));
    merge(&[at("one"), at("two")], &at("merged")).unwrap();
    for file in [
        "own/pair.csv",
        "own/pair.svg",
        "own/pair.json",
        "own/pair/scenario.toml",
        "index.html",
    ] {
        let read = |folder: &str| std::fs::read(at(folder).join(file)).unwrap();
        assert_eq!(read("whole"), read("merged"), "{file}");
    }
    let csv = std::fs::read_to_string(at("whole/own/pair.csv")).unwrap();
    assert!(
        csv.starts_with("delay,loss,class,settings.hello_interval,p50_ms,p50_ms ±,sent,sent ±\n"),
        "{csv}"
    );
    let page = std::fs::read_to_string(at("whole/index.html")).unwrap();
    assert!(page.contains("own/pair"));
}

#[test]
fn what_is_measured_outside_comes_by_runs() {
    let text = "[experiment]\nid = 'own/outside'\nmeasured_by = 'a notebook'\nseeds = 3\n[experiment.grid]\nn = [1, 2]\n\
        [[experiment.measure]]\nname = 'x'\n[[experiment.measure]]\nname = 'top'\nover = 'most'\n\
        [[experiment.claim]]\ncheck = 'x rises with n'\n";
    let definition = Definition::made("notebook", text).unwrap();
    let request = Request {
        experiment: "own/outside".to_owned(),
        definition: Some(definition),
        size: Size::Quick,
        seed: 7,
        program: PathBuf::new(),
        speech: None,
        overrides: Vec::new(),
    };
    let cells = cells::cells(&request).unwrap();
    assert_eq!((cells.len(), cells[0].seeds.len()), (2, 3));
    assert_ne!(cells[0].seeds, cells[1].seeds);
    let error = cells::measure(&request, "n=1").unwrap_err().to_string();
    assert!(error.contains("measured outside"), "{error}");
    let runs = |values: [f64; 3]| {
        let run = |value| BTreeMap::from([("x".to_owned(), value), ("top".to_owned(), value)]);
        values.map(run)
    };
    let one = cells::given(&request, "n=1", &runs([1.0, 2.0, 3.0])).unwrap();
    let row = &one.row;
    assert_eq!((row.value("x"), row.value("top")), (2.0, 3.0));
    assert!((row.value("x ±") - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12);
    let two = cells::given(&request, "n=2", &runs([9.0, f64::NAN, 9.0])).unwrap();
    assert_eq!(two.row.value("x"), 9.0);
    let scratch = Scratch::new("outside").unwrap();
    let summary = cells::conclude(&request, vec![two, one], scratch.path()).unwrap();
    assert_eq!(summary.experiments[0].hold, 1);
    let unknown = [BTreeMap::from([("y".to_owned(), 1.0)])];
    let error = cells::given(&request, "n=1", &unknown)
        .unwrap_err()
        .to_string();
    assert!(error.contains("none of its measures"), "{error}");
}

#[test]
fn the_example_and_the_manual_have_experiments_that_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = Definition::load(&root.join("examples/experiments/recovery.toml")).unwrap();
    let own = example.experiment().unwrap();
    assert_eq!((own.cells(Size::Quick).len(), own.claims().len()), (8, 3));
    let manual = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
    let block = manual
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    definition(block).experiment().unwrap();
}

#[test]
fn an_experiment_of_nothing_but_a_scenario_has_one_cell() {
    let text = "[experiment]\n[[experiment.measure]]\nname = 'wire'\ntake = 'overlay.wire_bytes'\n\
        [scenario]\nname = 'x'\nduration = '1s'\n[topology]\nkind = 'ring'\nnodes = 3\ndelay = '1ms'\n";
    let own = definition(text).experiment().unwrap();
    assert_eq!(own.id(), "own/mine");
    assert_eq!(own.cells(Size::Full).len(), 1);
}

#[test]
fn what_is_wrong_is_answered_with_its_line() {
    let whole = format!("{GRID}{SCENARIO}");
    let with = |from: &str, to: &str| refused(&whole.replace(from, to));
    for (error, answer) in [
        (with("'own/pair'", "'pair'"), "two words"),
        (with("'own/pair'", "'amir06/fig4'"), "another experiment"),
        (with("title =", "titel ="), "did you mean `title`?"),
        (with("{loss}", "{los}"), "did you mean `{loss}`?"),
        (with("{loss}", "5"), "loss: it changes nothing"),
        (
            with("loss={loss}%'", "loss=5%' # {loss}"),
            "loss: it changes nothing",
        ),
        (
            with("'A pair'", "'For {loss}'\nscenario = 5"),
            "the name of a file",
        ),
        (
            with("'flows.a-b.sent'", "'flows.a-b.send'"),
            "did you mean `sent`?",
        ),
        (
            with("'flows.a-b.sent'", "'flows.a-b.sent+1'"),
            "write spaces",
        ),
        (
            with("name = 'sent'", "name = 'loss'"),
            "a coordinate of the grid, too",
        ),
        (
            with("\"settings.hello_interval\" =", "settings.hello_interval ="),
            "needs quotes",
        ),
        (
            with("['voice', 'reliable']", "[true]"),
            "a number, or a word in quotes",
        ),
        (
            with(
                "[[experiment.measure]]\nname = 'sent'\ntake = 'flows.a-b.sent'\n[[experiment.measure]]",
                "[experiment.measure]",
            ),
            "write [[experiment.measure]]",
        ),
        (
            with("delay={delay}", "delay={delay} jitter={jitter}"),
            "`{jitter}`: the grid has no such",
        ),
        (with("[1, 5]", "[1, 500]"), "loss=500%"),
        (with("[1, 5]", "[1, 1]"), "`1` twice"),
        (with("[1, 5]", "[1, 'x']"), "all numbers or all words"),
        (with("[1, 5]", "[]"), "1 to 1000 values"),
        (with("loss = [1, 5]", "\"lo ss\" = [1]"), "expected a name"),
        (
            with("hello_interval", "hello_intervall"),
            "did you mean `settings.hello_interval`?",
        ),
        (with("'100ms'", "'soon'"), "expected a time"),
        (with("'sent'", "'p50_ms'"), "two measures `p50_ms`"),
        (with("'flows.a-b.sent'", "'flows.a-b.sent +'"), "at its end"),
        (with("seeds = 2", "seeds = 0"), "from 1 to 1000"),
        (
            with("name = 'sent'\n", "name = 'sent'\nover = 'median'\n"),
            "one of `mean`",
        ),
        (with("take = 'flows.a-b.sent'\n", ""), "`take` is missing"),
        (
            with("name = 'pair'\n", "naem = 'pair'\n"),
            "did you mean `name`?",
        ),
        (refused("[experiment"), "mine.toml:1"),
        (refused("[scenario]"), "[experiment]"),
    ] {
        assert!(
            error.contains(answer) && error.starts_with("mine.toml:"),
            "{error}"
        );
    }
    let claim = |check: &str| refused(&format!("{whole}[[experiment.claim]]\n{check}\n"));
    for (check, answer) in [
        ("check = 'sent'", "expected a comparison"),
        ("check = 'send > 1'", "did you mean `sent`?"),
        (
            "check = 'class > 1'",
            "no measure or coordinate of numbers `class`",
        ),
        ("check = 'sent rises with class'", "coordinate of numbers"),
        (
            "check = 'sent > 1'\nwhere = { loss = 3 }",
            "`loss` is never 3",
        ),
        (
            "check = 'sent > 1'\nwhere = { lose = 3 }",
            "did you mean `loss`?",
        ),
    ] {
        assert!(claim(check).contains(answer), "{}", claim(check));
    }
    let figure = refused(&format!(
        "{whole}[[experiment.figure]]\nx = 'loss'\ny = 'send'\n"
    ));
    assert!(figure.contains("did you mean `sent`?"), "{figure}");
    let once = refused(&format!(
        "{}[[experiment.claim]]\ncheck = 'sent > 1 beyond errors'\n",
        whole.replace("seeds = 2", "seeds = 1")
    ));
    assert!(once.contains("needs `seeds`"), "{once}");
}

#[test]
fn what_was_not_measured_is_not_judged_and_a_mean_wants_two() {
    let text = "[experiment]\nid = 'own/gaps'\nmeasured_by = 'a notebook'\nseeds = 3\n[experiment.grid]\nn = [1, 2]\n\
        [[experiment.measure]]\nname = 'x'\n[[experiment.measure]]\nname = 'y'\n\
        [[experiment.claim]]\ncheck = 'y > 0'\n[[experiment.claim]]\ncheck = 'x > 0'\n";
    let own = Definition::made("notebook", text)
        .unwrap()
        .experiment()
        .unwrap();
    let cells = own.cells(Size::Quick);
    let run = |value| BTreeMap::from([("x".to_owned(), value)]);
    let measured = own.row(&cells[0], &[run(1.0), run(2.0), run(f64::NAN)]);
    let once = own.row(&cells[1], &[run(1.0), run(f64::NAN), run(f64::INFINITY)]);
    let (measured, once) = (measured.unwrap(), once.unwrap());
    assert_eq!((measured.value("x"), once.values().count()), (1.5, 0));
    let plan = Plan {
        size: Size::Quick,
        seed: 1,
        program: PathBuf::new(),
        speech: None,
        overrides: Vec::new(),
        stop: Stop::default(),
    };
    let findings = own.conclude(&plan, &Rows(vec![measured, once]));
    let holds = findings.verdicts.iter().map(|verdict| verdict.holds);
    assert_eq!(holds.collect::<Vec<_>>(), [None, Some(false)]);
    assert!(findings.verdicts[0].note.contains("`y` was not measured"));
}

#[test]
fn what_decides_nothing_changes_no_cell() {
    let with = |text: &str| Request {
        experiment: String::new(),
        definition: Some(definition(text)),
        size: Size::Quick,
        seed: 7,
        program: PathBuf::new(),
        speech: None,
        overrides: Vec::new(),
    };
    let identity = |text: &str| cells::cells(&with(text)).unwrap()[0].identity.clone();
    let whole = format!("{GRID}{SCENARIO}");
    let claimed =
        format!("# a comment\n{GRID}[[experiment.claim]]\ncheck = 'sent > 1'\n{SCENARIO}");
    let titled = whole.replace("'A pair'", "'Another title'");
    let lines = |text: &str| identity(text);
    assert_eq!(
        lines(&whole.replace('\n', "\n\n")),
        lines(&whole.replace('\n', "\n\n"))
    );
    assert_eq!(identity(&titled), identity(&whole));
    assert_ne!(identity(&whole.replace("'2s'", "'3s'")), identity(&whole));
    assert_ne!(
        identity(&whole.replace("seeds = 2", "seeds = 3")),
        identity(&whole)
    );
    assert_ne!(
        identity(&whole.replace("delay_ms.p50", "delay_ms.p99")),
        identity(&whole)
    );
    assert_eq!(identity(&claimed), identity(&whole));
    // Settings that cannot be applied are refused.
    let mut request = with(&whole);
    request.overrides = vec!["settings.hello_interval=50ms".parse().unwrap()];
    let error = cells::cells(&request).unwrap_err().to_string();
    assert!(error.contains("a coordinate of its grid"), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(\\[experiment\\]\n)?([a-z.\"{}=\\[\\]' 0-9\n]{0,60})") {
        let _ = definition(&text).experiment();
    }
}
