//! The words of the command line for how packets are carried, the same in every command.
//!
//! - A *service* says what packets need: how losses are repaired, and how urgent they are.
//! - A *metric* says which path is the shortest: packets go hop by hop.
//! - *Paths* say which paths the source chooses, and how many: packets are source-routed.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use client::{Aim, Delivery, LinkProtocol, Options, RouteBy};
use serde_json::Value;
use std::time::Duration;
use tools::explain::Class;

/// What packets need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Losses are repaired on every hop before the deadline; packets are delivered as they arrive
    Voice,
    /// The same, and packets are delivered in order
    #[value(alias = "real-time")]
    Video,
    /// Every packet is delivered, however late
    #[value(alias = "reliable")]
    Bulk,
    /// Losses are not repaired
    BestEffort,
}

impl Service {
    /// Returns the options of a socket, with a deadline if the service has one.
    pub fn options(self, deadline: Duration) -> Options {
        match self {
            Service::Voice => Options::voice(deadline),
            Service::Video => Options {
                delivery: Delivery::InOrder,
                ..Options::voice(deadline)
            },
            Service::Bulk => Options::stream(),
            Service::BestEffort => Options::best_effort(),
        }
    }

    /// Returns the word of the command line.
    pub fn label(self) -> &'static str {
        match self {
            Service::Voice => "voice",
            Service::Video => "video",
            Service::Bulk => "bulk",
            Service::BestEffort => "best-effort",
        }
    }

    /// Returns the protocol that repairs losses on each hop, or repairs none.
    pub fn link(self) -> LinkProtocol {
        self.options(Duration::ZERO).link
    }
}

/// The loss target and the repair limit, for commands that send with a deadline.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Protection {
    /// Share of the packets that may stay lost on a link, such as 0.01%; default: as each node is set
    #[arg(long, value_name = "SHARE", value_parser = target)]
    target: Option<f64>,
    /// Repair packets at most, as a share of the packets: 50%, or 0 for none; default: as each node is set
    #[arg(long, value_name = "SHARE", value_parser = repair)]
    repair: Option<f64>,
}

impl Protection {
    /// Returns the setting for sockets.
    pub fn aim(&self) -> Aim {
        Aim::new(self.target, self.repair).unwrap_or_default()
    }

    /// Returns the given values as keys and values of a question to a node.
    pub fn said(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let both = [("target", self.target), ("repair", self.repair)];
        both.into_iter()
            .filter_map(|(key, share)| Some((key, share?)))
    }
}

/// Describes the target and the limit of repair in the JSON of a flow or a group's setting: a part of a line that
/// begins with a comma, or nothing.
pub fn aimed(of: &Value) -> String {
    let part = |key: &str, before: &str, after: &str| {
        let pct = of[key].as_f64();
        pct.map_or_else(String::new, |pct| format!(", {before}{pct} %{after}"))
    };
    part("target_pct", "at most ", " lost") + &part("most_pct", "at most +", " repair")
}

/// Reads the same JSON as the setting for sockets.
pub fn aim_of(of: &Value) -> Aim {
    let share = |key: &str| of[key].as_f64().map(|pct| pct / 1e2);
    Aim::new(share("target_pct"), share("most_pct")).unwrap_or_default()
}

pub(crate) fn target(text: &str) -> Result<f64, String> {
    let share = tools::share::parse(text).map_err(|error| error.to_string())?;
    let told = Aim::new(Some(share), None).map(|_| share);
    told.map_err(|error| error.to_string())
}

pub(crate) fn repair(text: &str) -> Result<f64, String> {
    tools::share::up_to(Aim::MOST, text).map_err(|error| error.to_string())
}

/// Which path, for commands that send.
#[derive(Clone, Debug, Default, Args)]
pub struct Paths {
    /// The metric for paths; default: that of the service
    #[arg(long, value_parser = words(is_metric), conflicts_with_all = ["paths", "routing"])]
    metric: Option<RouteBy>,
    /// Source routing: the best path, several paths without a common node, or every link
    #[arg(long, value_parser = words(is_paths), conflicts_with = "routing")]
    paths: Option<RouteBy>,
    /// The old option for both metric and paths
    #[arg(long, value_parser = words(|_| true), hide = true)]
    routing: Option<RouteBy>,
}

impl Paths {
    /// Returns the user's choice.
    pub fn chosen(&self) -> Option<RouteBy> {
        self.metric.or(self.paths).or(self.routing)
    }
}

fn is_metric(by: &RouteBy) -> bool {
    matches!(by, RouteBy::Table(_))
}

fn is_paths(by: &RouteBy) -> bool {
    matches!(by, RouteBy::Stamp(_))
}

