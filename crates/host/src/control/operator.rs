//! The operator's requests, and the answers to them.

use super::error_line;
use super::rights::Rights;
use crate::command::{Commander, Unavailable};
use crate::files::write_whole;
use base::{Duration, NodeAddr};
use overlay::groups::Permit;
use overlay::request::{Operation, RequestError};
use secure::{Certificate, Identity, Keys, Network, Revocations};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use wire::Aim;
use wire::certificate::Pattern;
use wire::data::{LinkProtocol, Routing};
use wire::groups::{Setting, TreeBuilder, Ways};
use wire::ipc::{Delivery, RouteBy};

/// A request, one line of JSON.
#[derive(Debug, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
enum Ask {
    Snapshot {},
    Network {},
    Groups {
        #[serde(default)]
        group: Option<String>,
    },
    GroupSet(GroupSet),
    GroupClear {
        group: String,
    },
    LinkSet {
        neighbor: String,
        model: String,
    },
    LinkClear {
        neighbor: String,
    },
    Renew {
        certificate: String,
    },
    Revoke {
        list: String,
    },
    Succeed {
        network: String,
    },
    Cancel {
        transfer: String,
    },
    Reload {},
    Stop {},
    Observe {},
}

impl Ask {
    /// Returns true if the request changes nothing.
    fn only_looks(&self) -> bool {
        matches!(
            self,
            Ask::Snapshot {} | Ask::Network {} | Ask::Groups { .. } | Ask::Observe {}
        )
    }
}

const COMMANDS: &str = "snapshot, network, groups, group_set, group_clear, link_set, link_clear, \
                        renew, revoke, succeed, cancel, reload, stop, observe";

/// A request that says how a group is to be carried.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSet {
    /// Its address.
    pub group: String,
    /// The rate of all its sources together, in kbit/s; 0 if it is not known.
    #[serde(default)]
    pub rate_kbps: u32,
    /// The deadline of its packets in milliseconds; 0 if they have none.
    #[serde(default)]
    pub deadline_ms: u16,
    /// The link protocol of its packets: `best-effort`, `real-time` or `reliable`.
    #[serde(default)]
    pub link: Option<String>,
    /// The metric that makes its tree short.
    #[serde(default)]
    pub routing: Option<String>,
    /// Its priority, 0 to 7.
    #[serde(default)]
    pub priority: Option<u8>,
    /// The builder of its tree: `link-state` or `scribe`.
    #[serde(default)]
    pub tree: Option<String>,
    /// Number of disjoint paths that its packets take to each member.
    #[serde(default)]
    pub ways: Option<AskedWays>,
    /// How its packets are delivered to the members: `as-it-comes`, `in-order` or `as-sent`.
    #[serde(default)]
    pub delivery: Option<String>,
    /// For `as-sent`: how long after their sending packets are delivered; none or 0 for the time that repairs need.
    #[serde(default)]
    pub release_ms: u16,
    /// The share of its packets that may stay lost on a link; none for the value in each node's settings.
    #[serde(default)]
    pub target: Option<f64>,
    /// The largest number of repair packets per packet; none for the value in each node's settings.
    #[serde(default)]
    pub repair: Option<f64>,
    /// The nodes that may send, in words that name nodes; none to leave this unchanged, `*` for all nodes.
    #[serde(default)]
    pub send: Option<Vec<String>>,
    /// The nodes that may receive, in the same form.
    #[serde(default)]
    pub receive: Option<Vec<String>>,
    /// Set the group even if it does not fit.
    #[serde(default)]
    pub force: bool,
}

/// Number of paths of a packet, as the user wrote it: 1, or 2 that are as disjoint as the network permits, or one of
/// the words `targeted` and `auto`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "write 1, 2, targeted or auto")]
pub enum AskedWays {
    /// This number of paths.
    Number(u8),
    /// One of the words.
    Word(String),
}

