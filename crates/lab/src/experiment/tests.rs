//! The laboratory's own guarantees: equal seeds give equal files, shards form a whole, and no claim is left out.

use super::files::{self, Part};
use super::run::run_until;
use super::*;
use crate::files::Scratch;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use tools::progress::Progress;

fn options(experiment: &str, out: &Path, shard: Option<&str>) -> LabOptions {
    LabOptions {
        experiments: vec![experiment.to_owned()],
        size: Size::Quick,
        seed: 7,
        out: out.to_owned(),
        shard: shard.map(|text| text.parse().unwrap()),
        program: "sinew".into(),
        speech: None,
        overrides: Vec::new(),
    }
}

#[test]
fn every_claim_has_its_experiment_and_every_experiment_its_claims() {
    let list = list();
    let ids: BTreeSet<&str> = list.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids.len(), list.len(), "two experiments of one name");
    let mut keys = BTreeSet::new();
    for claim in catalogue::all_claims() {
        assert!(
            ids.contains(claim.experiment),
            "{} is missing",
            claim.experiment
        );
        assert!(
            keys.insert((claim.experiment, claim.key)),
            "{} twice",
            claim.key
        );
    }
    for entry in &list {
        assert!(entry.claims > 0, "{} judges nothing", entry.id);
        assert!(entry.cells.0 > 0 && entry.cells.1 >= entry.cells.0);
    }
}

#[test]
fn cells_have_different_keys_and_seeds() {
    for experiment in catalogue::all() {
        for size in [Size::Quick, Size::Full] {
            let cells = experiment.cells(size);
            let keys: BTreeSet<&String> = cells.iter().map(|cell| &cell.key).collect();
            let seeds: BTreeSet<u64> = cells
                .iter()
                .map(|c| c.seed(experiment.family(), 1))
                .collect();
            assert_eq!((keys.len(), seeds.len()), (cells.len(), cells.len()));
        }
    }
}

#[test]
fn shards_merge_to_what_one_machine_measures() {
    let scratch = Scratch::new("lab").unwrap();
    let fig12 = catalogue::select(&["amir06/fig12".to_owned()]).unwrap();
    let run = |options: LabOptions| run_until(&|| false, &fig12, &options, Progress::Silent);
    let at = |name: &str| scratch.path().join(name);
    let whole = run(options("amir06/fig12", &at("whole"), None)).unwrap();
    let mut folders = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let folder = at(&shard.replace('/', "-"));
        let summary = run(options("amir06/fig12", &folder, Some(shard)));
        assert_eq!(summary.unwrap().rows.len(), 1);
        folders.push(folder);
    }
    let missing = merge(&folders[..2], &at("missing")).unwrap_err();
    assert!(
        missing.to_string().contains("no shard has measured"),
        "{missing}"
    );
    let merged = merge(&folders, &at("merged")).unwrap();
    assert_eq!(merged.experiments[0].hold, whole.experiments[0].hold);
    for file in ["amir06/fig12.csv", "amir06/fig12.svg"] {
        let read = |folder: &str| std::fs::read(at(folder).join(file)).unwrap();
        assert_eq!(read("whole"), read("merged"), "{file}");
    }
    let page = std::fs::read_to_string(at("merged").join("index.html")).unwrap();
    for claim in catalogue::claims("amir06/fig12") {
        assert!(
            page.contains(&crate::plot::escape(claim.text)),
            "{}",
            claim.key
        );
    }
    assert_eq!(page.matches("<style>").count(), 1);
}

/// Cells on a machine with some faults, and the list of cells that were measured.
struct Troubled {
    is_real_time: bool,
    troubles: Mutex<Vec<f64>>,
    measured: Mutex<Vec<f64>>,
}

impl Troubled {
    fn begin(is_real_time: bool, troubles: &[f64]) -> &'static Troubled {
        Box::leak(Box::new(Troubled {
            is_real_time,
            troubles: Mutex::new(troubles.to_vec()),
            measured: Mutex::default(),
        }))
    }

    /// Runs the experiment until `until` cells are measured.
    fn run(&'static self, out: &Path, until: usize) -> Result<LabSummary, LabError> {
        self.measured.lock().unwrap().clear();
        let has_come = || self.measured.lock().unwrap().len() >= until;
        let program = out.with_extension("program");
        if !program.exists() {
            std::fs::write(&program, "one").unwrap();
        }
        let options = LabOptions {
            program,
            ..options("troubled", out, None)
        };
        run_until(&has_come, &[self], &options, Progress::Silent)
    }

    fn measured(&self) -> Vec<f64> {
        let mut measured = self.measured.lock().unwrap().clone();
        measured.sort_by(f64::total_cmp);
        measured
    }
}