fn words(wanted: fn(&RouteBy) -> bool) -> impl TypedValueParser<Value = RouteBy> {
    let words = RouteBy::ALL.into_iter().filter(wanted).map(RouteBy::label);
    let words = PossibleValuesParser::new(words);
    words.map(|word| RouteBy::from_label(&word).expect("the parser lets these words pass only"))
}

/// Which path, for commands that ask why.
#[derive(Clone, Debug, Default, Args)]
pub struct Question {
    /// The metric for paths: expected-latency, latency, loss, hops, width [default: expected-latency]
    #[arg(long, value_parser = metric, conflicts_with_all = ["paths", "class"])]
    metric: Option<Class>,
    /// Source routing: best, disjoint, disjoint-3 and more, or targeted
    #[arg(long, value_parser = paths, conflicts_with = "class")]
    paths: Option<Class>,
    /// The old option for both metric and paths
    #[arg(long, hide = true)]
    class: Option<Class>,
}

impl Question {
    /// Returns the user's choice.
    pub fn chosen(&self) -> Option<Class> {
        self.metric.or(self.paths).or(self.class)
    }
}

fn metric(word: &str) -> Result<Class, String> {
    let class = word.parse().ok();
    class
        .filter(|class| matches!(class, Class::Metric(_) | Class::Width))
        .ok_or_else(|| "use expected-latency, latency, loss, hops or width".to_owned())
}

fn paths(word: &str) -> Result<Class, String> {
    let class = word.parse().ok();
    class
        .filter(|class| matches!(class, Class::Best | Class::Disjoint(_) | Class::Targeted))
        .ok_or_else(|| "use best, disjoint, disjoint-3 and more, or targeted".to_owned())
}

/// Describes the service of a group's setting like [`described`]. The setting names the link protocol alone, so the
/// packets need not be voice.
pub fn described_group(told: &Value) -> String {
    let words = described(told);
    match words.strip_prefix(Service::Voice.label()) {
        Some(rest) => Service::Voice.link().label().to_owned() + rest,
        None => words,
    }
}

/// Describes the service of a flow, a stream or a group in a node's JSON, and how it differs from the service's
/// default: "voice", "bulk, latency, priority 6".
pub fn described(told: &Value) -> String {
    let [link, routing] = ["link", "routing"].map(|key| told[key].as_str().unwrap_or("-"));
    let Some(priority) = told["priority"].as_u64() else {
        return "-".to_owned();
    };
    let services = [Service::Voice, Service::Bulk, Service::BestEffort];
    let Some(service) = services.into_iter().find(|s| s.link().label() == link) else {
        return format!("{link}, {routing}, priority {priority}");
    };
    let usual = service.options(Duration::ZERO);
    let mut words = service.label().to_owned();
    if usual.routing.label() != routing {
        words += ", ";
        words += if routing == "stamped" {
            "source-routed"
        } else {
            routing
        };
    }
    if u64::from(usual.priority) != priority {
        words += &format!(", priority {priority}");
    }
    words
}

#[cfg(test)]
mod tests {
    use crate::Cli;
    use clap::Parser;

    fn parses(words: &str) -> bool {
        Cli::try_parse_from(words.split(' ')).is_ok()
    }

    #[test]
    fn the_words_are_the_same_in_every_command() {
        for service in ["voice", "video", "bulk", "best-effort"] {
            for command in [
                "ping fra",
                "trace fra",
                "group set 239.1.1.1",
                "gateway multicast",
            ] {
                let words = format!("sinew {command} --service {service}");
                assert!(parses(&words), "{words}");
            }
        }
        for metric in ["expected-latency", "latency", "loss", "hops"] {
            for command in [
                "ping fra",
                "test-call fra",
                "why a b",
                "whatif x",
                "group set 239.1.1.1",
            ] {
                let words = format!("sinew {command} --metric {metric}");
                assert!(parses(&words), "{words}");
            }
        }
        for paths in ["best", "disjoint", "disjoint-3"] {
            for command in [
                "ping fra",
                "trace fra",
                "test-call fra",
                "why a b",
                "gateway sip",
            ] {
                let words = format!("sinew {command} --paths {paths}");
                assert!(parses(&words), "{words}");
            }
        }
        assert!(!parses("sinew ping fra --metric disjoint"));
        assert!(!parses("sinew ping fra --metric loss --paths best"));
    }

    #[test]
    fn the_words_of_the_release_before_are_still_taken() {
        for words in [
            "sinew ping fra --class voice --routing disjoint",
            "sinew call fra --routing disjoint --seconds 10",
            "sinew why a b --class best",
            "sinew link set a b loss=5%",
            "sinew link clear a b --both",
            "sinew group set 239.1.1.1 --link real-time --routing latency",
            "sinew gateway multicast --class best-effort --deadline 150 --source-rate 100",
            "sinew gateway sip --deadline 150",
            "sinew cp a fra:b --scavenge",
        ] {
            assert!(parses(words), "{words}");
        }
    }
}
