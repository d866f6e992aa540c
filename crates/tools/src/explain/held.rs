//! The timers that hold a choice: nothing is routed by what is measured, only by what is announced,
//! and announcements are damped (`overlay::announce`).

use super::{View, percent, rounded, text};
use base::NodeAddr;
use graph::explain::{Answer, Route};
use graph::metric::SILENT;
use overlay::snapshot::{DampingRule, Hold, PendingChange};
use serde::Serialize;

/// What holds the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldBy {
    /// Whose timers: the profile.
    pub profile: String,
    /// When a node of this profile announces a change of a link.
    pub rule: DampingRule,
    /// Links of the chosen paths and of the first runner-up that begin at the node that was asked:
    /// what holds their announcements back now. Empty for a scenario.
    pub links: Vec<Held>,
    /// What outages of late cost links of the paths that are shown.
    pub prices: Vec<Price>,
    /// The timer that ends first, in words.
    pub timer: String,
}

/// What its outages of late cost a path that takes a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Where the link begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// The other end is not heard: the link is tried where there is no other way.
    pub is_silent: bool,
    /// The price in milliseconds of latency; none while the link is silent.
    pub price_ms: Option<f64>,
    /// The link runs over TCP, which is a part of the price.
    pub over_tcp: bool,
    /// It is gone after so long, if the link does not fail again. Known where the link begins.
    pub ends_in_s: Option<f64>,
}

/// A link whose announcements the asked node holds back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Where it begins: the node that was asked.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What is announced.
    pub announced_latency_ms: f64,
    /// What is announced.
    pub announced_loss_pct: f64,
    /// What is measured.
    pub measured_latency_ms: f64,
    /// What is measured.
    pub measured_loss_pct: f64,
    /// No change is announced earlier.
    pub may_announce_in_s: f64,
    /// A clear improvement of the latency must last so long at present.
    pub better_latency_after_s: f64,
    /// A clear improvement of the loss must last so long at present.
    pub better_loss_after_s: f64,
    /// Changes that are measured and wait.
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

/// The links of some routes that have a price, each once.
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
