//! `[topology]`: nodes and links from a generator, in addition to those that the file lists.

use super::super::table::{Table, Value};
use super::super::{BothWays, LINKS_MAX, Link, NODES_MAX, Node};
use super::{Draft, Mistake, PATH, TIME};
use base::impair::{self, LossModel, Model};
use base::{Duration, NodeAddr, Rng};
use graph::generate::cities::{self, ROUTED_KM_PER_MS};
use graph::generate::transit_stub::TransitStub;
use graph::generate::waxman::{Growth, Waxman};
use graph::generate::{BadShape, Network, regular};

const KEYS: [&str; 19] = [
    "kind",
    "nodes",
    "delay",
    "seed",
    "path",
    "lossy",
    "loss_most",
    "side_km",
    "beta",
    "links_per_node",
    "growth",
    "transit_domains",
    "transit_nodes",
    "stubs_per_transit_node",
    "stub_nodes",
    "extra_transit_stub",
    "extra_stub_stub",
    "sites",
    "neighbours",
];

/// The keys of every kind.
const OF_ALL: [&str; 5] = ["kind", "seed", "path", "lossy", "loss_most"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Chain,
    Cities,
    Diamond,
    FullMesh,
    Ring,
    TransitStub,
    Waxman,
}

const KINDS: [(&str, Kind); 7] = [
    ("chain", Kind::Chain),
    ("cities", Kind::Cities),
    ("diamond", Kind::Diamond),
    ("full-mesh", Kind::FullMesh),
    ("ring", Kind::Ring),
    ("transit-stub", Kind::TransitStub),
    ("waxman", Kind::Waxman),
];

impl Kind {
    /// Returns its own keys, without those of every kind.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Chain | Kind::Diamond | Kind::FullMesh | Kind::Ring => &["nodes", "delay"],
            Kind::Cities => &["sites", "neighbours"],
            Kind::TransitStub => &[
                "transit_domains",
                "transit_nodes",
                "stubs_per_transit_node",
                "stub_nodes",
                "extra_transit_stub",
                "extra_stub_stub",
                "side_km",
            ],
            Kind::Waxman => &["nodes", "side_km", "beta", "links_per_node", "growth"],
        }
    }
}

impl Draft<'_> {
    /// Adds the generator's nodes and links, if the file requests a generator. `seed` is the scenario's.
    pub(super) fn read_topology(&mut self, top: &Table<'_>, seed: u64) -> Result<(), Mistake> {
        let Some(value) = top.optional("topology") else {
            return Ok(());
        };
        let table = value.table("topology", &KEYS)?;
        let kind = table
            .required("kind", "a generator, such as \"ring\" or \"waxman\"")?
            .word(&KINDS)?;
        let foreign = |key: &&str| !OF_ALL.contains(key) && !kind.keys().contains(key);
        let foreign: Vec<&str> = KEYS.iter().copied().filter(foreign).collect();
        if let Some(key) = table.present(&foreign).next() {
            let value = table.required(key, "")?;
            return Err(value.mistake("says nothing for this `kind`: leave it out"));
        }
        let seed = match table.optional("seed") {
            Some(value) => value.integer(0, i64::MAX)?.unsigned_abs(),
            None => seed,
        };
        let mut rng = Rng::new(seed);
        let network = generate(&table, kind, &mut rng)?;
        let network = network.map_err(|bad: BadShape| table.mistake(bad.to_string()))?;
        let (nodes, links) = (network.nodes.len(), network.links.len());
        if nodes > NODES_MAX || links > LINKS_MAX {
            return Err(table.mistake(format!(
                "{nodes} nodes with {links} links are above the limits of {NODES_MAX} and {LINKS_MAX}"
            )));
        }
        let paths = paths(&table, &network, &mut rng)?;
        for (n, node) in network.nodes.into_iter().enumerate() {
            self.places.insert(node.name.clone(), n);
            self.nodes.push(Node {
                name: node.name,
                address: NodeAddr::default(),
                clock_ahead: Duration::ZERO,
                clock_drift_ppm: 0,
            });
        }
        for (link, path) in network.links.iter().zip(paths) {
            let (a, b) = (link.a, link.b);
            self.links_between
                .insert((a.min(b), a.max(b)), self.links.len());
            let second = None;
            self.links.push(Link { a, b, path, second });
        }
        self.generated = self.links.len();
        Ok(())
    }
}

