//! Checks whether the gateways at the other sides of calls are still there.
//!
//! While there are calls with a gateway, it gets OPTIONS over the overlay. If it is silent for too long, it counts as
//! lost, and so do its calls: the ends at this site get a BYE, and the resources of the calls are released. This
//! detects a node that fails, and also a gateway that fails while its node works.

use super::call::End;
use super::hop::{Hop, overlay_host};
use super::proxy::{Proxy, locked};
use base::NodeAddr;
use core::time::Duration;
use rsipstack::sip::{Header, Method, Request, Uri, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// The time between two queries of a gateway.
const INTERVAL: Duration = Duration::from_millis(1500);
/// How long a gateway may be silent: four queries, each repeated by its transaction. An overlay finds another path
/// within a second, and a BYE must be sent within ten.
const SILENCE: Duration = Duration::from_secs(7);

type Heard = Arc<Mutex<BTreeMap<NodeAddr, Instant>>>;

/// Runs forever.
pub(super) async fn run(proxy: Arc<Proxy>) {
    let heard = Heard::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let was_away = now.duration_since(last) > 2 * INTERVAL;
        last = now;
        let calls = proxy.peers();
        let lost: Vec<NodeAddr> = {
            let mut heard = locked(&heard);
            // A host that slept has received no answers.
            heard.retain(|node, _| calls.contains_key(node) && !was_away);
            for node in calls.keys() {
                heard.entry(*node).or_insert(now);
            }
            let silent = heard
                .iter()
                .filter(|(_, at)| now.duration_since(**at) > SILENCE);
            silent.map(|(node, _)| *node).collect()
        };
        for node in lost {
            proxy.plane.node_lost(node);
            for number in calls.get(&node).into_iter().flatten() {
                proxy.hang_up(*number, End::NodeLost, None).await;
            }
        }
        for node in calls.keys() {
            ask(&proxy, *node, &heard).await;
        }
    }
}

async fn ask(proxy: &Proxy, node: NodeAddr, heard: &Heard) {
    let own = format!(
        "<sip:{}>;tag={}",
        overlay_host(proxy.own.node),
        rsipstack::transaction::make_tag().value()
    );
    let uri: Uri = overlay_host(node).into();
    let call_id = rsipstack::transaction::make_call_id(Some("sinew"), Default::default());
    let headers = vec![
        Header::From(own.into()),
        Header::To(format!("<{uri}>").into()),
        Header::CallId(call_id),
        Header::CSeq("1 OPTIONS".into()),
        Header::MaxForwards("1".into()),
    ];
    let question = Request {
        method: Method::Options,
        uri,
        version: Version::V2,
        headers: headers.into(),
        body: Vec::new(),
    };
    let Ok((_, mut answers)) = proxy.send(question, &Hop::overlay(node)).await else {
        return;
    };
    let heard = heard.clone();
    tokio::spawn(async move {
        while let Some(answer) = answers.recv().await {
            // 408 is the transaction's own response for a missing answer.
            if answer.status_code.code() != 408
                && let Some(at) = locked(&heard).get_mut(&node)
            {
                *at = Instant::now();
            }
        }
    });
}
