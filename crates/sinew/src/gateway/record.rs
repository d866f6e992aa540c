//! Formats the calls of a gateway as JSON and as a line of text.

use super::exchange::Far;
use base::Duration;
use gateway::media::{Report, SideReport, StreamReport};
use gateway::sip::{End, Gateway, Record};
use serde_json::{Value, json};
use std::time::SystemTime;
use voice::live::Quality;
use voice::media::{Carrier, Drop};

/// The names of a call's two directions, by the side that sends the media.
pub const DIRECTIONS: [&str; 2] = ["from_caller", "from_callee"];
/// The numbers of a direction that gateways report to each other.
pub const QUALITY: [&str; 15] = [
    "expected",
    "received",
    "recovered",
    "late",
    "loss_before_recovery",
    "loss",
    "missed",
    "burst_ratio",
    "jitter_ms",
    "jitter_max_ms",
    "delay_mean_ms",
    "delay_max_ms",
    "budget_used_mean",
    "r_factor",
    "mos",
];

/// Returns a call as a JSON event.
pub fn event(what: &str, call: &Record, far: &Far) -> Value {
    let mut value = json(call, far);
    value["event"] = json!(what);
    value
}

/// Returns a call as JSON, with the results of the gateway at its other end.
pub fn json(call: &Record, far: &Far) -> Value {
    let far = far.of(call);
    let started = call.started.duration_since(SystemTime::UNIX_EPOCH);
    let status = match call.end {
        Some(End::Refused(status)) => Some(status),
        _ => None,
    };
    json!({
        "call": format!("{:x}", call.number),
        "call_id": call.call_id,
        "from": call.from,
        "to": call.to,
        "started_unix_s": started.unwrap_or_default().as_secs_f64(),
        "answered_after_s": call.answered_after.map(|d| d.as_secs_f64()),
        "lasted_s": call.lasted.as_secs_f64(),
        "end": call.end.map(End::label),
        "status": status,
        "peer": call.peer.map(|node| node.to_string()),
        "media": match call.is_carried { true => "overlay", false => "direct" },
        "streams": call.report.as_ref().map(|report| streams(report, &far)),
    })
}

fn streams(report: &Report, far: &[Value]) -> Vec<Value> {
    let streams = report.streams.iter().enumerate();
    let with_far = streams.map(|(i, stream)| {
        let mut value = self::stream(stream);
        value["far"] = far.get(i).cloned().unwrap_or_default();
        value
    });
    with_far.collect()
}

/// Returns those directions of a stream that came over the overlay: the gateway at the other end
/// needs them.
pub fn heard_over_overlay(stream: &StreamReport) -> Value {
    let mut value = json!({});
    for (name, side) in DIRECTIONS.into_iter().zip(&stream.sides) {
        if side.carrier == Carrier::Overlay {
            value[name] = json!({"quality": quality(&side.quality)});
        }
    }
    value
}

fn stream(stream: &StreamReport) -> Value {
    let mut value = json!({"media": stream.media});
    for (name, side) in DIRECTIONS.into_iter().zip(&stream.sides) {
        value[name] = self::side(side);
    }
    value
}

fn side(side: &SideReport) -> Value {
    let drops: serde_json::Map<String, Value> = side
        .drops
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (Drop::label(reason).to_owned(), json!(count)))
        .collect();
    json!({
        "over": match side.carrier { Carrier::Udp => "udp", Carrier::Overlay => "overlay" },
        "packets": side.packets,
        "bytes": side.bytes,
        "rtcp_packets": side.rtcp_packets,
        "remote": side.remote.map(|at| at.to_string()),
        "silence_s": side.silence.map(|d| d.as_secs_f64()),
        "round_trip_ms": side.round_trip.map(ms),
        "quality": quality(&side.quality),
        "last_5s": side.window.as_ref().map(|window| quality(&window.quality)),
        "direct": side.direct.as_ref().map(quality),
        "reported": reported(side),
        "drops": drops,
    })
}

fn quality(quality: &Quality) -> Value {
    let counts = &quality.counts;
    json!({
        "expected": counts.expected,
        "received": counts.received,
        "recovered": counts.recovered,
        "late": counts.late,
        "loss_before_recovery": counts.loss_before_recovery(),
        "loss": counts.loss(),
        "missed": counts.missed_fraction(),
        "burst_ratio": quality.burst_ratio,
        "jitter_ms": ms(quality.jitter),
        "jitter_max_ms": ms(quality.jitter_max),
        "delay_mean_ms": quality.budget.as_ref().map(|b| ms(b.mean)),
        "delay_max_ms": quality.budget.as_ref().map(|b| ms(b.max)),
        "budget_used_mean": quality.budget.as_ref().map(|b| b.share_mean),
        "budget_used_p99": quality.budget.as_ref().map(|b| b.share_p99),
        "mouth_to_ear_ms": ms(quality.mouth_to_ear),
        "r_factor": quality.r_factor(),
        "mos": quality.mos(),
    })
}

