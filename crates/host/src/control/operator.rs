//! The operator's requests, and the answers to them.

use super::error_line;
use super::rights::Rights;
use crate::command::{Commander, Unavailable};
use crate::files::write_whole;
use base::{Duration, NodeAddr};
use overlay::groups::{Admission, Permit};
use overlay::request::{Operation, RequestError};
use overlay::snapshot::{PermitStatus, SettingStatus};
use secure::{Certificate, Identity, Keys, Network, Revocations};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
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

/// A request that says how a group is to be carried. A value that is missing stays as this node has set it before; a
/// configuration has nothing before it, and missing values are the defaults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSet {
    /// Its address.
    pub group: String,
    /// The rate of all its sources together, in kbit/s; 0, the default, if it is not known.
    #[serde(default)]
    pub rate_kbps: Option<Given<u32>>,
    /// The deadline of its packets in milliseconds; 0, the default, if they have none.
    #[serde(default)]
    pub deadline_ms: Option<Given<u16>>,
    /// The link protocol of its packets: `best-effort`, `real-time` (the default) or `reliable`.
    #[serde(default)]
    pub link: Option<Given<String>>,
    /// The metric that makes its tree short; `expected-latency` by default.
    #[serde(default)]
    pub routing: Option<Given<String>>,
    /// Its priority, 0 to 7; 4 by default.
    #[serde(default)]
    pub priority: Option<Given<u8>>,
    /// The builder of its tree: `link-state` (the default) or `scribe`.
    #[serde(default)]
    pub tree: Option<Given<String>>,
    /// Number of disjoint paths that its packets take to each member.
    #[serde(default)]
    pub ways: Option<AskedWays>,
    /// How its packets are delivered to the members: `as-it-comes`, `in-order` or `as-sent`; as each member asks by
    /// default.
    #[serde(default)]
    pub delivery: Option<Given<String>>,
    /// For `as-sent`: how long after their sending packets are delivered; 0, the default, for the time that repairs
    /// need.
    #[serde(default)]
    pub release_ms: Option<Given<u16>>,
    /// The share of its packets that may stay lost on a link; the value in each node's settings by default.
    #[serde(default)]
    pub target: Option<Given<f64>>,
    /// The largest number of repair packets per packet; the value in each node's settings by default.
    #[serde(default)]
    pub repair: Option<Given<f64>>,
    /// The nodes that may send, in words that name nodes; `*` for all nodes.
    #[serde(default)]
    pub send: Option<Vec<String>>,
    /// The nodes that may receive, in the same form.
    #[serde(default)]
    pub receive: Option<Vec<String>>,
    /// Set the group even if it does not fit.
    #[serde(default)]
    pub force: bool,
}

/// A value, or the word `default`, which takes an earlier value back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<T> {
    /// The word.
    Default,
    /// The value.
    Value(T),
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given<T>, D::Error> {
        let given = Value::deserialize(deserializer)?;
        if given == "default" {
            return Ok(Given::Default);
        }
        let value = T::deserialize(given).map_err(de::Error::custom)?;
        Ok(Given::Value(value))
    }
}

impl<T> Given<T> {
    /// Returns the value that a request asks for. Without one, this is the value `before`.
    fn choose<R>(
        given: &Option<Given<T>>,
        (before, default): (R, R),
        read: impl FnOnce(&T) -> Result<R, String>,
    ) -> Result<R, String> {
        match given {
            None => Ok(before),
            Some(Given::Default) => Ok(default),
            Some(Given::Value(value)) => read(value),
        }
    }
}

/// Number of paths of a packet, as the user wrote it: 1, or 2 that are as disjoint as the network permits, or one of
/// the words `targeted`, `auto` and `default`, which is the same as `auto`.
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
            AskedWays::Word(word) if word == "default" => Ways::Auto.label().to_owned(),
            AskedWays::Word(word) => word.clone(),
        };
        Ways::of_label(&word).ok_or_else(|| format!("ways `{word}`: write 1, 2, targeted or auto"))
    }
}

