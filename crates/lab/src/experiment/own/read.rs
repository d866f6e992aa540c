//! From the text of an experiment to the experiment: the table `[experiment]`, beside a scenario's or with the name of
//! one. docs/lab.md has the schema.

mod claims;

use super::expression::Expression;
use super::template::{self, SETTINGS, Template};
use super::{Coordinate, Definition, Measure, Over, Own, Source, Value};
use crate::experiment::catalogue;
use crate::scenario::table::{self, Table, Text};
use crate::scenario::{Files, Mistake, Texts};
use std::path::Path;
use toml::de::DeTable;

/// The table that an experiment adds to a scenario.
pub(super) const TABLE: &str = "experiment";
const KEYS: [&str; 11] = [
    "id",
    "title",
    "about",
    "scenario",
    "seeds",
    "full_seeds",
    "measured_by",
    "grid",
    "measure",
    "claim",
    "figure",
];
/// Runs of a cell: a thousand have a standard error of a thirtieth of one run's.
const SEEDS_MAX: i64 = 1_000;
/// Values of a coordinate, and cells of a grid.
const VALUES_MAX: usize = 1_000;
const CELLS_MAX: usize = 10_000;

/// Reads and checks a definition, whose scenario's files are in `files`; those that it has read.
pub(super) fn own(definition: &Definition, files: &Files) -> Result<(Own, Texts), Mistake> {
    let text = Text {
        file: &definition.file,
        text: &definition.text,
    };
    let document = DeTable::parse(text.text).map_err(|error| text.malformed(&error))?;
    let fields = document.get_ref();
    let every: Vec<&str> = fields
        .iter()
        .map(|(key, _)| key.get_ref().as_ref())
        .collect();
    let top = Table::new(text, "", document.span(), fields, &every)?;
    let table = top
        .required(TABLE, "a table [experiment] with a grid and measures")?
        .table(TABLE, &KEYS)?;
    let id = id(&table, &definition.file)?;
    let grid = grid(&table)?;
    let seeds = seeds(&table)?;
    let measures = measures(&table)?;
    let (source, texts) = source(&table, &every, (definition, files), &grid)?;
    for measure in &measures {
        match (&measure.of, &source) {
            (None, Source::Scenario(_)) => {
                let what = format!(
                    "measure {}: `take` is missing: expected what it takes of the report",
                    measure.name
                );
                return Err(table.mistake(what));
            }
            (Some(_), Source::Elsewhere(by)) => {
                let what = format!(
                    "measure {}: {by} measures, so it takes nothing of a report",
                    measure.name
                );
                return Err(table.mistake(what));
            }
            _ => {}
        }
    }
    let known = claims::Known {
        coordinates: grid.iter().map(|of| of.name).collect(),
        measures: measures.iter().map(|of| of.name).collect(),
        numeric: grid
            .iter()
            .filter(|of| of.is_numeric())
            .map(|of| of.name)
            .collect(),
        seeds: seeds[0].min(seeds[1]),
    };
    let claims = claims::claims(&table, id, &known, &grid)?;
    let figures = claims::figures(&table, &known)?;
    let title = text_of(&table, "title")?.unwrap_or_else(|| id.to_owned());
    let own = Own {
        id,
        title: super::intern(&title),
        about: text_of(&table, "about")?.unwrap_or_default(),
        grid,
        seeds,
        measures,
        claims,
        figures,
        source,
        definition: definition.clone(),
    };
    Ok((own, texts))
}

fn text_of(table: &Table<'_>, key: &str) -> Result<Option<String>, Mistake> {
    let text = table.optional(key).map(|value| value.text("a text"));
    Ok(text.transpose()?.map(str::to_owned))
}

