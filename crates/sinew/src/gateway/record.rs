//! Calls of a gateway as JSON and as a line for people.

use base::Duration;
use gateway::media::{Report, SideReport, StreamReport};
use gateway::sip::{End, Gateway, Record};
use serde_json::{Value, json};
use std::time::SystemTime;
use voice::live::Quality;
use voice::media::{Carrier, Drop};

/// The names of a call's two directions, by the side that media comes from.
const DIRECTIONS: [&str; 2] = ["from_caller", "from_callee"];

/// A call, as an event.
pub fn event(what: &str, call: &Record) -> Value {
    let mut value = json(call);
    value["event"] = json!(what);
    value
}

/// A call.
pub fn json(call: &Record) -> Value {
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
        "streams": call.report.as_ref().map(streams),
    })
}

fn streams(report: &Report) -> Vec<Value> {
    report.streams.iter().map(stream).collect()
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

/// What the end says of what it hears: of the other side's stream.
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

/// A call that ended, for people.
pub fn line(call: &Record) -> String {
    let end = match call.end {
        Some(End::Refused(status)) => format!("refused with {status}"),
        Some(end) => format!("ended: {}", end.label()),
        None => "goes on".to_owned(),
    };
    let media = match call.is_carried {
        true => "over the overlay",
        false => "direct",
    };
    let heard = call.report.as_ref().map(heard).unwrap_or_default();
    format!(
        "{} -> {}: {:.1} s, {media}, {end}{heard}",
        call.from,
        call.to,
        call.lasted.as_secs_f64()
    )
}

/// What came of the overlay's directions: the first stream's.
fn heard(report: &Report) -> String {
    let Some(stream) = report.streams.first() else {
        return String::new();
    };
    let sides = stream.sides.iter();
    let heard = sides.filter(|side| side.carrier == Carrier::Overlay);
    let heard = heard.map(|side| {
        let counts = &side.quality.counts;
        let mos = side.quality.mos();
        let mos = mos.map_or_else(String::new, |mos| format!(", MOS {mos:.2}"));
        format!(
            "; heard loss {:.2} % of {:.2} %{mos}",
            1e2 * counts.missed_fraction(),
            1e2 * counts.loss_before_recovery()
        )
    });
    heard.collect()
}

/// What was counted.
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