impl Experiment for Troubled {
    fn id(&self) -> &'static str {
        "test/troubled"
    }
    fn title(&self) -> &'static str {
        "Cells that fail"
    }
    fn method(&self, _: Size) -> String {
        String::new()
    }
    fn cells(&self, _: Size) -> Vec<Cell> {
        (0..6).map(|n| Cell::at(&[("n", f64::from(n))])).collect()
    }
    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let n = cell.parameter("n");
        if self.troubles.lock().unwrap().contains(&n) {
            return Err(CellError("no memory".into()));
        }
        let mut row = Row::of(cell);
        row.set("seed", plan.seed as f64);
        self.measured.lock().unwrap().push(n);
        Ok(row)
    }
    fn conclude(&self, _: &Plan, _: &Rows) -> Findings {
        Findings::default()
    }
    fn is_real_time(&self) -> bool {
        self.is_real_time
    }
}

#[test]
fn a_cell_that_fails_does_not_lose_the_others() {
    let scratch = Scratch::new("lab-troubled").unwrap();
    let (out, whole) = (scratch.path().join("out"), scratch.path().join("whole"));
    Troubled::begin(true, &[]).run(&whole, 7).unwrap();
    let troubled = Troubled::begin(true, &[1.0, 4.0]);
    let error = troubled.run(&out, 7).unwrap_err().to_string();
    for words in ["n=1", "no memory", "the same command measures"] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(troubled.measured(), [0.0, 2.0, 3.0, 5.0]);
    // The rows that another run has kept do not belong to this one.
    let kept = kept::path(&out, troubled.id(), None);
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, text.replace("\"seed\":7,", "\"seed\":8,")).unwrap();
    troubled.run(&out, 7).unwrap_err();
    assert_eq!(troubled.measured(), [0.0, 2.0, 3.0, 5.0]);
    troubled.troubles.lock().unwrap().clear();
    assert!(troubled.run(&out, 7).is_ok());
    assert_eq!(troubled.measured(), [1.0, 4.0]);
    let csv = |out: &Path| std::fs::read(out.join("test/troubled.csv")).unwrap();
    assert!(csv(&out) == csv(&whole));
    assert!(!kept.exists());
}

#[test]
fn what_was_measured_before_an_interrupt_is_not_measured_again() {
    let scratch = Scratch::new("lab-interrupted").unwrap();
    let out = scratch.path().join("out");
    let troubled = Troubled::begin(false, &[]);
    let error = troubled.run(&out, 0).unwrap_err();
    assert!(matches!(error, LabError::Interrupted), "{error}");
    // As many cells as the machine has processors may be done in the meantime.
    let before = troubled.measured();
    troubled.run(&out, 7).unwrap();
    let all = [before, troubled.measured()].concat();
    assert_eq!(all.len(), 6, "{all:?}");
}

/// The signal reaches the measured programs, so the content of a row of that moment is unknown.
#[test]
fn with_real_nodes_what_comes_after_an_interrupt_is_measured_again() {
    let scratch = Scratch::new("lab-ruined").unwrap();
    for until in [0, 3] {
        let out = scratch.path().join(format!("out-{until}"));
        let troubled = Troubled::begin(true, &[]);
        let error = troubled.run(&out, until).unwrap_err();
        assert!(matches!(error, LabError::Interrupted), "{error}");
        let mut all = troubled.measured();
        troubled.run(&out, 7).unwrap();
        let after = troubled.measured();
        // Rows from before that moment may be kept or not: rows are checked while others are measured.
        let ruined = (0..6).map(f64::from).skip(until.saturating_sub(1));
        let ruined: Vec<f64> = ruined.collect();
        assert!(after.ends_with(&ruined), "{after:?}");
        all.extend(&after);
        assert!(
            (0..6).all(|n| all.contains(&f64::from(n))),
            "{all:?} {after:?}"
        );
    }
}