/// `mine/hello`, or the file's name behind `own/`.
fn id(table: &Table<'_>, file: &str) -> Result<&'static str, Mistake> {
    let is_word = |word: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !word.is_empty() && word.len() <= 64 && word.chars().all(fits)
    };
    let Some(value) = table.optional("id") else {
        let stem = Path::new(file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        let name: String = stem
            .chars()
            .filter(|c| is_word(&c.to_string()))
            .take(64)
            .collect();
        let name = if name.is_empty() { "experiment" } else { &name };
        return Ok(super::intern(&format!("own/{name}")));
    };
    let text = value.text("a name such as \"mine/hello\"")?;
    let parts: Vec<&str> = text.split('/').collect();
    if parts.len() != 2 || !parts.iter().all(|part| is_word(part)) {
        return Err(value.mistake(format!(
            "`{text}`: expected two words of letters, digits, `-` and `_`, such as \"mine/hello\""
        )));
    }
    let is_taken = catalogue::all()
        .iter()
        .any(|experiment| experiment.id() == text);
    match is_taken || parts[1] == "all" {
        true => Err(value.mistake(format!("`{text}` is the name of another experiment"))),
        false => Ok(super::intern(text)),
    }
}

fn seeds(table: &Table<'_>) -> Result<[u32; 2], Mistake> {
    let count = |key: &str| {
        let value = table.optional(key);
        value.map(|value| value.integer(1, SEEDS_MAX)).transpose()
    };
    let quick = count("seeds")?.unwrap_or(1);
    let full = count("full_seeds")?.unwrap_or(quick);
    Ok([quick as u32, full as u32])
}

fn grid(table: &Table<'_>) -> Result<Vec<Coordinate>, Mistake> {
    let Some(grid) = table.optional("grid") else {
        return Ok(Vec::new());
    };
    let (mut coordinates, mut cells) = (Vec::new(), 1_usize);
    for (name, value) in grid.entries()? {
        check_name(&value, name, true)?;
        let mut values = Vec::new();
        for one in value.one_or_more() {
            let read = match one.as_text() {
                Some(word) => Value::Word(word.to_owned()),
                None => Value::Number(one.number("a number or a word in quotes")?),
            };
            if let Some(key) = name.strip_prefix(SETTINGS) {
                template::setting(key, &read).map_err(|why| one.mistake(why))?;
            }
            if values.contains(&read) {
                return Err(one.mistake(format!("`{}` twice", read.plain())));
            }
            values.push(read);
        }
        let is_number = |value: &&Value| matches!(value, Value::Number(_));
        let numbers = values.iter().filter(is_number).count();
        if values.is_empty() || values.len() > VALUES_MAX || ![0, values.len()].contains(&numbers) {
            let what = format!("expected 1 to {VALUES_MAX} values, all numbers or all words");
            return Err(value.mistake(what));
        }
        cells = cells.saturating_mul(values.len());
        coordinates.push(Coordinate {
            name: super::intern(name),
            values,
        });
    }
    match cells > CELLS_MAX {
        true => Err(grid.mistake(format!("{cells} cells: a grid may have {CELLS_MAX}"))),
        false => Ok(coordinates),
    }
}

/// That a name can stand in a check; `dotted` allows that of a setting.
fn check_name(value: &table::Value<'_>, name: &str, dotted: bool) -> Result<(), Mistake> {
    let bare = match dotted {
        true => name.strip_prefix(SETTINGS).unwrap_or(name),
        false => name,
    };
    let begins = bare.starts_with(|c: char| c.is_ascii_alphabetic());
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    // What a check would read as something else.
    let words = [
        "rises", "falls", "varies", "crosses", "beyond", "inf", "nan", "infinity", "cell",
    ];
    let is_taken = words.iter().any(|word| word.eq_ignore_ascii_case(bare));
    match begins && bare.chars().all(fits) && bare.len() <= 64 && !is_taken {
        true => Ok(()),
        false => Err(value.mistake(format!(
            "`{name}`: expected a name of letters, digits, `_` and `-`, such as lost_pct"
        ))),
    }
}

fn measures(table: &Table<'_>) -> Result<Vec<Measure>, Mistake> {
    const KEYS: [&str; 3] = ["name", "take", "over"];
    let value = table.required(
        "measure",
        "tables: write [[experiment.measure]] with name and take",
    )?;
    let mut measures: Vec<Measure> = Vec::new();
    for table in value.tables(|n| format!("measure {}", n + 1), &KEYS)? {
        let name = table.required("name", "a name such as \"lost_pct\"")?;
        let word = name.text("a name such as \"lost_pct\"")?;
        check_name(&name, word, false)?;
        if measures.iter().any(|measure| measure.name == word) {
            return Err(name.mistake(format!("there are two measures `{word}`")));
        }
        let of = match table.optional("take") {
            None => None,
            Some(value) => {
                let text = value.text("a number of the report, such as \"flows.a-b.lost_pct\"")?;
                Some(Expression::read(text).map_err(|why| value.mistake(why))?)
            }
        };
        let over = match table.optional("over") {
            None => Over::Mean,
            Some(value) => value.word(&[
                ("mean", Over::Mean),
                ("most", Over::Most),
                ("least", Over::Least),
            ])?,
        };
        measures.push(Measure {
            name: super::intern(word),
            of,
            over,
        });
    }
    match measures.is_empty() {
        true => Err(value.mistake("expected at least one measure")),
        false => Ok(measures),
    }
}

/// Where the numbers of a cell come from, and the files that it takes.
fn source(
    table: &Table<'_>,
    every: &[&str],
    (definition, files): (&Definition, &Files),
    grid: &[Coordinate],
) -> Result<(Source, Texts), Mistake> {
    if let Some(by) = table.optional("measured_by") {
        let by = by.text("who measures")?.to_owned();
        return Ok((Source::Elsewhere(by), Texts::new()));
    }
    let (file, text) = match &definition.scenario {
        Some((file, text)) => (file, text),
        None => (&definition.file, &definition.text),
    };
    if definition.scenario.is_some()
        && let Some(own) = every.iter().find(|key| **key != TABLE)
    {
        let what = format!("[{own}]: the scenario is in {file}: put it there");
        return Err(table.mistake(what));
    }
    let template = Template {
        file: file.clone(),
        text: text.clone(),
        files: files.clone(),
    };
    if let Some(unused) = grid.iter().find(|of| !template.has(of.name)) {
        let name = unused.name;
        return Err(table.mistake(format!(
            "grid: `{name}` changes nothing: write `{{{name}}}` where the scenario is to have its value"
        )));
    }
    let texts = tried(&template, grid)?;
    Ok((Source::Scenario(template), texts))
}

/// Fills a template with every value at least once, before hours of measuring; with all of them together if that decides
/// about files. The files that it took.
fn tried(template: &Template, grid: &[Coordinate]) -> Result<Texts, Mistake> {
    let longest = grid.iter().map(|of| of.values.len()).max().unwrap_or(1);
    let count = match template.text.contains("follows") {
        true => grid.iter().map(|of| of.values.len()).product(),
        false => longest,
    };
    let mut texts = Texts::new();
    for n in 0..count {
        let mut rest = n;
        let mut values = Vec::new();
        for of in grid {
            let place = match count == longest {
                true => n.min(of.values.len() - 1),
                false => rest % of.values.len(),
            };
            rest /= of.values.len();
            values.push((of.name, of.values[place].clone()));
        }
        texts.extend(template.filled(&values)?.files);
    }
    Ok(texts)
}
