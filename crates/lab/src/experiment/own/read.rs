//! Reads the text of an experiment: the table `[experiment]`, together with a scenario or with the name of one.
//! docs/lab.md has the schema.

mod claims;

use super::document;
use super::expression::Expression;
use super::template::{self, SETTINGS, Template};
use super::{Coordinate, Definition, Measure, Over, Own, Source, Value};
use crate::experiment::{catalogue, cells};
use crate::scenario::table::{self, Table, Text};
use crate::scenario::{self, Files, Mistake, Scenario, Texts};
use std::collections::BTreeSet;
use std::path::Path;
use toml::de::DeTable;

/// The name of the table that an experiment adds to a scenario.
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
const MEASURE_KEYS: [&str; 3] = ["name", "take", "over"];
/// Most runs of a cell: a thousand have a standard error of a thirtieth of one run's.
const SEEDS_MAX: i64 = 1_000;
/// The possible values of a coordinate, for errors.
const WORD: &str = "a number, or a word in quotes";
/// Most values of a coordinate, and most cells of a grid.
const VALUES_MAX: usize = 1_000;
const CELLS_MAX: usize = 10_000;

/// Reads and checks a definition, whose scenario's files are in `files`. Returns also the files that it has read.
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
    let measures = measures(&table, &grid)?;
    let (source, first) = source(&table, &every, (definition, files), &grid)?;
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
    if let Some((_, first)) = &first {
        check_taken(&table, first)?;
    }
    let known = claims::Known {
        coordinates: grid.iter().map(|of| of.name).collect(),
        measures: measures.iter().map(|of| of.name).collect(),
        means: measures
            .iter()
            .filter(|of| of.over == Over::Mean)
            .map(|of| of.name)
            .collect(),
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
    let texts = first.map(|(texts, _)| texts).unwrap_or_default();
    let decisive = decisive(&source, &texts, &measures, seeds);
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
        decisive,
        definition: definition.clone(),
    };
    Ok((own, texts))
}

/// Returns a digest of everything that determines the numbers of a cell, except its key and the seed.
fn decisive(source: &Source, texts: &Texts, measures: &[Measure], seeds: [u32; 2]) -> u64 {
    let text = match source {
        Source::Scenario(template) => &template.text,
        Source::Elsewhere(by) => by,
    };
    // Empty lines and comments do not matter; the experiment's own lines are empty here.
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_said).collect();
    let source = lines.join("\n");
    let measures: Vec<_> = measures.iter().map(|m| (m.name, &m.of, m.over)).collect();
    cells::digest(format!("{source}\0{texts:?}\0{measures:?}\0{seeds:?}").as_bytes())
}

fn text_of(table: &Table<'_>, key: &str) -> Result<Option<String>, Mistake> {
    let text = table.optional(key).map(|value| value.text("a text"));
    Ok(text.transpose()?.map(str::to_owned))
}