#[test]
fn rows_of_real_nodes_of_another_program_are_not_used() {
    for is_real_time in [true, false] {
        let scratch = Scratch::new("lab-program").unwrap();
        let out = scratch.path().join("out");
        let troubled = Troubled::begin(is_real_time, &[5.0]);
        troubled.run(&out, 7).unwrap_err();
        std::fs::write(out.with_extension("program"), "another").unwrap();
        troubled.troubles.lock().unwrap().clear();
        let before = troubled.measured().len();
        troubled.run(&out, 7).unwrap();
        let again = if is_real_time { 6 } else { 6 - before };
        assert_eq!(troubled.measured().len(), again);
    }
}

#[test]
fn names_that_mean_nothing_are_refused() {
    for name in ["amir06", "amir06/fig99", "", "all/amir06", "liu05/all"] {
        let error = catalogue::select(&[name.to_owned()]).err().unwrap();
        assert!(error.to_string().contains("sinew lab list"), "{error}");
    }
    let all = catalogue::select(&["all".to_owned(), "amir06/all".to_owned()]).unwrap();
    assert_eq!(all.len(), list().len());
}

#[test]
fn merging_nothing_says_so() {
    let scratch = Scratch::new("lab-none").unwrap();
    let folder = scratch.path().to_owned();
    let error = merge(std::slice::from_ref(&folder), &folder).unwrap_err();
    assert!(error.to_string().contains("--shard"), "{error}");
    assert!(merge(&[folder.join("missing")], &folder).is_err());
}

#[test]
fn a_setup_is_the_papers_or_smaller_or_another() {
    let as_the_paper = Verdict::setup("key", &[("nodes", 15.0, 15.0), ("links", 30.0, 30.0)]);
    assert_eq!(
        (as_the_paper.holds, as_the_paper.by_construction),
        (Some(true), true)
    );
    assert_eq!(as_the_paper.measured, "15 nodes, 30 links");
    let smaller = Verdict::setup("key", &[("nodes", 15.0, 15.0), ("runs", 5.0, 20.0)]);
    assert_eq!((smaller.holds, smaller.by_construction), (None, false));
    assert_eq!(smaller.measured, "15 nodes, 5 runs (the paper: 20)");
    let another = Verdict::setup("key", &[("nodes", 16.0, 15.0), ("runs", 5.0, 20.0)]);
    assert_eq!(another.holds, Some(false));
    let not_known = Verdict::setup("key", &[("nodes", f64::NAN, 15.0)]);
    assert_eq!(not_known.holds, Some(false));
}

#[test]
fn what_was_not_measured_goes_through_files_and_comes_back_as_nothing() {
    let mut row = Row::of(&Cell::at(&[("loss", 5.0)]));
    for (name, value) in [("a", 1.5), ("b", f64::NAN), ("c", f64::INFINITY)] {
        row.set(name, value);
    }
    row.draw("s", [(0.0, 1.0), (1.0, f64::NAN), (f64::NEG_INFINITY, 2.0)]);
    let rows = Rows(vec![row.clone()]);
    assert_eq!(rows.csv(), "loss,a\n5,1.5\n");
    assert_eq!(
        rows.series_csv().unwrap(),
        "cell,series,x,y\nloss=5,s,0,1\n"
    );
    let part = part(None, row.clone());
    let text = serde_json::to_string(&part).unwrap();
    assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part);
    let cell = cells::MeasuredCell {
        identity: String::new(),
        row: row.clone(),
    };
    let text = serde_json::to_string(&cell).unwrap();
    let back: cells::MeasuredCell = serde_json::from_str(&text).unwrap();
    assert_eq!(back, cell);
    assert!(back.row.value("b").is_nan() && back.row.value("c").is_nan());
    // A later value replaces an earlier one, and an unknown one removes it.
    row.set("b", 2.0);
    row.set("a", f64::NAN);
    assert_eq!(row.values().collect::<Vec<_>>(), [("b", 2.0)]);
}

#[test]
fn coordinates_of_all_grids_are_finite() {
    for experiment in catalogue::all() {
        for cell in [Size::Quick, Size::Full]
            .map(|size| experiment.cells(size))
            .concat()
        {
            let is_finite = |(_, value): &(&str, f64)| value.is_finite();
            assert!(cell.parameters.iter().all(is_finite), "{}", cell.key);
        }
    }
}

fn part(speech: Option<&str>, row: Row) -> Part {
    Part {
        experiment: "amir06/fig12".to_owned(),
        size: Size::Quick,
        seed: 7,
        build: build().to_owned(),
        overrides: Vec::new(),
        speech: speech.map(str::to_owned),
        program: None,
        took_s: 1.0,
        rows: vec![row],
        definition: None,
    }
}