fn generate(
    table: &Table<'_>,
    kind: Kind,
    rng: &mut Rng,
) -> Result<Result<Network, BadShape>, Mistake> {
    let count = |key: &str, default: usize| match table.optional(key) {
        Some(value) => Ok(value.integer(0, NODES_MAX as i64)? as usize),
        None => Ok(default),
    };
    let nodes = || -> Result<usize, Mistake> {
        let value = table.required("nodes", "how many nodes")?;
        Ok(value.integer(2, NODES_MAX as i64)? as usize)
    };
    Ok(match kind {
        Kind::Chain => regular::chain(nodes()?, delay_us(table)?),
        Kind::Ring => regular::ring(nodes()?, delay_us(table)?),
        Kind::Diamond => regular::diamond(nodes()?, delay_us(table)?),
        Kind::FullMesh => regular::full_mesh(nodes()?, delay_us(table)?),
        Kind::Waxman => {
            let shape = Waxman::default();
            let growth = [
                ("incremental", Growth::Incremental),
                ("random", Growth::Random),
            ];
            Waxman {
                nodes: nodes()?,
                side_km: match table.optional("side_km") {
                    Some(value) => value.integer(1, SIDE_KM_MAX)? as u32,
                    None => shape.side_km,
                },
                beta: match table.optional("beta") {
                    Some(value) => value.number("a number above 0, such as 0.2")?,
                    None => shape.beta,
                },
                links_per_node: count("links_per_node", shape.links_per_node)?,
                growth: match table.optional("growth") {
                    Some(value) => value.word(&growth)?,
                    None => shape.growth,
                },
                ..shape
            }
            .generate(rng)
        }
        Kind::TransitStub => {
            let shape = TransitStub::default();
            TransitStub {
                transit_domains: count("transit_domains", shape.transit_domains)?,
                transit_nodes: count("transit_nodes", shape.transit_nodes)?,
                stubs_per_transit_node: count(
                    "stubs_per_transit_node",
                    shape.stubs_per_transit_node,
                )?,
                stub_nodes: count("stub_nodes", shape.stub_nodes)?,
                extra_transit_stub: count("extra_transit_stub", shape.extra_transit_stub)?,
                extra_stub_stub: count("extra_stub_stub", shape.extra_stub_stub)?,
                side_km: match table.optional("side_km") {
                    Some(value) => value.integer(1, SIDE_KM_MAX)? as f64,
                    None => shape.side_km,
                },
                ..shape
            }
            .generate(rng)
        }
        Kind::Cities => {
            const SITES: &str = "a list of sites such as [\"frankfurt\", \"new-york\"]";
            let list = table.required("sites", SITES)?.list(SITES)?;
            let mut sites: Vec<cities::Site> = Vec::new();
            for value in &list {
                let site = cities::find(value.text(SITES)?);
                let site = site.map_err(|unknown| value.mistake(unknown.to_string()))?;
                if sites.iter().any(|other| other.name == site.name) {
                    return Err(value.mistake(format!("`{}` is listed twice", site.name)));
                }
                sites.push(site);
            }
            let neighbours = count("neighbours", sites.len())?;
            cities::nearest(&sites, neighbours.max(1), ROUTED_KM_PER_MS)
        }
    })
}

/// Longest side of the plane: half way round the Earth.
const SIDE_KM_MAX: i64 = 20_000;

fn delay_us(table: &Table<'_>) -> Result<u32, Mistake> {
    let value = table.required("delay", TIME)?;
    let us = value.read(TIME, impair::span)?.as_micros();
    let most = impair::DELAY_MAX;
    u32::try_from(us)
        .ok()
        .filter(|us| Duration::from_micros(u64::from(*us)) <= most)
        .ok_or_else(|| value.mistake(format!("a delay is at most {most}")))
}

/// Returns the path of each link: its delay, and the other properties of all or some links.
fn paths(table: &Table<'_>, network: &Network, rng: &mut Rng) -> Result<Vec<BothWays>, Mistake> {
    let besides: Model = match table.optional("path") {
        Some(value) => {
            let model: Model = value.parse(PATH)?;
            if model.delay() > Duration::ZERO {
                return Err(value.mistake("the generator gives the delay: leave it out here"));
            }
            model
        }
        None => Model::default(),
    };
    let share = |value: Value<'_>| -> Result<f64, Mistake> {
        let text = value.text("a share such as \"5%\"")?;
        tools::share::parse(text).map_err(|bad| value.mistake(bad.to_string()))
    };
    let losses = match (table.optional("lossy"), table.optional("loss_most")) {
        (None, None) => Vec::new(),
        (Some(_), None) => return Err(table.mistake("`lossy` needs `loss_most`".to_owned())),
        // [Amir06 §IV-B] Half of the links lose packets.
        (lossy, Some(most)) => {
            let lossy = lossy.map(share).transpose()?.unwrap_or(0.5);
            network.random_losses(lossy, share(most)?, rng)
        }
    };
    if !losses.is_empty() && *besides.loss() != LossModel::None {
        return Err(table.mistake("`path` and `loss_most` both say what is lost: keep one".into()));
    }
    let path = |(n, link): (usize, &graph::generate::Link)| {
        let delay = Duration::from_micros(u64::from(link.delay_us));
        let mut model = besides.clone().with_delay(delay)?;
        if let Some(p) = losses.get(n).copied().filter(|p| *p > 0.0) {
            model = model.with_loss(LossModel::Bernoulli { p })?;
        }
        Ok(BothWays {
            there: model.clone(),
            back: model,
        })
    };
    let paths: Result<Vec<BothWays>, impair::BadModel> =
        network.links.iter().enumerate().map(path).collect();
    paths.map_err(|bad| table.mistake(bad.to_string()))
}
