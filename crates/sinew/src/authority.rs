//! `sinew net`: makes a network, and the certificates of its nodes.
//!
//! ```text
//!   authority's machine                               a node's machine
//!   net init  DIR         root key                    net request: key and request, if the key
//!   net add   DIR NODE    key, certificate, config      is not to leave that machine
//!   net renew | set       a new certificate           node --config: takes it while it runs
//!   net delegate          a delegation                invite: certifies others by itself
//!   net revoke            a list                      likewise
//!   net rotate            another root key,           likewise, and spreads it
//!                           all certificates anew
//! ```
//!
//! All state is in DIR (see [`directory`]). None of these commands needs a running node, but `renew`, `set`, `revoke`
//! and `rotate` can send their result to one.

mod add;
mod configuration;
mod delegate;
pub mod directory;
mod edit;
mod list;
mod register;
mod renew;
mod renews;
mod request;
mod rights;
mod rotate;
mod set;
#[cfg(test)]
mod tests;

use crate::failure::Outcome;
use crate::gate::NetClients;
use crate::quantity::span;
use crate::table::Wish;
use base::{Duration, NodeAddr};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub use add::{Added, add};
pub(crate) use add::{fresh_keys, init};
pub(crate) use configuration::{DEFAULT_PORT, Joined, is_endpoint, joined, listen_here};
pub(crate) use delegate::delegate;
pub use register::{Entry, Prefix, Register};
pub(crate) use register::{check_node_name, is_file_name};
pub(crate) use rights::ranges;

/// The word for an empty list.
const NONE: &str = "none";

/// The subcommands of `sinew net`.
#[derive(Debug, Subcommand)]
pub enum Net {
    /// Make a network: its root key and its register, in a new directory
    #[command(after_help = "Example:\n  sinew net init voice --name voice --prefix 10.7.0.0/24")]
    Init(Init),
    /// Add a node: its certificate and its configuration, in a directory of its own
    #[command(after_help = "\
Examples:
  sinew net add voice ams --address ams.example.net:7700
  sinew net add voice fra --address 192.0.2.7:7700 \\
    --address '[2001:db8::7]:7700' --link ams
  sinew net add voice lab1 --address 127.0.0.1:7701 --lab
  sinew net add voice home --request home.request    # behind NAT: no address")]
    Add(Add),
    /// On the node's own machine: make its key, and a request for a certificate
    #[command(
        override_usage = "sinew net request [OPTIONS] --network <FILE> --overlay <ADDRESS>\n  \
            <DIR> <NODE>",
        after_help = "\
Example:
  sinew net request /etc/sinew home --network network.pub --overlay 10.7.0.9
then give /etc/sinew/node.request to the administrator of the network, for
  sinew net add voice home --request node.request"
    )]
    Request(Request),
    /// Issue a new certificate for a node and its present key
    #[command(after_help = "\
Example:
  sinew net renew voice ams --days 365 --node voice/ams")]
    Renew(Renew),
    /// Change a node's domains, rights, addresses or links; its key and overlay address stay
    #[command(after_help = "\
Examples:
  sinew net set voice ams --domain a.example --node voice/ams
  sinew net set voice ams --domain none                # no domains any more
  sinew net set voice fra --may-set-groups 239.1.0.0/16 --node voice/fra
  sinew net set voice ams --address ams2.example.net:7700
  sinew net set voice ams --link fra,par")]
    Set(Set),
    /// Let a node certify the hosts that it invites with `sinew invite`
    #[command(after_help = "\
Examples:
  sinew net delegate voice ams
  sinew net delegate voice ams --days 90 --lifetime 7 --names -lab \\
    --domain '*.example.net'")]
    Delegate(Delegate),
    /// Revoke a node's certificates; for an issuer, also all that it has signed
    #[command(after_help = "\
Examples:
  sinew net revoke voice fra --node voice/ams
  sinew invite voice/ams --show home > home.cert    # a member of an issuer
  sinew net revoke voice home --certificate home.cert --node voice/ams")]
    Revoke(Revoke),
    /// Replace the root key; links and certificates go on, and the old key counts for a while
    #[command(after_help = "\
Examples:
  sinew net rotate voice --node voice/ams                # planned
  sinew net rotate voice --overlap 1h --node voice/ams   # after a theft
It makes a new root key in DIR, keeps the old one as network.key.root-N, and
certifies all nodes of the register anew. The node that is told spreads the new
key. Give each node its new certificate before the old key ends.")]
    Rotate(Rotate),
    /// Let clients on other hosts use a node, by TLS and a token
    #[command(after_help = "\
Example:
  sinew net clients voice/ams --listen 10.0.0.1:7443
then copy voice/ams/ams.remote to the other host, and there:
  SINEW_NODE=ams.remote program")]
    Clients(NetClients),
    /// List the nodes and their certificates
    #[command(after_help = "Example:\n  sinew net list voice --json")]
    List(List),
}