#[test]
fn parts_of_two_recordings_do_not_merge() {
    let cells = catalogue::select(&["amir06/fig12".to_owned()]).unwrap()[0].cells(Size::Quick);
    let merged = |speech: [Option<&str>; 2], source: [f64; 2]| {
        let scratch = Scratch::new("lab-speech-parts").unwrap();
        for n in 0..2 {
            let mut row = Row::of(&cells[n]);
            row.set("speech", source[n]);
            let mut part = part(speech[n], row);
            // The rest of the grid is in the second part.
            if n == 1 {
                part.rows.extend(cells[2..].iter().map(Row::of));
            }
            let shard = format!("{}/2", n + 1).parse().unwrap();
            files::write_part(scratch.path(), &part, shard).unwrap();
        }
        let folder = scratch.path().to_owned();
        merge(std::slice::from_ref(&folder), &folder).map_err(|error| error.to_string())
    };
    let refused = |speech, source, why: &str| {
        let error = merged(speech, source).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    merged([Some("0a 9"), Some("0a 9")], [0.0, 0.0]).unwrap();
    refused(
        [Some("0a 9"), Some("0b 9")],
        [0.0, 0.0],
        "different recordings",
    );
    refused([Some("0a 9"), None], [0.0, 0.0], "different recordings");
    refused([None, None], [1.0, 2.0], "different speech");
}

/// Verdicts that follow from the experiment itself, whatever was measured.
const KNOWN_WITHOUT_ROWS: &[(&str, &str)] = &[
    // The verdict itself builds routes on a network of five nodes.
    ("amir06/fig12", "partial-paths"),
];

#[test]
fn nothing_holds_of_what_was_not_measured() {
    let mut wrong = Vec::new();
    for experiment in catalogue::all() {
        let id = experiment.id();
        let cells = experiment.cells(Size::Quick);
        let empty: Vec<Row> = cells.iter().map(Row::of).collect();
        for rows in [empty, Vec::new()] {
            let count = rows.len();
            let conclude = || experiment.conclude(&plan(), &Rows(rows));
            let Ok(findings) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(conclude))
            else {
                wrong.push(format!("{id} panics with {count} rows"));
                continue;
            };
            let held = findings.verdicts.iter().filter(|verdict| {
                verdict.holds == Some(true)
                    && !verdict.by_construction
                    && !KNOWN_WITHOUT_ROWS.contains(&(id, verdict.claim))
            });
            wrong.extend(
                held.map(|verdict| format!("{id} {}: {}", verdict.claim, verdict.measured)),
            );
            if let Err(error) = files::judge(experiment, &findings) {
                wrong.push(error);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn plan() -> Plan {
    Plan {
        size: Size::Quick,
        seed: 7,
        program: "sinew".into(),
        speech: None,
        overrides: Vec::new(),
        stop: Stop::default(),
    }
}

#[test]
fn what_holds_by_construction_is_counted_apart() {
    let fig12 = catalogue::select(&["amir06/fig12".to_owned()]).unwrap()[0];
    let claims = fig12.claims();
    let verdict = |(n, claim): (usize, &&ClaimText)| match n {
        0 => Verdict::by_construction(claim.key, "so it is made"),
        1 => Verdict::made(claim.key, false, "made otherwise"),
        2 => Verdict::untested(claim.key, "why"),
        // The condition is not a literal: the walls refuse a verdict that is always `true`.
        _ => Verdict::of(claim.key, n > 2, "measured"),
    };
    let findings = Findings {
        charts: Vec::new(),
        verdicts: claims.iter().enumerate().map(verdict).collect(),
    };
    let outcome = files::Outcome {
        id: fig12.id().to_owned(),
        title: String::new(),
        method: String::new(),
        size: Size::Quick,
        seed: 7,
        cells: 0,
        build: String::new(),
        overrides: Vec::new(),
        charts: Vec::new(),
        claims: files::judge(fig12, &findings).unwrap(),
        table: Vec::new(),
    };
    let tally = Tally::of(&outcome, None);
    let counts = (
        tally.hold,
        tally.by_construction,
        tally.fail.len(),
        tally.untested,
    );
    assert_eq!(counts, (claims.len() - 3, 1, 1, 1));
}