impl GroupSet {
    /// Converts the request to a setting as records contain it. `before` is what this node has set so far.
    pub fn setting(&self, before: Option<&Setting>) -> Result<Setting, String> {
        let (group, prefix) = range(&self.group)?;
        let default = Setting {
            prefix,
            class: overlay::sockets::default_options().class,
            ..Setting::of(group)
        };
        let before = before.copied().unwrap_or(default);
        let mut class = before.class;
        let link = (before.class.link, default.class.link);
        class.link = Given::choose(&self.link, link, |word| {
            let known = LinkProtocol::ALL
                .into_iter()
                .find(|link| link.label() == *word);
            known.ok_or_else(|| format!("link `{word}`: write best-effort, real-time or reliable"))
        })?;
        let routing = (before.class.routing, default.class.routing);
        class.routing = Given::choose(&self.routing, routing, |word| {
            match RouteBy::from_label(word) {
                Some(RouteBy::Table(routing)) if routing != Routing::Width => Ok(routing),
                _ => Err(format!(
                    "routing `{word}`: write hops, latency, loss or expected-latency"
                )),
            }
        })?;
        let priority = (before.class.priority, default.class.priority);
        class.priority = Given::choose(&self.priority, priority, |priority| match *priority {
            0..=7 => Ok(*priority),
            _ => Err("priority: write 0 to 7".to_owned()),
        })?;
        let builders = [TreeBuilder::LinkState, TreeBuilder::Scribe];
        let tree = Given::choose(&self.tree, (before.tree, default.tree), |word| {
            let known = builders.into_iter().find(|builder| builder.label() == word);
            known.ok_or_else(|| format!("tree `{word}`: write link-state or scribe"))
        })?;
        let ways = self.ways.as_ref();
        let ways = ways.map_or(Ok(before.ways), AskedWays::ways)?;
        let has_second = matches!(ways, Ways::Two | Ways::Targeted);
        if has_second && tree == TreeBuilder::Scribe {
            let why = "second ways need `tree` link-state: Scribe builds one tree";
            return Err(why.to_owned());
        }
        if has_second && class.link == LinkProtocol::Reliable {
            let why = "second ways are for what has a deadline: what must arrive would wait for the slower of them";
            return Err(why.to_owned());
        }
        let number = |value: &f64| Ok(Some(*value));
        let target = Given::choose(&self.target, (before.aim.target(), None), number)?;
        let most = Given::choose(&self.repair, (before.aim.most(), None), number)?;
        let deadline = (before.deadline_ms, default.deadline_ms);
        let deadline_ms = Given::choose(&self.deadline_ms, deadline, |ms| Ok(*ms))?;
        let rate = (before.rate_kbps, default.rate_kbps);
        Ok(Setting {
            version: 0,
            tree,
            class,
            deadline_ms,
            rate_kbps: Given::choose(&self.rate_kbps, rate, |kbps| Ok(*kbps))?,
            ways,
            delivery: self.delivery(before.delivery, deadline_ms)?,
            aim: Aim::new(target, most).map_err(|error| error.to_string())?,
            ..default
        })
    }

    /// Returns the operations for the node if nothing was set before, as for a configuration. The permit comes first,
    /// so that in between no packet passes to a node that must not get it.
    pub fn operations(&self) -> Result<Vec<Operation>, String> {
        let (setting, permit) = (self.setting(None)?, self.permit(None)?);
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
        words.iter().any(|word| word.is_some())
            || self.rate_kbps.is_some()
            || self.deadline_ms.is_some()
            || self.release_ms.is_some()
            || self.priority.is_some()
            || self.ways.is_some()
            || self.target.is_some()
            || self.repair.is_some()
    }

    fn says_who(&self) -> bool {
        self.send.is_some() || self.receive.is_some()
    }

    /// Returns the operations that undo all of it.
    pub fn taken_back(&self) -> Result<[Operation; 2], String> {
        clear(&self.group)
    }

    /// Returns who may send and receive, if the request says it. `before` is what this node has set so far.
    fn permit(&self, before: Option<&Permit>) -> Result<Option<Permit>, String> {
        if !self.says_who() {
            return Ok(None);
        }
        let (group, prefix) = range(&self.group)?;
        let words = |given: &Option<Vec<String>>, before: Option<&Option<Vec<String>>>| match given
        {
            Some(words) => limited(words),
            None => Ok(before.cloned().flatten()),
        };
        Ok(Some(Permit {
            group,
            prefix,
            send: words(&self.send, before.map(|before| &before.send))?,
            receive: words(&self.receive, before.map(|before| &before.receive))?,
        }))
    }