/// Returns what an end reported about the stream of the other side.
fn reported(side: &SideReport) -> Value {
    let block = side.reported.block().map(|(_, block)| {
        json!({"fraction_lost": f64::from(block.fraction_lost) / 256.0, "jitter_ticks": block.jitter})
    });
    let metrics = side.reported.voip_metrics().map(|(_, metrics)| {
        json!({
            "missed": metrics.missed(),
            "r_factor": metrics.r_factor,
            "mos_lq": metrics.mos_lq_tenths.map(|tenths| f64::from(tenths) / 10.0),
            "mos_cq": metrics.mos_cq_tenths.map(|tenths| f64::from(tenths) / 10.0),
        })
    });
    json!({"rtcp": block, "xr": metrics})
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Describes an ended call in text: one line, and one for each direction that the overlay carried.
pub fn line(call: &Record, far: &Far) -> String {
    let end = match call.end {
        Some(End::Refused(status)) => format!("refused with {status}"),
        Some(end) => format!("ended: {}", end.label()),
        None => "goes on".to_owned(),
    };
    let media = match call.is_carried {
        true => "over the overlay",
        false => "direct",
    };
    let heard = match json(call, far)["streams"][0] {
        ref stream if call.is_carried => heard(stream),
        _ => String::new(),
    };
    format!(
        "{} -> {}: {:.1} s, {media}, {end}{heard}",
        call.from,
        call.to,
        call.lasted.as_secs_f64()
    )
}

/// Describes what each end of a stream received.
fn heard(stream: &Value) -> String {
    let ends = [("from_callee", "caller"), ("from_caller", "callee")];
    let heard = ends.map(|(direction, end)| {
        let (here, far) = (&stream[direction], &stream["far"][direction]);
        let quality = match here["over"] == "overlay" {
            true => &here["quality"],
            false => &far["quality"],
        };
        let percent = |key: &str| quality[key].as_f64().map(|share| 1e2 * share);
        let (Some(before), Some(after)) = (percent("loss_before_recovery"), percent("missed"))
        else {
            return String::new();
        };
        let mos = quality["mos"].as_f64();
        let mos = mos.map_or_else(String::new, |mos| format!(", MOS {mos:.2}"));
        format!("; the {end} heard loss {before:.2} % before recovery, {after:.2} % after{mos}")
    });
    heard.concat()
}

/// Returns the gateway's counters as JSON.
pub fn counters(gateway: &Gateway) -> Value {
    let (sip, media) = (gateway.counters(), gateway.media());
    let drops: serde_json::Map<String, Value> = media
        .drops
        .iter()
        .map(|(reason, count)| (Drop::label(reason).to_owned(), json!(count)))
        .collect();
    json!({
        "answered": sip.answered.value(),
        "ended": sip.ended.value(),
        "rejected": sip.rejected.value(),
        "not_allowed": sip.not_allowed.value(),
        "forged": sip.forged.value(),
        "too_many_hops": sip.too_many_hops.value(),
        "overload": sip.overload.value(),
        "flood": sip.flood.value(),
        "nonsense": sip.nonsense.value(),
        "bad_answers": sip.bad_answers.value(),
        "unproven": sip.unproven.value(),
        "unread": sip.unread.value(),
        "calls": media.calls,
        "expired": media.expired,
        "nodes_lost": media.nodes_lost,
        "udp_ports_free": media.udp_ports_free,
        "virtual_ports_free": media.overlay_ports_free,
        "connected": media.connected,
        "packets_from_udp": media.received[0],
        "packets_from_overlay": media.received[1],
        "packets_to_udp": media.sent[0],
        "packets_to_overlay": media.sent[1],
        "drops": drops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_call_are_told_before_and_after() {
        let quality = |before: f64, after: f64| json!({"quality": {"loss_before_recovery": before, "missed": after, "mos": 4.25}});
        let mut here = quality(0.0555, 0.0139);
        here["over"] = json!("overlay");
        let stream = json!({
            "from_callee": here,
            "from_caller": {"over": "udp", "quality": quality(0.0, 0.0)["quality"]},
            "far": {"from_caller": quality(0.04, 0.001)},
        });
        assert_eq!(
            heard(&stream),
            "; the caller heard loss 5.55 % before recovery, 1.39 % after, MOS 4.25\
             ; the callee heard loss 4.00 % before recovery, 0.10 % after, MOS 4.25"
        );
        let mut alone = stream.clone();
        alone["far"] = Value::Null;
        assert!(!heard(&alone).contains("callee"), "nobody has told of it");
    }
}
