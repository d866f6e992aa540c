//! `follows` and `follows_back` of a `[[link]]`: a path that changes as a measured one did.
//!
//! ```text
//!   at_s,delay_ms,loss_pct,rate_kbps        1            of Mahimahi: at this millisecond a packet of
//!   0,20,0.5,8000                           4            1500 bytes may go. The file repeats.
//!   60,85,3,1200                            4
//!        └──▶ words of a path, from that moment on ◀── the rate of each second
//! ```
//! Captures and results of RIPE Atlas are converted to such tables.

use super::super::files::{Files, Texts};
use super::super::measured;
use super::super::table::{Table, Value};
use super::super::{BothWays, FAULTS_MAX, Fault, FaultKind};
use super::{Mistake, PATH, both_ways};
use base::Duration;
use base::impair::Model;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::Path;
use std::vec::IntoIter;

/// Size of a packet in Mahimahi's traces.
const OPPORTUNITY_BYTES: u64 = 1_500;
/// Length of the spans over which the rate of such a trace is calculated.
const STEP_MS: u64 = 1_000;
/// The columns of a table in addition to the time, and the corresponding words of a path.
const COLUMNS: [(&str, &str, &str); 3] = [
    ("delay_ms", "delay", "ms"),
    ("loss_pct", "loss", "%"),
    ("rate_kbps", "rate", "kbit"),
];

/// The word for a path that carries nothing. A path that is down is different: it stays down until a fault brings it
/// up.
const SHUT: &str = "loss=100%";