/// Returns `mine/hello`, or the file's name after `own/`.
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
        .any(|experiment| experiment.id() == text || experiment.family() == text);
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
        if value.is_table() {
            let what = format!("expected values; a name with a point needs quotes: \"{name}.…\"");
            return Err(value.mistake(what));
        }
        let mut values = Vec::new();
        for one in value.one_or_more() {
            let read = match one.as_text() {
                Some(word) => Value::Word(word.to_owned()),
                None => Value::Number(one.number_or(WORD)?),
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
    if cells > CELLS_MAX {
        return Err(grid.mistake(format!("{cells} cells: a grid may have {CELLS_MAX}")));
    }
    let mut keys = BTreeSet::new();
    match super::cells(&coordinates)
        .into_iter()
        .find(|cell| !keys.insert(cell.key.clone()))
    {
        Some(cell) => Err(grid.mistake(format!("two of its cells would be called `{}`", cell.key))),
        None => Ok(coordinates),
    }
}

/// Checks that a name is possible in a check; `dotted` allows that of a setting.
fn check_name(value: &table::Value<'_>, name: &str, dotted: bool) -> Result<(), Mistake> {
    let bare = match dotted {
        true => name.strip_prefix(SETTINGS).unwrap_or(name),
        false => name,
    };
    let begins = bare.starts_with(|c: char| c.is_ascii_alphabetic());
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    // A check would interpret these words differently.
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

fn measures(table: &Table<'_>, grid: &[Coordinate]) -> Result<Vec<Measure>, Mistake> {
    let value = table.required(
        "measure",
        "tables: write [[experiment.measure]] with name and take",
    )?;
    let mut measures: Vec<Measure> = Vec::new();
    for table in value.tables(|n| format!("measure {}", n + 1), &MEASURE_KEYS)? {
        let name = table.required("name", "a name such as \"lost_pct\"")?;
        let word = name.text("a name such as \"lost_pct\"")?;
        check_name(&name, word, false)?;
        if measures.iter().any(|measure| measure.name == word) {
            return Err(name.mistake(format!("there are two measures `{word}`")));
        }
        if grid.iter().any(|of| of.name == word) {
            return Err(name.mistake(format!("`{word}` is a coordinate of the grid, too")));
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

/// Returns the source of a cell's numbers, and the files that it uses.
fn source(
    table: &Table<'_>,
    every: &[&str],
    (definition, files): (&Definition, &Files),
    grid: &[Coordinate],
) -> Result<(Source, Option<(Texts, Scenario)>), Mistake> {
    let named = table.optional("scenario");
    let named = named.map(|value| value.text("the name of a file"));
    let named = named.transpose()?;
    let other = every.iter().find(|key| **key != TABLE);
    if let Some(by) = table.optional("measured_by") {
        let by = by.text("who measures")?.to_owned();
        return match (named, other) {
            (None, None) => Ok((Source::Elsewhere(by), None)),
            _ => Err(table.mistake(format!("{by} measures: leave out the scenario"))),
        };
    }
    let (file, text) = match &definition.scenario {
        Some((file, text)) => (file.clone(), text.clone()),
        None => {
            let scenario = template::scenario_of(&definition.text);
            (definition.file.clone(), scenario)
        }
    };
    if let (Some(named), Some(other)) = (named, other) {
        let what = format!("[{other}]: the scenario is in {named}: put it there");
        return Err(table.mistake(what));
    }
    let template = Template {
        file,
        text,
        files: files.clone(),
    };
    let names: Vec<&str> = grid.iter().map(|of| of.name).collect();
    template.check_blanks(&names)?;
    if let Some(unused) = grid.iter().find(|of| !template.has(of.name)) {
        let (name, grid) = (unused.name, table.required("grid", "a grid")?);
        let entries = grid.entries()?;
        let of = entries.into_iter().find(|(other, _)| *other == name);
        let what = format!(
            "it changes nothing: write `{{{name}}}` where the scenario is to have its value"
        );
        return Err(of.map_or(grid, |(_, value)| value).mistake(what));
    }
    let tried = tried(&template, grid)?;
    Ok((Source::Scenario(template), Some(tried)))
}

/// Fills a template with every value at least once, before hours of measuring; with all combinations if values
/// determine files. Returns the files that it used, and one of the scenarios.
fn tried(template: &Template, grid: &[Coordinate]) -> Result<(Texts, Scenario), Mistake> {
    let is_file = |line: &&str| line.contains("follows");
    let names: Vec<&str> = template.text.lines().filter(is_file).collect();
    let decides = |of: &&Coordinate| {
        let blank = format!("{{{}}}", of.name);
        names.iter().any(|line| line.contains(&blank))
    };
    let (files, others): (Vec<&Coordinate>, Vec<&Coordinate>) = grid.iter().partition(decides);
    let combinations: usize = files.iter().map(|of| of.values.len()).product();
    let longest = others.iter().map(|of| of.values.len()).max().unwrap_or(1);
    let (mut texts, mut first) = (Texts::new(), None);
    for n in 0..combinations.max(longest) {
        let mut rest = n;
        let mut values = Vec::new();
        for of in &files {
            values.push((of.name, of.values[rest % of.values.len()].clone()));
            rest /= of.values.len();
        }
        for of in &others {
            values.push((of.name, of.values[n.min(of.values.len() - 1)].clone()));
        }
        let scenario = template.filled(&values)?;
        texts.extend(scenario.files.clone());
        first.get_or_insert(scenario);
    }
    Ok((texts, first.expect("a grid has a combination")))
}

/// Checks that every measure takes a value that a report of the scenario has.
fn check_taken(table: &Table<'_>, scenario: &Scenario) -> Result<(), Mistake> {
    let document = document::of(&scenario::blank(scenario));
    let value = table.required("measure", "measures")?;
    for table in value.tables(|n| format!("measure {}", n + 1), &MEASURE_KEYS)? {
        let Some(value) = table.optional("take") else {
            continue;
        };
        let of = Expression::read(value.text("numbers")?).map_err(|why| value.mistake(why))?;
        let number = |path: &str| document::number(&document, path);
        of.value(number).map_err(|why| value.mistake(why))?;
    }
    Ok(())
}
