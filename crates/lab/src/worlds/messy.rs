//! Messy worlds: all kinds of faults of the Internet at once. Each flow has a twin by plain UDP over the direct path,
//! if there is one; the twin of a reliable stream uses TCP.
//!
//! ```text
//!   seed ─▶ scene: 2 to 7 nodes, calls, troubles ─▶ scenario file ─▶ Simulation ─▶ flows and twins
//!                                                                                      │
//!          missed  <= the twin's + 0.5 points + 1 % of it + three standard errors      ◀─┤
//!          silence <= the twin's + 1 s                                               ◀─┘
//! ```
//!
//! A scene is a scenario, so that one in which something is worse can be run, traced, reduced and changed by hand. A
//! twin's path has the words of the link between its ends; outages, changes of the path and stalls of its ends happen
//! to both at the same moments. Independent losses are drawn separately for each; runs of losses are short outages, and
//! are the same for both.
//!
//! Delays count from when a packet was due. What an application sends while its host is stalled is received late, even
//! if every packet that the host then catches up with arrives at once, so both carriers miss what a stalled source
//! sends late.

mod scene;
mod story;
mod tcp;
mod twins;

use super::Worse;
use super::history::{Past, Told, Witness};
use crate::scenario::{Scenario, Simulation};
use base::{Duration, Rng};
use scene::Scene;
use story::Story;

/// Returns the world of a seed as a scenario file.
pub(super) fn scene_of(seed: u64) -> String {
    Scene::draw(&mut Rng::new(seed)).text(seed)
}

/// Runs the world of a seed. Draw 0 is the seed's own; any other one has the same faults on the same paths with other
/// losses and delays of single packets.
pub(super) fn live(
    seed: u64,
    draw: u64,
    told: Option<Told>,
    witness: Option<Witness>,
) -> Result<Past, Worse> {
    let scene = Scene::draw(&mut Rng::new(seed));
    let text = scene.text(seed);
    if let Some(told) = &told {
        told.borrow_mut().push(text.clone());
    }
    let worse = |why: String| Worse {
        why,
        scene: Some(text.clone()),
        again: None,
        kinds: Vec::new(),
    };
    let scenario =
        Scenario::parse("world", &text).map_err(|error| worse(format!("no scenario: {error}")))?;
    let mut simulation = Simulation::new(&scenario, seed ^ draw.rotate_right(8));
    if let Some(witness) = witness {
        simulation.trace(witness);
    }
    let story = told.is_some().then(|| {
        let story = Story::default();
        simulation.watch(story.watcher(&scenario));
        story
    });
    while simulation.run_for(Duration::from_secs(3_600)) {}
    let (report, mut calls) = simulation.finish_with_calls();
    for (flow, calls) in scenario.flows.iter().zip(&mut calls) {
        twins::count_from_due(&scenario, flow, calls);
    }
    if let (Some(told), Some(story)) = (told, story) {
        scene.tell(&story);
        story.tell_missed(&scenario, &calls);
        told.borrow_mut().push(story.text());
    }
    let compared = twins::compare(&scene, &scenario, &report, &calls).map_err(worse)?;
    let count = |of: fn(&crate::scenario::FlowReport) -> u64| report.flows.iter().map(of).sum();
    Ok(Past {
        nodes: report.nodes,
        sent: count(|flow| flow.packets.sent),
        received: count(|flow| flow.packets.received),
        events: report.events,
        compared,
        simulated: scenario.settle + scenario.duration,
        digest: u64::from_str_radix(&report.trace_hash, 16).unwrap_or_default(),
        ..Past::default()
    })
}