/// The words of a path from a moment on, which replace earlier ones.
type Step = (Duration, Vec<(&'static str, String)>);
type Steps = Vec<Step>;

/// Reads the path of a link, and its changes according to the files that it follows; the files' contents are put into
/// `texts`.
pub(super) fn path(
    table: &Table<'_>,
    (files, texts): (&Files, &mut Texts),
    duration: Duration,
    link: usize,
) -> Result<(BothWays, Vec<Fault>), Mistake> {
    let path = both_ways(table, "a path of both directions")?;
    let there = steps(table, "follows", (files, texts), duration)?;
    let back = steps(table, "follows_back", (files, texts), duration)?;
    let moments = there.iter().chain(&back).map(|(at, _)| *at);
    let value = table.optional("follows").or(table.optional("follows_back"));
    let Some(value) = value else {
        return Ok((path, Vec::new()));
    };
    let words = |key: &str| {
        table
            .optional(key)
            .map(|value| value.text(PATH))
            .transpose()
    };
    let own = words("path")?.unwrap_or_default();
    let mut moments: Vec<Duration> = moments.collect();
    moments.sort_unstable();
    moments.dedup();
    let (mut there, mut back) = (
        Way::new(own, there),
        Way::new(words("back")?.unwrap_or(own), back),
    );
    if moments.len() > FAULTS_MAX {
        return Err(value.mistake(format!("more than {FAULTS_MAX} changes")));
    }
    let mut faults = Vec::new();
    for at in moments {
        let both = BothWays {
            there: there.at(at, &value)?,
            back: back.at(at, &value)?,
        };
        let kind = FaultKind::Follow(link, Box::new(both));
        faults.push(Fault { at, kind });
    }
    Ok((path, faults))
}

/// One direction.
struct Way<'a> {
    /// The link's own words, which apply unless a step has them.
    own: &'a str,
    steps: Peekable<IntoIter<Step>>,
    now: BTreeMap<&'static str, String>,
}

impl<'a> Way<'a> {
    fn new(own: &'a str, steps: Steps) -> Way<'a> {
        Way {
            own,
            steps: steps.into_iter().peekable(),
            now: BTreeMap::new(),
        }
    }

    /// Returns the model from this moment on. Calls must be in order of time.
    fn at(&mut self, at: Duration, value: &Value<'_>) -> Result<Model, Mistake> {
        while let Some((_, words)) = self.steps.next_if(|(then, _)| *then <= at) {
            for (key, word) in words {
                match word.is_empty() {
                    true => drop(self.now.remove(key)),
                    false => drop(self.now.insert(key, word)),
                }
            }
        }
        let is_replaced = |word: &&str| {
            let key = word.split('=').next().unwrap_or_default();
            let of_loss = ["burst", "gilbert", "trace"].contains(&key);
            let key = if of_loss { "loss" } else { key };
            self.now.contains_key(key) || *word == "clean"
        };
        let own = self
            .own
            .split_whitespace()
            .filter(|word| !is_replaced(word));
        let mut words: Vec<&str> = own.collect();
        words.extend(self.now.values().map(String::as_str));
        let text = match words.is_empty() {
            true => "clean".to_owned(),
            false => words.join(" "),
        };
        text.parse()
            .map_err(|why| value.mistake(format!("at {at}: `{text}`: {why}")))
    }
}

fn steps(
    table: &Table<'_>,
    key: &str,
    (files, texts): (&Files, &mut Texts),
    duration: Duration,
) -> Result<Steps, Mistake> {
    let Some(value) = table.optional(key) else {
        return Ok(Vec::new());
    };
    let name = value.text("a file: .csv, .pcap, .pcapng, .json of RIPE Atlas, or of Mahimahi")?;
    let text = files.read(name).map_err(|why| value.mistake(why))?;
    // Some programs write a byte-order mark at the beginning of a table.
    let shown = text.trim_start_matches('\u{feff}');
    let is_csv = Path::new(name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let is_table = is_csv || measured::is_meant_by(name);
    let read = match is_table {
        true => rows(shown, duration),
        false => opportunities(shown, duration),
    };
    let steps = read.map_err(|why| value.mistake(format!("{name}: {why}")))?;
    texts.insert(name.to_owned(), text);
    Ok(steps)
}

/// Reads a table.
fn rows(text: &str, duration: Duration) -> Result<Steps, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty());
    let head: Vec<&str> = lines
        .next()
        .map(|(_, head)| head.split(',').map(str::trim).collect())
        .unwrap_or_default();
    let known = || COLUMNS.iter().map(|(column, ..)| *column);
    let expected = || {
        format!(
            "expected a head such as `at_s,{}`",
            known().collect::<Vec<_>>().join(",")
        )
    };
    let columns: Option<Vec<_>> = head
        .iter()
        .skip(1)
        .map(|name| COLUMNS.iter().find(|(column, ..)| column == name))
        .collect();
    let columns = columns.filter(|columns| !columns.is_empty() && head.first() == Some(&"at_s"));
    let columns = columns.ok_or_else(expected)?;
    let mut steps = Steps::new();
    for (line, text) in lines {
        let wrong = |what: &str| format!("line {}: {what}", line + 1);
        let mut numbers = Vec::new();
        for cell in text.split(',') {
            let number: Result<f64, _> = cell.trim().parse();
            let number = number.ok().filter(|n| n.is_finite() && *n >= 0.0);
            numbers.push(number.ok_or_else(|| wrong("expected numbers from 0 on"))?);
        }
        if numbers.len() != head.len() {
            return Err(wrong(&format!("expected {} numbers", head.len())));
        }
        let at = Duration::from_secs_f64(numbers[0]);
        if steps.last().is_some_and(|(before, _)| *before > at) {
            return Err(wrong("it is earlier than the line before"));
        }
        let mut words: Vec<_> = columns
            .iter()
            .zip(&numbers[1..])
            .map(|((_, key, unit), number)| (*key, format!("{key}={number}{unit}")))
            .collect();
        let is_shut = |(key, word): &(&str, String)| *key == "rate" && word == "rate=0kbit";
        if words.iter().any(is_shut) {
            words.retain(|(key, _)| !["rate", "loss"].contains(key));
            words.push(("loss", SHUT.to_owned()));
        } else if !words.iter().any(|(key, _)| *key == "loss") {
            words.push(("loss", String::new()));
        }
        if at < duration {
            steps.push((at, words));
        }
    }
    Ok(steps)
}

/// Reads the moments at which a packet may be sent, in milliseconds.
fn opportunities(text: &str, duration: Duration) -> Result<Steps, String> {
    let mut moments = Vec::new();
    for (line, text) in text.lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let wrong = || format!("line {}: expected milliseconds that do not fall", line + 1);
        let moment: u64 = text.trim().parse().map_err(|_| wrong())?;
        if moments.last().is_some_and(|before| *before > moment) {
            return Err(wrong());
        }
        moments.push(moment);
    }
    let Some(period) = moments.last().copied().filter(|last| *last > 0) else {
        return Err("expected milliseconds, one in each line".to_owned());
    };
    let mut steps = Steps::new();
    let mut before = None;
    for second in 0..duration.as_millis().div_ceil(STEP_MS) {
        let (from, to) = (second * STEP_MS, (second + 1) * STEP_MS);
        // Returns the number of packets up to a moment, over all repetitions of the file.
        let until = |at: u64| {
            let rest = moments.partition_point(|moment| *moment <= at % period);
            at / period * moments.len() as u64 + rest as u64
        };
        let count = until(to) - until(from);
        if before == Some(count) {
            continue;
        }
        before = Some(count);
        let words = match count {
            0 => vec![("loss", SHUT.to_owned())],
            count => {
                let kbps = count * OPPORTUNITY_BYTES * 8 / STEP_MS;
                vec![
                    ("loss", String::new()),
                    ("rate", format!("rate={kbps}kbit")),
                ]
            }
        };
        steps.push((Duration::from_millis(from), words));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn scenario(folder: &Path, link: &str) -> Result<Scenario, Mistake> {
        let text = format!(
            "[scenario]\nname = 'x'\nduration = '10s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
             [[link]]\na = 'a'\nb = 'b'\n{link}\n[[flow]]\nfrom = 'a'\nto = 'b'\n"
        );
        let file = folder.join("x.toml");
        Scenario::parse(&file.display().to_string(), &text)
    }

    fn paths(scenario: &Scenario) -> Vec<(f64, String, String)> {
        let faults = scenario.faults.iter();
        faults
            .map(|fault| match &fault.kind {
                FaultKind::Follow(_, both) => {
                    let (there, back) = (both.there.to_string(), both.back.to_string());
                    (fault.at.as_secs_f64(), there, back)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_link_follows_what_was_measured() {
        let folder = crate::files::Scratch::new("follow").unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write(
            "up.csv",
            "at_s,delay_ms,loss_pct\n0,20,0\n4.5,85,3\n\n12,1,0\n",
        );
        // There are 3 packets in the first second, one at the end of the second one, then they repeat.
        write("down", "100\n200\n900\n2000\n");
        let link = "path = 'delay=5ms rate=9mbit'\nfollows = 'up.csv'\nfollows_back = 'down'";
        let followed = scenario(folder.path(), link).unwrap();
        let told = paths(&followed);
        let model = |words: &str| words.parse::<Model>().unwrap().to_string();
        assert_eq!(told[0].1, model("delay=20ms loss=0% rate=9mbit"));
        assert_eq!(told[0].2, model("delay=5ms rate=36kbit"));
        let at = |at: f64| told.iter().rfind(|(then, ..)| *then <= at).unwrap();
        assert_eq!(at(1.0).2, model("delay=5ms rate=12kbit"));
        assert_eq!(at(4.6).1, model("delay=85ms loss=3% rate=9mbit"));
        // Nothing is sent for a second: all is lost, and the queue stays.
        write("idle", "100\n2500\n\n");
        write("shut.CSV", "\u{feff}at_s,rate_kbps\n0,500\n5,0\n6,700\n");
        let link = "path = 'rate=1mbit queue=50'\nfollows = 'idle'\nfollows_back = 'shut.CSV'";
        let told = paths(&scenario(folder.path(), link).unwrap());
        let at = |at: f64| told.iter().rfind(|(then, ..)| *then <= at).unwrap();
        assert_eq!(at(1.0).1, model("loss=100% rate=12kbit queue=50"));
        // The packets are the one at 2.5 s, and the first one of the next repetition.
        assert_eq!(at(2.0).1, model("rate=24kbit queue=50"));
        assert_eq!(at(5.0).2, model("loss=100% rate=500kbit queue=50"));
        assert_eq!(at(6.0).2, model("rate=700kbit queue=50"));
        for (wrong, text) in [
            ("at,delay_ms\n0,1\n", "expected a head"),
            ("at_s,speed\n0,1\n", "expected a head"),
            ("at_s,delay_ms\n0,-1\n", "line 2"),
            ("at_s,delay_ms\n0,NaN\n", "line 2"),
            ("at_s,delay_ms\n0\n", "expected 2 numbers"),
            ("at_s,delay_ms\n5,1\n4,1\n", "earlier"),
            ("at_s,loss_pct\n1,101\n", "loss=101%"),
        ] {
            write("wrong.csv", wrong);
            let refused = scenario(folder.path(), "path = 'clean'\nfollows = 'wrong.csv'");
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(text), "{wrong}: {told}");
        }
        for (name, text) in [("none.csv", "none.csv"), ("x", "milliseconds")] {
            write("x", "5\n4\n");
            let refused = scenario(
                folder.path(),
                &format!("path = 'clean'\nfollows = '{name}'"),
            );
            assert!(refused.unwrap_err().to_string().contains(text), "{name}");
        }
    }
}