    fn delivery(
        &self,
        before: Option<Delivery>,
        deadline_ms: u16,
    ) -> Result<Option<Delivery>, String> {
        let delivery = Given::choose(&self.delivery, (before, None), |word| {
            Ok(Some(match (word.as_str(), before) {
                ("as-it-comes", _) => Delivery::AsItComes,
                ("in-order", _) => Delivery::InOrder,
                ("as-sent", Some(Delivery::AsSent(after))) => Delivery::AsSent(after),
                ("as-sent", _) => Delivery::AsSent(None),
                _ => {
                    return Err(format!(
                        "delivery `{word}`: write as-it-comes, in-order or as-sent"
                    ));
                }
            }))
        })?;
        let release = |ms: u16| (ms > 0).then(|| Duration::from_millis(ms.into()));
        let release = match &self.release_ms {
            None => None,
            Some(Given::Default) => Some(None),
            Some(Given::Value(ms)) => Some(release(*ms)),
        };
        let delivery = match (delivery, release) {
            (None | Some(Delivery::AsSent(_)), Some(Some(after))) => {
                Some(Delivery::AsSent(Some(after)))
            }
            (Some(Delivery::AsSent(_)), Some(None)) => Some(Delivery::AsSent(None)),
            (Some(_), Some(Some(_))) => {
                return Err("a release time is of delivery as-sent".to_owned());
            }
            (delivery, _) => delivery,
        };
        // A packet's age is known only if it has a deadline.
        if let Some(Delivery::AsSent(Some(after))) = delivery
            && Duration::from_millis(deadline_ms.into()) < after
        {
            return Err(
                "a release time needs a deadline of the group that is not shorter".to_owned(),
            );
        }
        Ok(delivery)
    }
}

/// Returns the words of a permit; none if the words name all nodes.
fn limited(words: &[String]) -> Result<Option<Vec<String>>, String> {
    if words.iter().any(|word| word == "*") {
        return Ok(None);
    }
    for word in words {
        Pattern::parse(word).map_err(|why| format!("`{word}`: {why}"))?;
    }
    match u8::try_from(words.len()) {
        Ok(_) => Ok(Some(words.to_vec())),
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
                "two neighbours are called `{word}`: use the overlay address"
            )),
            (None, _) => {
                let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
                let names = if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                };
                Err(format!("no neighbour `{word}` (this node has: {names})"))
            }
        }
    }

    /// Sets a group. What the request does not name stays as this node has set it before. A group that does not fit is
    /// refused, with the reasons, unless the request is forced.
    fn set_group(&mut self, wanted: &GroupSet) -> Result<String, String> {
        if !wanted.says_how() && !wanted.says_who() {
            let why = "nothing to set: write how the group is carried, such as a rate or a deadline, or who may send or receive";
            return Err(why.to_owned());
        }
        let (setting, permit) = self
            .commander
            .own_rules(range(&wanted.group)?)
            .map_err(text)?;
        let carried = match wanted.says_how() {
            true => Some(wanted.setting(setting.as_ref())?),
            false => None,
        };
        let permitted = wanted.permit(permit.as_ref())?;
        let mut admission = match carried {
            Some(setting) => self.commander.admission(setting).map_err(text)?,
            None => Admission {
                admitted: true,
                ..Admission::default()
            },
        };
        if !admission.admitted && !wanted.force {
            let reasons = admission.refusals.join("; ");
            return Err(format!("not admitted: {reasons}"));
        }
        if let Some(permit) = &permitted {
            admission.notes.extend(self.unknown_nodes(permit)?);
        }
        let operations = permitted.clone().map(Operation::Permit).into_iter();
        for operation in operations.chain(carried.map(set)) {
            self.operate(operation, "group_set")?;
        }
        let permit = permitted.or(permit).filter(|permit| !permit.is_open());
        let answer = serde_json::json!({
            "done": "group_set",
            "admission": admission,
            "setting": carried.or(setting).map(|setting| SettingStatus::of(self.address, &setting)),
            "permit": permit.map(|permit| PermitStatus::of(self.address, &permit)),
        });
        Ok(answer.to_string())
    }

    /// Returns a note for each name and address in a permit that no known node has: it may be misspelled.
    fn unknown_nodes(&self, permit: &Permit) -> Result<Vec<String>, String> {
        let status = self.commander.status().map_err(text)?;
        let is_unknown = |word: &&String| match Pattern::heard(word) {
            Pattern::Name(name) => {
                let mut nodes = status.nodes.iter();
                nodes.all(|node| node.name.as_deref() != Some(name))
            }
            Pattern::Address(address) => {
                let address = address.to_string();
                status.nodes.iter().all(|node| node.address != address)
            }
            _ => false,
        };
        let lists = [&permit.send, &permit.receive];
        let words = lists.into_iter().flatten().flatten();
        let notes = words
            .filter(is_unknown)
            .map(|word| format!("no node is called {word} now"));
        Ok(notes.collect())
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