impl AskedWays {
    fn ways(&self) -> Result<Ways, String> {
        let word = match self {
            AskedWays::Number(number) => number.to_string(),
            AskedWays::Word(word) => word.clone(),
        };
        Ways::of_label(&word).ok_or_else(|| format!("ways `{word}`: write 1, 2, targeted or auto"))
    }
}

impl GroupSet {
    /// Converts the request to a setting as records contain it.
    pub fn setting(&self) -> Result<Setting, String> {
        let mut class = overlay::sockets::default_options().class;
        if let Some(word) = &self.link {
            let known = LinkProtocol::ALL
                .into_iter()
                .find(|link| link.label() == *word);
            class.link = known.ok_or_else(|| {
                format!("link `{word}`: write best-effort, real-time or reliable")
            })?;
        }
        if let Some(word) = &self.routing {
            class.routing = match RouteBy::from_label(word) {
                Some(RouteBy::Table(routing)) if routing != Routing::Width => routing,
                _ => {
                    return Err(format!(
                        "routing `{word}`: write hops, latency, loss or expected-latency"
                    ));
                }
            };
        }
        if let Some(priority) = self.priority {
            if priority > 7 {
                return Err("priority: write 0 to 7".to_owned());
            }
            class.priority = priority;
        }
        let builders = [TreeBuilder::LinkState, TreeBuilder::Scribe];
        let tree = match &self.tree {
            None => TreeBuilder::LinkState,
            Some(word) => *builders
                .iter()
                .find(|builder| builder.label() == word)
                .ok_or_else(|| format!("tree `{word}`: write link-state or scribe"))?,
        };
        let ways = self.ways.as_ref().map_or(Ok(Ways::Auto), AskedWays::ways)?;
        let has_second = matches!(ways, Ways::Two | Ways::Targeted);
        if has_second && tree == TreeBuilder::Scribe {
            let why = "second ways need `tree` link-state: Scribe builds one tree";
            return Err(why.to_owned());
        }
        if has_second && class.link == LinkProtocol::Reliable {
            let why = "second ways are for what has a deadline: what must arrive would wait for the slower of them";
            return Err(why.to_owned());
        }
        let aim = Aim::new(self.target, self.repair).map_err(|error| error.to_string())?;
        let (group, prefix) = range(&self.group)?;
        Ok(Setting {
            group,
            prefix,
            version: 0,
            tree,
            class,
            deadline_ms: self.deadline_ms,
            rate_kbps: self.rate_kbps,
            ways,
            delivery: self.delivery()?,
            aim,
        })
    }

    /// Returns the operations for the node. The permit comes first, so that in between no packet passes to a node that
    /// must not get it.
    pub fn operations(&self) -> Result<Vec<Operation>, String> {
        let (setting, permit) = (self.setting()?, self.permit()?);
        // A configuration, which is not checked against the network, permits all nodes for each group for which it
        // names none.
        let says_who = permit
            .as_ref()
            .is_some_and(|permit| !(permit.is_open() && self.force));
        let mut operations: Vec<Operation> = permit.map(Operation::Permit).into_iter().collect();
        // A request that only sets permissions leaves it to the sources how the group is carried.
        if !says_who || self.says_how() {
            operations.push(set(setting));
        }
        Ok(operations)
    }

    fn says_how(&self) -> bool {
        let words = [&self.link, &self.routing, &self.tree, &self.delivery];
        let numbers = [
            self.rate_kbps,
            self.deadline_ms.into(),
            self.release_ms.into(),
        ];
        words.iter().any(|word| word.is_some())
            || numbers.iter().any(|number| *number > 0)
            || self.priority.is_some()
            || self.ways.is_some()
            || self.target.is_some()
            || self.repair.is_some()
    }

    /// Returns the operations that undo all of it.
    pub fn taken_back(&self) -> Result<[Operation; 2], String> {
        clear(&self.group)
    }

    /// Returns who may send and receive, if the request says it.
    fn permit(&self) -> Result<Option<Permit>, String> {
        if self.send.is_none() && self.receive.is_none() {
            return Ok(None);
        }
        let (group, prefix) = range(&self.group)?;
        Ok(Some(Permit {
            group,
            prefix,
            send: limited(&self.send)?,
            receive: limited(&self.receive)?,
        }))
    }

