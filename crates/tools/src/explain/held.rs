//! The timers that hold a choice. Routing uses only announced values, not measured ones, and
//! announcements are damped (`overlay::announce`).

use super::{View, percent, rounded, text};
use base::NodeAddr;
use graph::explain::{Answer, Route};
use graph::metric::SILENT;
use overlay::snapshot::{DampingRule, Hold, PendingChange};
use serde::Serialize;

/// The timers that hold the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldBy {
    /// The profile that sets the timers.
    pub profile: String,
    /// When a node of this profile announces a change of a link.
    pub rule: DampingRule,
    /// What holds back announcements now, for those links of the chosen paths and of the first
    /// runner-up that begin at the asked node. Empty for a scenario.
    pub links: Vec<Held>,
    /// The prices that links of the shown paths have because of recent outages.
    pub prices: Vec<Price>,
    /// The timer that ends first, in words.
    pub timer: String,
}

/// The price that a path pays for a link because of the link's recent outages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The node where the link begins.
    pub from: String,
    /// The node where the link ends.
    pub to: String,
    /// The other end is not heard: routing uses the link only if no other path exists.
    pub is_silent: bool,
    /// The price in milliseconds of latency; `None` while the link is silent.
    pub price_ms: Option<f64>,
    /// The link runs over TCP, which is part of the price.
    pub over_tcp: bool,
    /// Time until the price ends if the link does not fail again. Only the node where the link
    /// begins knows it.
    pub ends_in_s: Option<f64>,
}

/// A link whose announcements the asked node holds back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The node where the link begins: the asked node.
    pub from: String,
    /// The node where the link ends.
    pub to: String,
    /// The announced latency.
    pub announced_latency_ms: f64,
    /// The announced loss.
    pub announced_loss_pct: f64,
    /// The measured latency.
    pub measured_latency_ms: f64,
    /// The measured loss.
    pub measured_loss_pct: f64,
    /// Time until the earliest announcement of a change.
    pub may_announce_in_s: f64,
    /// How long a clear improvement of the latency must last at present before it is announced.
    pub better_latency_after_s: f64,
    /// How long a clear improvement of the loss must last at present before it is announced.
    pub better_loss_after_s: f64,
    /// Measured changes that wait to be announced.
    pub pending: Vec<PendingChange>,
}

impl HeldBy {
    pub(super) fn of(view: &View, answer: &Answer) -> HeldBy {
        let snapshot = view.snapshot();
        let shown = answer.chosen.iter().chain(&answer.runners_up);
        let prices = prices(view, shown);
        let routes = answer.chosen.iter().chain(answer.runners_up.first());
        let on_routes = |hold: &&Hold| {
            let ends: Option<(NodeAddr, NodeAddr)> =
                hold.from.parse().ok().zip(hold.to.parse().ok());
            let has = |route: &Route| {
                route
                    .legs
                    .iter()
                    .any(|leg| Some((leg.from, leg.to)) == ends)
            };
            routes.clone().any(has)
        };
        let links: Vec<Held> = snapshot
            .holds
            .iter()
            .filter(on_routes)
            .map(|hold| Held::of(view, hold))
            .collect();
        HeldBy {
            profile: snapshot.profile.clone(),
            rule: snapshot.rule,
            timer: text::timer(snapshot, &links),
            prices,
            links,
        }
    }
}

/// Returns those links of some routes that have a price, each link once.
fn prices<'a>(view: &View, routes: impl Iterator<Item = &'a Route>) -> Vec<Price> {
    let snapshot = view.snapshot();
    let mut legs: Vec<_> = routes
        .flat_map(|route| route.legs.iter().map(|leg| (leg.from, leg.to)))
        .collect();
    legs.sort_unstable();
    legs.dedup();
    let price = |(from, to): (NodeAddr, NodeAddr)| {
        let ends = (from.to_string(), to.to_string());
        let mut known = snapshot.links.iter();
        let link = known.find(|link| (&link.from, &link.to) == (&ends.0, &ends.1))?;
        let mut holds = snapshot.holds.iter();
        let hold = holds.find(|hold| (&hold.from, &hold.to) == (&ends.0, &ends.1));
        let is_silent = link.price_us == SILENT;
        (link.price_us > 0).then(|| Price {
            from: view.name(from),
            to: view.name(to),
            is_silent,
            over_tcp: link.over_tcp,
            price_ms: (!is_silent).then(|| rounded(f64::from(link.price_us) / 1e3)),
            ends_in_s: hold.and_then(|hold| hold.price_ends_in_s),
        })
    };
    legs.into_iter().filter_map(price).collect()
}

impl Held {
    fn of(view: &View, hold: &Hold) -> Held {
        let name = |address: &String| match address.parse() {
            Ok(node) => view.name(node),
            Err(_) => address.clone(),
        };
        let millis = |us: u32| rounded(f64::from(us) / 1e3);
        let lost = |loss: u16| percent(f64::from(loss) / 65_536.0);
        Held {
            from: name(&hold.from),
            to: name(&hold.to),
            announced_latency_ms: millis(hold.announced_latency_us),
            announced_loss_pct: lost(hold.announced_loss),
            measured_latency_ms: millis(hold.measured_latency_us),
            measured_loss_pct: lost(hold.measured_loss),
            may_announce_in_s: hold.spacing_left_s,
            better_latency_after_s: hold.better_latency_s,
            better_loss_after_s: hold.better_loss_s,
            pending: hold.pending.clone(),
        }
    }
}