/// Arguments of `net init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The directory to make
    pub dir: PathBuf,
    /// The network's name
    #[arg(long)]
    pub name: String,
    /// The overlay addresses of the network
    #[arg(long, default_value = "10.7.0.0/24")]
    pub prefix: Prefix,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The network's directory
    pub dir: PathBuf,
    /// The node's name, of letters, digits, `-`, `_` and `.`
    pub node: String,
    /// The address at which other nodes reach it; may be repeated
    #[arg(long = "address", value_name = "HOST:PORT", num_args = 1..)]
    pub addresses: Vec<String>,
    /// Its overlay address, instead of the next free one
    #[arg(long, value_name = "ADDRESS")]
    pub overlay: Option<NodeAddr>,
    /// Nodes that it dials, separated by commas, or `none`; default: all nodes added before
    #[arg(long, value_name = "NODE,..")]
    pub link: Option<String>,
    /// For how many days its certificate is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Domains that it may serve
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// Groups for which it may say how they are carried and who may send and receive: 239.1.0.0/16, `all`, or
    /// `none`; default: `all` for the first node, `none` for others
    #[arg(long = "may-set-groups", value_name = "RANGE")]
    pub groups: Vec<String>,
    /// A word by which rules name it, like `backup`; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// The request that `sinew net request` made on the node's machine
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Allow its links to be impaired
    #[arg(long)]
    pub lab: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net request`.
#[derive(Debug, Args)]
pub struct Request {
    /// Directory of the key, created if missing; the request is written beside it
    pub dir: PathBuf,
    /// The node's name
    pub node: String,
    /// The network's public key: `network.pub` of its directory
    #[arg(long, value_name = "FILE")]
    pub network: PathBuf,
    /// The overlay address that the administrator of the network has given you
    #[arg(long, value_name = "ADDRESS")]
    pub overlay: NodeAddr,
    /// Domains that it wants to serve
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net renew`.
#[derive(Debug, Args)]
pub struct Renew {
    /// The network's directory
    pub dir: PathBuf,
    /// The node
    pub node: String,
    /// For how many days from now
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Control socket of the running node, or its directory, to install the certificate at once
    #[arg(long = "node", value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net set`.
#[derive(Debug, Args)]
pub struct Set {
    /// The network's directory
    pub dir: PathBuf,
    /// The node
    pub node: String,
    /// All domains that it may serve, or `none`; they go into a new certificate
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// All groups that it may set, like 239.1.0.0/16, or `all`, or `none`; they go into a new certificate
    #[arg(long = "may-set-groups", value_name = "RANGE")]
    pub groups: Vec<String>,
    /// All words by which rules name it, or `none`; they go into a new certificate
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// All addresses at which other nodes reach it; changes the configurations of all nodes here
    #[arg(long = "address", value_name = "HOST:PORT", num_args = 1..)]
    pub addresses: Vec<String>,
    /// All nodes that it dials, separated by commas, or `none`
    #[arg(long, value_name = "NODE,..")]
    pub link: Option<String>,
    /// Control socket of the running node, or its directory, to install the certificate at once
    #[arg(long = "node", value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net delegate`.
#[derive(Debug, Args)]
pub struct Delegate {
    /// The network's directory
    pub dir: PathBuf,
    /// The node
    pub node: String,
    /// Let the node renew what this other issuer has certified, within the same limits; it must be an issuer itself
    #[arg(
        long,
        value_name = "ISSUER",
        conflicts_with_all = ["endpoints", "names", "domains", "groups", "tags", "lifetime"]
    )]
    pub renews: Option<String>,
    /// The address at which invited hosts reach it; default: its addresses
    #[arg(long = "endpoint", value_name = "HOST:PORT")]
    pub endpoints: Vec<String>,
    /// The end that every name it gives must have
    #[arg(
        long,
        value_name = "END",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub names: String,
    /// A domain, or a pattern like `*.example.net`, that its nodes may serve
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// Groups that it may let its nodes set, like 239.1.0.0/16, or `all`; default: `none`
    #[arg(long = "may-set-groups", value_name = "RANGE")]
    pub groups: Vec<String>,
    /// A tag, or a pattern like `*-lab`, that it may give its nodes; default: it gives none
    #[arg(long = "tag", value_name = "PATTERN")]
    pub tags: Vec<String>,
    /// For how many days the node may certify, and its certificates are valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// For how many days a certificate is valid; nodes renew theirs by themselves
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub lifetime: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net revoke`.
#[derive(Debug, Args)]
pub struct Revoke {
    /// The network's directory
    pub dir: PathBuf,
    /// The node
    pub node: String,
    /// Its certificate, if an issuer signed it; `sinew invite --show` prints it
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Control socket of any running node, or its directory; that node informs all others
    #[arg(long = "node", value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net rotate`.
#[derive(Debug, Args)]
pub struct Rotate {
    /// The network's directory
    pub dir: PathBuf,
    /// For how long what the old key has signed goes on counting
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = span)]
    pub overlap: Duration,
    /// For how many days from now the new certificates are valid; default: each ends when the old one would have
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
    /// Control socket of any running node, or its directory; that node informs all others
    #[arg(long = "node", value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `net list`.
#[derive(Debug, Args)]
pub struct List {
    /// The network's directory
    pub dir: PathBuf,
    /// The columns to show
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(command: &Net) -> Outcome {
    match command {
        Net::Init(args) => add::run_init(args),
        Net::Add(args) => add::run_add(args),
        Net::Request(args) => request::run(args),
        Net::Renew(args) => renew::run_renew(args),
        Net::Set(args) => set::run(args),
        Net::Delegate(args) => delegate::run(args),
        Net::Revoke(args) => renew::run_revoke(args),
        Net::Rotate(args) => rotate::run(args),
        Net::Clients(args) => crate::gate::run(args),
        Net::List(args) => list::run(args),
    }
}