    fn delivery(&self) -> Result<Option<Delivery>, String> {
        let ms = self.release_ms;
        let after = (ms > 0).then(|| Duration::from_millis(ms.into()));
        let delivery = match self.delivery.as_deref() {
            None if ms > 0 => Delivery::AsSent(after),
            None => return Ok(None),
            Some("as-it-comes") => Delivery::AsItComes,
            Some("in-order") => Delivery::InOrder,
            Some("as-sent") => Delivery::AsSent(after),
            Some(word) => {
                return Err(format!(
                    "delivery `{word}`: write as-it-comes, in-order or as-sent"
                ));
            }
        };
        if ms > 0 && !matches!(delivery, Delivery::AsSent(_)) {
            return Err("a release time is of delivery as-sent".to_owned());
        }
        // A packet's age is known only if it has a deadline.
        if ms > 0 && self.deadline_ms < ms {
            return Err(
                "a release time needs a deadline of the group that is not shorter".to_owned(),
            );
        }
        Ok(Some(delivery))
    }
}

/// Returns the words of a permit; none if the words name all nodes.
fn limited(words: &Option<Vec<String>>) -> Result<Option<Vec<String>>, String> {
    let Some(words) = words
        .as_ref()
        .filter(|words| !words.iter().any(|word| word == "*"))
    else {
        return Ok(None);
    };
    for word in words {
        Pattern::parse(word).map_err(|why| format!("`{word}`: {why}"))?;
    }
    match u8::try_from(words.len()) {
        Ok(_) => Ok(Some(words.clone())),
        Err(_) => Err(
            "a permit has 255 words at most: name nodes by tag:TAG, *-END or @DOMAIN".to_owned(),
        ),
    }
}

/// Returns the operations that undo the settings of a group or range.
fn clear(word: &str) -> Result<[Operation; 2], String> {
    let (group, prefix) = range(word)?;
    let permit = Operation::Permit(Permit {
        group,
        prefix,
        send: None,
        receive: None,
    });
    let setting = Operation::SetGroup {
        group,
        prefix,
        setting: None,
    };
    Ok([permit, setting])
}

/// Wraps a setting as an operation.
fn set(setting: Setting) -> Operation {
    Operation::SetGroup {
        group: setting.group,
        prefix: setting.prefix,
        setting: Some(setting),
    }
}

/// Parses a group, or a range of groups such as 239.192.0.0/14.
fn range(word: &str) -> Result<(NodeAddr, u8), String> {
    let (base, prefix) = match word.split_once('/') {
        None => (word, 32),
        Some((base, bits)) => {
            let bits = bits.parse().ok().filter(|bits| (4..=32).contains(bits));
            let wrong = || format!("`{word}`: write 4 to 32 behind the slash");
            (base, bits.ok_or_else(wrong)?)
        }
    };
    let base = group(base)?;
    if base.0 & !wire::groups::mask(prefix) != 0 {
        return Err(format!(
            "`{word}`: the bits behind the first {prefix} have to be 0"
        ));
    }
    Ok((base, prefix))
}

fn group(word: &str) -> Result<NodeAddr, String> {
    let address = word.parse().ok();
    let group = address.filter(|address| wire::groups::is_group(*address));
    group.ok_or_else(|| format!("`{word}` is no group: write an address like 239.1.1.1"))
}

/// The files of the node that an operator may replace.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The file of its certificate.
    pub certificate: Option<PathBuf>,
    /// The file of the list of revocations.
    pub revocations: Option<PathBuf>,
    /// The network file.
    pub network: Option<PathBuf>,
}

/// The answer to `reload`.
#[derive(Serialize)]
struct Done {
    done: &'static str,
    #[serde(flatten)]
    reloaded: Reloaded,
}

