//! The page about all experiments that ran: each experiment's drawing, its claims in words and numbers, and whether
//! they hold.

use super::files::{self, Judged, Outcome};
use crate::plot::escape;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The style of the page, and of separate drawings.
pub(super) const STYLE: &str = include_str!("page.css");

/// Writes `index.html` over all outcomes in a folder.
pub(super) fn write(out: &Path) -> io::Result<PathBuf> {
    let path = out.join("index.html");
    crate::files::write(&path, page(out, &files::outcomes(out)).as_bytes())?;
    Ok(path)
}

fn page(out: &Path, outcomes: &[Outcome]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Sinew laboratory</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Sinew laboratory</h1>\n"
    );
    html += &overview(outcomes);
    for outcome in outcomes {
        html += &section(out, outcome);
    }
    html += "</body>\n</html>\n";
    html
}

/// Returns a line per experiment, and the sums.
fn overview(outcomes: &[Outcome]) -> String {
    let sum = |holds| outcomes.iter().map(|o| o.count(holds)).sum::<usize>();
    let (hold, fail, untested) = (sum(Some(true)), sum(Some(false)), sum(None));
    let made: usize = outcomes.iter().map(Outcome::by_construction).sum();
    let mut html = format!(
        "<p>{} claims: {hold} were tested and hold, {fail} do not, {untested} cannot be tested; {made} hold by construction.</p>\n\
         <input type=\"checkbox\" id=\"failing\"> \
         <label for=\"failing\">show what does not hold, and nothing else</label>\n\
         <div class=\"scroll\">\n<table class=\"wide\">\n<tr><th>experiment</th><th></th><th>hold</th><th>do not</th>\
         <th>untested</th><th>by construction</th></tr>\n",
        hold + fail + untested + made
    );
    for outcome in outcomes {
        let _ = writeln!(
            html,
            "<tr{5}><td><a href=\"#{0}\">{0}</a></td><td class=\"words\">{1}</td><td>{2}</td><td>{3}</td><td>{4}</td><td>{6}</td></tr>",
            escape(&outcome.id),
            escape(&outcome.title),
            outcome.count(Some(true)),
            outcome.count(Some(false)),
            outcome.count(None),
            held(fails(outcome)),
            outcome.by_construction(),
        );
    }
    html + "</table>\n</div>\n"
}

/// Returns whether one of its claims does not hold.
fn fails(outcome: &Outcome) -> bool {
    outcome
        .claims
        .iter()
        .any(|claim| claim.holds == Some(false))
}

/// Returns the class of entries that the page hides if the reader asks only for failures.
fn held(fails: bool) -> &'static str {
    if fails { "" } else { " class=\"held\"" }
}

fn section(out: &Path, outcome: &Outcome) -> String {
    let id = escape(&outcome.id);
    let folder = Path::new(&outcome.id).parent().unwrap_or(Path::new(""));
    let mut html = format!(
        "<section{}>\n<h2 id=\"{id}\">{id}: {}</h2>\n<p>{}</p>\n",
        held(fails(outcome)),
        escape(&outcome.title),
        escape(&outcome.method)
    );
    for chart in &outcome.charts {
        // A missing drawing is not shown, but the name of its file is.
        let svg = fs::read_to_string(out.join(folder).join(chart)).unwrap_or_default();
        let svg = without_style(&svg);
        let _ = writeln!(html, "<figure>\n{svg}</figure>");
    }
    html += &numbers(&outcome.table);
    html += "<div class=\"scroll\">\n<table class=\"wide\">\n<tr><th>claim</th><th class=\"words\">expected</th><th class=\"words\">measured</th>\
             <th></th></tr>\n";
    for claim in &outcome.claims {
        html += &row(claim);
    }
    let _ = writeln!(
        html,
        "</table>\n</div>\n<p class=\"soft\">{:?} run, seed {}, {} cells{}. \
         <a href=\"{id}.csv\">csv</a> <a href=\"{id}.json\">json</a></p>\n</section>",
        outcome.size,
        outcome.seed,
        outcome.cells,
        match outcome.overrides.as_slice() {
            [] => String::new(),
            wanted => format!(", with {}", escape(&wanted.join(" "))),
        }
    );
    html
}

/// Returns the main numbers.
fn numbers(table: &[Vec<String>]) -> String {
    let Some((head, lines)) = table.split_first() else {
        return String::new();
    };
    let line = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| escape(cell));
        let cells: String = cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let lines: String = lines.iter().map(|cells| line(cells, "td")).collect();
    format!(
        "<div class=\"scroll\">\n<table class=\"wide\">\n{}{lines}</table>\n</div>\n",
        line(head, "th")
    )
}

fn row(claim: &Judged) -> String {
    let (class, word) = match claim.holds {
        Some(true) if claim.by_construction => ("untested", "holds by construction"),
        Some(true) => ("holds", "holds"),
        Some(false) => ("fails", "does not hold"),
        None => ("untested", "cannot be tested"),
    };
    let note = match claim.note.is_empty() {
        true => String::new(),
        false => format!("<div class=\"soft\">{}</div>", escape(&claim.note)),
    };
    format!(
        "<tr{}><td class=\"words\">{}<div class=\"soft\">{}</div></td><td class=\"words\">{}</td>\
         <td class=\"words\">{}{note}</td><td class=\"{class}\">{word}</td></tr>\n",
        held(claim.holds == Some(false)),
        escape(&claim.text),
        escape(&claim.source),
        escape(&claim.expected),
        escape(&claim.measured),
    )
}

/// Removes a drawing's own style, which would apply to the whole page.
fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{}", &svg[..from], &svg[to + "</style>".len()..])
        }
        _ => svg.to_owned(),
    }
}
