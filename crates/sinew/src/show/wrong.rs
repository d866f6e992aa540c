//! The faults that the page about the node begins with.

use super::status::{certificate, delegation, old_root};
use super::{links, list, text, total};
use crate::names::Names;
use crate::quantity::counted;
use serde_json::Value;

/// The number of packets lost in the host's own buffers below which there is no warning.
const LOST_NOTICE: u64 = 100;

/// Lists what an operator should look at, the worst first.
pub(super) fn wrong(status: &Value) -> Vec<String> {
    let (snapshot, host) = (&status["snapshot"], &status["host"]);
    let mut wrong = Vec::new();
    let names = Names::of(status);
    wrong.extend(
        list(&snapshot["doubles"])
            .iter()
            .map(|double| doubled(double, &names)),
    );
    if snapshot["certificate_expires_soon"] == true || old_root(snapshot).is_some() {
        wrong.push(format!("certificate {}", certificate(snapshot)));
    }
    if status["issuer"]["delegation_ends_soon"] == true {
        wrong.push(format!("delegation {}", delegation(&status["issuer"])));
    }
    for link in list(&snapshot["links"]) {
        let [name, state] = ["name", "state"].map(|key| text(&link[key]));
        if let Some(reason) = links::reason(link) {
            wrong.push(format!("link to {name} is {state}: {reason}"));
        } else if link["reason"].is_string() {
            wrong.push(format!("link to {name} is {state}"));
        }
        if let overrun @ 1.. = total(&link["realtime"]["overrun_lately"]) {
            wrong.push(format!(
                "link to {name}: {overrun} packets of the last one to two minutes could not be kept for repair until their deadlines, \
                 because the history is full: shorten the deadlines, or send less over this link"
            ));
        }
    }
    wrong.extend(refused_flows(list(&snapshot["flows"])));
    wrong.extend(ignored(list(&status["groups"]["ignored"]), &names));
    for bridge in list(&status["bridges"]) {
        if bridge["is_here"] == false {
            let interface = text(&bridge["interface"]);
            wrong.push(format!("bridge {interface}: the interface is missing"));
        }
        if let refused @ 1.. = total(&bridge["refused"]) {
            let interface = text(&bridge["interface"]);
            wrong.push(format!(
                "bridge {interface}: this node refuses {refused} groups that its network wants"
            ));
        }
        if let groups @ 1.. = total(&bridge["refused_sends"]) {
            let interface = text(&bridge["interface"]);
            wrong.push(format!(
                "bridge {interface}: this node may not send to {groups} groups to which its network sends"
            ));
        }
        let over = &bridge["drops"]["host_too_many"];
        if over.as_u64().is_some_and(|count| count > 0) {
            let interface = text(&bridge["interface"]);
            wrong.push(format!(
                "bridge {interface}: a host joins more groups than one may, see the log"
            ));
        }
    }
    if let given_up @ 1.. = total(&snapshot["held"]["given_up_lately"]) {
        wrong.push(format!(
            "{given_up} gaps of the last one to two minutes were given up for want of room: flows with delivery in order wait for packets"
        ));
    }
    let lost = total(&host["udp"]["dropped_by_kernel"]);
    let received = total(&host["udp"]["received"]);
    // Choice: some losses while a node starts are normal; more than one in a thousand are audible.
    if lost > LOST_NOTICE && lost * 1_000 > received {
        wrong.push(format!(
            "{lost} packets were lost in this host: the node does not get the processor in time"
        ));
    }
    let no_buffer = total(&host["udp"]["dropped_no_buffer"]);
    if no_buffer > LOST_NOTICE {
        wrong.push(format!(
            "{no_buffer} packets were dropped because all packet buffers were in use ({} large, {} small now)",
            total(&host["buffers_large"]),
            total(&host["buffers_small"])
        ));
    }
    wrong
}

/// Describes settings of groups that nodes announce without the right to do so.
fn ignored(said: &[Value], names: &Names) -> Option<String> {
    let first = said.first()?;
    let (by, of) = (names.name(text(&first["said_by"])), text(&first["group"]));
    let more = match said.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    Some(format!(
        "what {by} says of {of}{more} is ignored: its certificate does not let it set these groups"
    ))
}

/// Describes the flows that a link refuses because it has no room: their number, and the reason for
/// the first.
fn refused_flows(flows: &[Value]) -> Option<String> {
    let mut refused = flows.iter().filter_map(|flow| flow["refused"].as_str());
    let why = refused.next()?;
    let count = counted(1 + refused.count() as u64, "flow");
    Some(format!("{count} refused: {why}"))
}

/// Describes a node whose key is in use on two hosts.
fn doubled(double: &Value, names: &Names) -> String {
    let what = if double["is_own"] == true {
        "another host runs with this node's key".to_owned()
    } else {
        let at: Vec<&str> = list(&double["at"]).iter().map(text).collect();
        let at = match at.as_slice() {
            [one, other] => format!(", at {one} and {other}"),
            // One address says nothing about the other host.
            _ => String::new(),
        };
        let name = names.name(text(&double["node"]));
        format!("{name} runs on two hosts with one key{at}")
    };
    format!(
        "{what}: stop one of the two, delete its copy of the node's directory, and give that host a key of its own by \
         `sinew join` or `sinew net add`"
    )
}