/// The result of reading the node's files again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// The keys that are in effect from now on.
    pub taken: Vec<String>,
    /// The keys that take effect at the next start.
    pub later: Vec<String>,
    /// The keys that were refused, and why.
    pub refused: Vec<String>,
}

/// A function that reads the node's files again. An error says what is wrong with them; nothing has changed then.
#[derive(Clone)]
pub struct Reload(pub Arc<dyn Fn() -> Result<Reloaded, String> + Send + Sync>);

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}

/// Answers requests by querying the loop.
#[derive(Debug)]
pub struct Operator {
    commander: Commander,
    keys: Keys,
    address: NodeAddr,
    files: Files,
    reload: Option<Reload>,
}

impl Operator {
    /// Creates the operator of the node with these keys and this address.
    pub fn new(commander: Commander, keys: Keys, address: NodeAddr, files: Files) -> Operator {
        Operator {
            commander,
            keys,
            address,
            files,
            reload: None,
        }
    }

    /// Sets the function that reads the node's files again.
    pub fn reloading(mut self, reload: Reload) -> Operator {
        self.reload = Some(reload);
        self
    }

    /// Answers one line by one line.
    pub fn answer(&mut self, line: &str, rights: &mut Rights) -> String {
        let answered = match serde_json::from_str::<Ask>(line) {
            Ok(ask) if *rights == Rights::Observe && !ask.only_looks() => Err(
                "this connection may only look: use NAME.operator.remote to change something"
                    .to_owned(),
            ),
            Ok(ask) => self.act(ask, rights),
            Err(error) => Err(format!(
                "not a request ({error}): write {{\"cmd\":\"snapshot\"}}, one of {COMMANDS}"
            )),
        };
        answered.unwrap_or_else(|text| error_line(&text))
    }

    fn act(&mut self, ask: Ask, rights: &mut Rights) -> Result<String, String> {
        match ask {
            Ask::Snapshot {} => {
                let status = self.commander.status().map_err(text)?;
                serde_json::to_string(&*status).map_err(text)
            }
            Ask::Network {} => {
                let network = self.commander.network().map_err(text)?;
                serde_json::to_string(&*network).map_err(text)
            }
            Ask::Groups { group: only } => {
                let only = only.as_deref().map(group).transpose()?;
                let groups = self.commander.groups(only).map_err(text)?;
                Ok(serde_json::json!({ "groups": groups }).to_string())
            }
            Ask::GroupSet(wanted) => self.set_group(&wanted),
            Ask::GroupClear { group: word } => {
                for operation in clear(&word)? {
                    self.operate(operation, "group_clear")?;
                }
                Ok(done("group_clear"))
            }
            Ask::LinkSet { neighbor, model } => {
                let model = model.parse().map_err(|error| format!("model: {error}"))?;
                let neighbor = self.neighbor(&neighbor)?;
                self.operate(
                    Operation::Impair {
                        neighbor,
                        model: Some(model),
                    },
                    "link_set",
                )
            }
            Ask::LinkClear { neighbor } => {
                let neighbor = self.neighbor(&neighbor)?;
                self.operate(
                    Operation::Impair {
                        neighbor,
                        model: None,
                    },
                    "link_clear",
                )
            }
            Ask::Renew { certificate } => self.renew(&certificate),
            Ask::Revoke { list } => self.revoke(&list),
            Ask::Succeed { network } => self.succeed(&network),
            Ask::Cancel { transfer } => {
                self.commander.cancel(&transfer).map_err(text)?;
                Ok(done("cancel"))
            }
            Ask::Reload {} => {
                let Some(reload) = &self.reload else {
                    return Err("this node was not started from a configuration file".to_owned());
                };
                let done = Done {
                    done: "reload",
                    reloaded: (reload.0)()?,
                };
                serde_json::to_string(&done).map_err(text)
            }
            Ask::Stop {} => {
                self.commander.stop().map_err(text)?;
                Ok(done("stop"))
            }
            Ask::Observe {} => {
                *rights = Rights::Observe;
                Ok(done("observe"))
            }
        }
    }

