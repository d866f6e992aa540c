//! The results of a simulation, as one tree of named numbers.

use crate::scenario::Record;

/// Returns the document from which measures take numbers: `flows` and `links` by their names, `overlay`, and `events`
/// counted by their kinds.
pub(super) fn of(record: &Record) -> serde_json::Value {
    let flows = record.report.flows.iter();
    let flows = flows.map(|flow| (flow.name.clone(), serde_json::json!(flow)));
    let links = record.links.iter();
    let links = links.map(|link| {
        (
            format!("{}-{}", link.from, link.to),
            serde_json::json!(link),
        )
    });
    serde_json::json!({
        "flows": flows.collect::<serde_json::Map<_, _>>(),
        "links": links.collect::<serde_json::Map<_, _>>(),
        "overlay": record.report.overlay,
        "events": record.event_counts,
    })
}

/// Returns a number of a document by its path; NaN if the document has no value yet. Names of flows may contain dots.
pub(super) fn number(document: &serde_json::Value, path: &str) -> Result<f64, String> {
    let (mut at, mut rest) = (document, path);
    loop {
        match at {
            serde_json::Value::Object(fields) => {
                let fits = |key: &&String| {
                    let after = rest.strip_prefix(key.as_str());
                    after.is_some_and(|after| after.is_empty() || after.starts_with('.'))
                };
                let key = fields.keys().filter(fits).max_by_key(|key| key.len());
                let Some(key) = key else {
                    let is_number = |(_, value): &(&String, &serde_json::Value)| !value.is_string();
                    let known = fields.iter().filter(is_number);
                    let known: Vec<&str> = known.map(|(key, _)| key.as_str()).collect();
                    let name = rest.split('.').next().unwrap_or_default();
                    if name.contains(['+', '*', '/']) {
                        return Err(format!(
                            "`{path}`: write spaces around `+`, `-`, `*` and `/`"
                        ));
                    }
                    if name.is_empty() {
                        let known = known.join(", ");
                        return Err(format!("`{path}`: it goes on with one of {known}"));
                    }
                    return Err(match tools::spelling::nearest(name, &known) {
                        Some(meant) => format!("`{path}`: no `{name}`; did you mean `{meant}`?"),
                        None => format!("`{path}`: no `{name}`; there are {}", known.join(", ")),
                    });
                };
                at = &fields[key];
                rest = rest[key.len()..].trim_start_matches('.');
            }
            _ if !rest.is_empty() => {
                return Err(format!("`{path}`: there is nothing behind a number"));
            }
            serde_json::Value::Null => return Ok(f64::NAN),
            value => {
                return value
                    .as_f64()
                    .ok_or_else(|| format!("`{path}` is no number"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_paths_and_others_answered() {
        let document = serde_json::json!({
            "flows": {"a": {"lost": 1}, "a.b": {"lost": 2, "delay_ms": {"p50": null}, "to": "b"}},
        });
        let found = |path: &str| number(&document, path);
        assert_eq!(found("flows.a.lost"), Ok(1.0));
        assert_eq!(found("flows.a.b.lost"), Ok(2.0));
        assert!(found("flows.a.b.delay_ms.p50").unwrap().is_nan());
        for (path, answer) in [
            ("flow.a.lost", "did you mean `flows`?"),
            ("flows.a.lose", "did you mean `lost`?"),
            ("flows.other.lost", "there are a, a.b"),
            ("flows.a.lost.pct", "nothing behind"),
            ("flows.a.b.to", "is no number"),
            ("flows.a", "goes on with one of lost"),
        ] {
            let error = found(path).unwrap_err();
            assert!(error.contains(answer), "{path}: {error}");
        }
    }
}
