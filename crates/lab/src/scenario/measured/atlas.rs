//! Results of `ping` in the form of RIPE Atlas: a JSON list, or an object in each line, of one probe.

use super::Sample;
use serde::Deserialize;

/// The fields of a result that are read. Results of other measurements than `ping` lack the counts.
#[derive(Deserialize)]
struct Ping {
    prb_id: u64,
    #[serde(default)]
    msm_id: u64,
    timestamp: f64,
    sent: u32,
    rcvd: u32,
    /// Mean round trip in milliseconds; -1 if no answer arrived.
    #[serde(default)]
    avg: Option<f64>,
}

/// Returns the samples of the pings.
pub(super) fn samples(bytes: &[u8]) -> Result<Vec<Sample>, String> {
    let wrong = |error: serde_json::Error| {
        format!(
            "expected results of ping by RIPE Atlas, with prb_id, timestamp, sent, rcvd and avg: {error}"
        )
    };
    let is_list = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let pings: Vec<Ping> = match is_list {
        true => serde_json::from_slice(bytes).map_err(wrong)?,
        false => {
            let lines = serde_json::Deserializer::from_slice(bytes).into_iter();
            lines.collect::<Result<_, _>>().map_err(wrong)?
        }
    };
    let mut samples = Vec::new();
    for ping in &pings {
        let first = &pings[0];
        if (ping.prb_id, ping.msm_id) != (first.prb_id, first.msm_id) {
            return Err(format!(
                "it has probe {} in measurement {}, and probe {} in {}: a link follows one of them",
                first.prb_id, first.msm_id, ping.prb_id, ping.msm_id
            ));
        }
        if ping.rcvd > ping.sent || ping.sent == 0 || !ping.timestamp.is_finite() {
            return Err(format!(
                "at {}: {} of {} cannot have come",
                ping.timestamp, ping.rcvd, ping.sent
            ));
        }
        samples.push(Sample {
            at_s: ping.timestamp,
            delay_ms: ping.avg.filter(|avg| *avg >= 0.0).map(|avg| avg / 2.0),
            sent: ping.sent,
            lost: ping.sent - ping.rcvd,
        });
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"[
        {"type":"ping","prb_id":7,"timestamp":1700000000,"sent":3,"rcvd":3,"avg":30.5,"result":[{"rtt":30.5}]},
        {"type":"ping","prb_id":7,"timestamp":1700000240,"sent":3,"rcvd":0,"avg":-1,"result":[{"x":"*"}]}
    ]"#;

    #[test]
    fn pings_are_read_as_a_list_and_line_by_line() {
        let expected = [
            Sample {
                at_s: 1_700_000_000.0,
                delay_ms: Some(15.25),
                sent: 3,
                lost: 0,
            },
            Sample {
                at_s: 1_700_000_240.0,
                delay_ms: None,
                sent: 3,
                lost: 3,
            },
        ];
        assert_eq!(samples(RESULTS.as_bytes()).unwrap(), expected);
        let lines = RESULTS
            .replace(['[', ']'], "")
            .replace("\"result\":{\"rtt\":30.5}", "\"result\":0");
        let lines = lines
            .replace("\"result\":{\"x\":\"*\"}", "\"result\":0")
            .replace("},", "}");
        assert_eq!(samples(lines.as_bytes()).unwrap(), expected, "{lines}");
    }

    #[test]
    fn others_are_refused() {
        for (text, answer) in [
            (
                RESULTS.replacen("\"prb_id\":7", "\"prb_id\":8", 1),
                "one of them",
            ),
            (RESULTS.replace("\"rcvd\":3", "\"rcvd\":4"), "4 of 3"),
            (RESULTS.replace("\"sent\"", "\"hops\""), "results of ping"),
            ("{}".to_owned(), "results of ping"),
        ] {
            let error = samples(text.as_bytes()).unwrap_err();
            assert!(error.contains(answer), "{error}");
        }
        assert!(samples(b"[]").unwrap().is_empty());
    }
}