    /// Returns a neighbour's address, given the address or the name.
    fn neighbor(&self, word: &str) -> Result<NodeAddr, String> {
        if let Ok(address) = word.parse() {
            return Ok(address);
        }
        let status = self.commander.status().map_err(text)?;
        let links = &status.snapshot.links;
        let mut named = links.iter().filter(|link| link.name == word);
        match (named.next(), named.next()) {
            (Some(link), None) => link.peer.parse().map_err(text),
            (Some(_), Some(_)) => Err(format!(
                "two neighbors are called `{word}`: use the overlay address"
            )),
            (None, _) => {
                let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
                let names = if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                };
                Err(format!("no neighbor `{word}` (this node has: {names})"))
            }
        }
    }

    /// Sets a group. A group that does not fit is refused, with the reasons, unless the request is forced.
    fn set_group(&mut self, wanted: &GroupSet) -> Result<String, String> {
        let setting = wanted.setting()?;
        let operations = wanted.operations()?;
        let admission = self.commander.admission(setting).map_err(text)?;
        if !admission.admitted && !wanted.force {
            let reasons = admission.refusals.join("; ");
            return Err(format!("not admitted: {reasons}"));
        }
        for operation in operations {
            self.operate(operation, "group_set")?;
        }
        let answer = serde_json::json!({ "done": "group_set", "admission": admission });
        Ok(answer.to_string())
    }

    fn renew(&mut self, certificate: &str) -> Result<String, String> {
        let certificate = Certificate::from_text(certificate).map_err(text)?;
        let subject = certificate.fields().subject;
        if subject.address != self.address {
            let (theirs, ours) = (subject.address, self.address);
            return Err(format!(
                "the certificate is for {theirs}, and this node is {ours}"
            ));
        }
        let renewed = certificate.to_text();
        let identity = Identity::new(self.keys.clone(), certificate).map_err(text)?;
        self.operate(Operation::Renew(Box::new(identity)), "renew")?;
        self.keep(self.files.certificate.as_ref(), &renewed, "renewed")?;
        Ok(done("renew"))
    }

    fn revoke(&mut self, list: &str) -> Result<String, String> {
        let list = Revocations::from_text(list).map_err(text)?;
        self.operate(Operation::Revoke(list.as_bytes().to_vec()), "revoke")?;
        self.keep(self.files.revocations.as_ref(), &list.to_text(), "revoked")?;
        Ok(done("revoke"))
    }

    /// Adopts the root keys of a network file. Keys that are already known are no error, because an operator who brings
    /// a new certificate brings the keys first.
    fn succeed(&mut self, network: &str) -> Result<String, String> {
        let brought = Network::from_text(network).map_err(text)?;
        let mut known = self.commander.trust().map_err(text)?;
        known.adopt(&brought).map_err(text)?;
        self.operate(Operation::Succeed(known.chain_bytes()), "succeed")?;
        self.keep(self.files.network.as_ref(), &known.to_text(), "taken")?;
        Ok(done("succeed"))
    }

    fn keep(&self, path: Option<&PathBuf>, content: &str, did: &str) -> Result<(), String> {
        let Some(path) = path else { return Ok(()) };
        write_whole(path, content, 0o644).map_err(|error| {
            let path = path.display();
            format!(
                "{did}, until the node restarts: cannot write {path}: {error}; write it yourself"
            )
        })
    }

    fn operate(&self, operation: Operation, what: &str) -> Result<String, String> {
        match self.commander.operate(operation) {
            Ok(Err(why)) => Err(advice(why)),
            Ok(Ok(())) => Ok(done(what)),
            Err(Unavailable) => Err(Unavailable.to_string()),
        }
    }
}

fn advice(why: RequestError) -> String {
    match why {
        RequestError::NotALab => format!("{why}: set it in the node's configuration, and restart"),
        RequestError::NoSuchNeighbor => format!("{why}: see `sinew links`"),
        _ => why.to_string(),
    }
}

fn done(what: &str) -> String {
    serde_json::json!({ "done": what }).to_string()
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
