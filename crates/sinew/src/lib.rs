//! The command line: a node, and the tools to make, watch, measure and impair networks of nodes.
//!
//! ```text
//!   up invite join    a network and its nodes, in one line each
//!   sinew net ..      authority: keys, certificates, configurations (files only)
//!   sinew node        a running node            <- host, overlay, net
//!   status peers ..   asks a running node       <- its control socket, JSON
//!   groups group      asks a running node, and sets how groups are carried
//!   why whatif plan   asks a running node, or a scenario file
//!   record            asks a running node, again and again
//!   ping trace test-call   measures over the overlay <- its client socket
//!   discover          asks the DNS              <- client::discover
//!   cp                bulk data through relays   <- its relay socket
//!   send listen       streams and datagrams     <- its client socket
//!   forward gateway   programs over it          <- gateway
//!   demo bench        starts nodes of its own   <- lab
//!   emulate           a link for any IP traffic <- lab, net
//! ```
//!
//! Data goes to standard output, everything else to standard error. Exit status: 0 done, 1 failed,
//! 2 misused, 3 registered and not delivered. Every command that prints data has `--json` with stable keys.
#![forbid(unsafe_code)]

pub mod authority;
pub mod bench;
pub mod bridge;
pub mod call;
pub mod calls;
pub mod config;
pub mod control;
pub mod cp;
pub mod demo;
pub mod discover;
pub mod doctor;
pub mod domains;
pub mod echo;
pub mod emulate;
pub mod exits;
pub mod failure;
#[cfg(test)]
#[path = "../../wire/tests/frozen/fixture.rs"]
mod fixture;
pub mod forward;
pub mod gate;
pub mod gateway;
pub mod groups;
pub mod identity;
pub mod interrupt;
pub mod invitation;
pub mod lab;
pub mod launch;
pub mod link;
pub mod manual;
pub mod names;
pub mod node;
pub mod peers;
pub mod ping;
pub mod plan;
mod probe;
pub mod progress;
pub mod quantity;
pub mod record;
pub mod reload;
pub mod service;
pub mod show;
pub mod sim;
pub mod stop;
pub mod table;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod transfer;
pub mod transfers;
pub mod up;
pub mod watch;
pub mod why;

use clap::{Parser, Subcommand};
use failure::Outcome;
pub use host::date;
use show::{Show, What};

/// An overlay network that carries voice and live data well over the Internet
#[derive(Debug, Parser)]
#[command(
    name = "sinew",
    version,
    // Choice: every terminal has this width, and longer lines are not easier to read.
    max_term_width = 80,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "\
A network of two nodes on this machine:
  sinew net init net --name try
  sinew net add net ams --address 127.0.0.1:7701
  sinew net add net fra --address 127.0.0.1:7702
  sinew node --config net/ams/node.toml &
  sinew node --config net/fra/node.toml &
  sinew links --node net/ams && sinew ping fra --node net/ams

Exit status: 0 done, 1 failed, 2 misused, 3 registered and not delivered,
130 stopped by Ctrl-C with a note how to go on.")]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a network and run its first node, which can invite others
    #[command(after_help = "\
Examples:
  sinew up --address ams.example.net:7700
  sinew up net --node ams --address 192.0.2.7:7700 --start no")]
    Up(up::Up),
    /// Print a token with which another host can join the network
    #[command(after_help = "\
Examples:
  sinew invite
  sinew invite net/ams --uses 60 --expires 24h
  sinew invite net/ams --list")]
    Invite(invitation::Invite),
    /// Join a network with a token, and run the node
    #[command(after_help = "\
Examples:
  sinew join sinew1-…
  sinew join - --name home
  sinew join sinew1-… --address fra.example.net:7700 --start service")]
    Join(invitation::Join),
    /// Make a network and the certificates of its nodes
    #[command(subcommand, after_help = "Example:\n  sinew net init net --name try")]
    Net(authority::Net),
    /// Run a node
    #[command(after_help = "\
Examples:
  sinew node --config net/ams/node.toml
  sinew node --config net/ams/node.toml --check")]
    Node(node::NodeArgs),
    /// Have a running node read its configuration again
    #[command(after_help = "\
Examples:
  sinew reload
  sinew reload --node net/ams --json")]
    Reload(reload::ReloadArgs),
    /// Find problems of this host or its node, and say what to do
    #[command(after_help = "\
Examples:
  sinew doctor
  sinew doctor net/ams
  sinew doctor --node /run/sinew/ams --json")]
    Doctor(doctor::Doctor),
    /// Show a running node: links, packets, drops, certificate
    #[command(after_help = "Example:\n  sinew status --node net/ams --watch")]
    Status(Show),
    /// Show a node's links: round trip, loss, recovery
    #[command(after_help = "Example:\n  sinew links --node net/ams/ams.ctl --json")]
    Links(Show),
    /// Show every node of the network: path, latency, loss, certificate, age
    #[command(
        visible_alias = "nodes",
        after_help = "\
Examples:
  sinew peers --node net/ams
  sinew peers --json"
    )]
    Peers(Show),
    /// Show a node's routes
    #[command(after_help = "Example:\n  sinew routes --node net/ams")]
    Routes(Show),
    /// Show the flows through a node
    #[command(after_help = "Example:\n  sinew flows --watch")]
    Flows(Show),
    /// Show multicast and anycast groups: trees, rates, receivers, loss
    #[command(after_help = "Example:\n  sinew groups --node net/ams --watch")]
    Groups(Show),
    /// Show one group, or set how it is carried
    #[command(
        subcommand,
        after_help = "Example:\n  sinew group show 239.1.1.1 --node net/ams"
    )]
    Group(groups::Group),
    /// Show the calls of a node's SIP gateway: loss, delay and MOS in each direction
    #[command(after_help = "Example:\n  sinew calls --node net/ams --watch")]
    Calls(Show),
    /// Explain why packets take their path: the alternatives, and the numbers that decided
    #[command(after_help = "\
Examples:
  sinew why ams par --node net/ams
  sinew why call:4c34ba71c312 --node net/ams
  sinew why west east --paths best --deadline 60ms \\
    --scenario examples/diamond.toml --json")]
    Why(why::Why),
    /// Predict how paths change if a link or a node changes, for one pair of nodes or for all
    #[command(after_help = "\
Examples:
  sinew whatif 'ams-par loss=8%' ams par --node net/ams
  sinew whatif 'fra down, ams-lon delay=40ms' --metric latency
  sinew whatif 'west-upper protect=off' west east \\
    --scenario examples/diamond.toml
  sinew whatif 'upper down' --scenario examples/diamond.toml --json")]
    Whatif(why::WhatIf),
    /// Plan a bulk transfer between two nodes, or say which further node would help calls
    #[command(after_help = "\
Examples:
  sinew plan ams par --node net/ams
  sinew plan ams par --connections 16 --json
  sinew plan west east --along path --scenario examples/diamond.toml
  sinew plan --voice west east --deadline 130ms \\
    --scenario examples/diamond.toml")]
    Plan(plan::Plan),
    /// Record a live network: a scenario that replays its links, with their delays, losses and outages
    #[command(after_help = "\
Examples:
  sinew record day.toml --node net/ams
  sinew record hour.toml --for 1h --every 5s
  sinew sim run hour.toml")]
    Record(record::Record),
    /// Impair a link of a laboratory: the old name of `sinew lab impair`
    #[command(subcommand, hide = true)]
    Link(link::Link),
    /// Hear the difference: calls over a lossy path, direct and over the overlay
    #[command(after_help = "\
Examples:
  sinew demo --loss 10% --burst 50% --out demo-10
  sinew demo --long --calls 1 --out demo-long")]
    Demo(demo::Demo),
    /// Measure round trip and loss to a node
    #[command(after_help = "\
Examples:
  sinew ping fra --node net/ams
  sinew ping 10.7.0.3 --count 100 --interval 20ms --service voice --json
  sinew ping fra --paths disjoint")]
    Ping(ping::Ping),
    /// Measure round trip and loss to every node on the way to a node
    #[command(after_help = "Example:\n  sinew trace 10.7.0.3 --count 50 --node net/ams")]
    Trace(trace::Trace),
    /// Find the nodes and SIP proxies of a domain by DNS
    #[command(after_help = "\
Examples:
  sinew discover example.org
  sinew discover example.org --service sip-udp --server 127.0.0.1:5353 --json
  sinew discover example.org --static example.org=fra.example.net:7443")]
    Discover(discover::Arguments),
    /// Test voice quality to a node, over the overlay and directly, side by side
    #[command(
        name = "test-call",
        alias = "call",
        after_help = "\
Examples:
  sinew test-call --answer --node net/fra
  sinew test-call fra --direct fra.example.net:7717 --calls 10 --node net/ams
  sinew test-call fra --paths disjoint
  sinew test-call fra --codec opus --seconds 24h --json > day.jsonl"
    )]
    Call(call::Call),
    /// Send a file or a pipe over the overlay to `sinew listen`
    #[command(after_help = "\
Examples:
  sinew send fra:5000 backup.tar --node net/ams
  tar c photos | sinew send 10.7.0.2:5000
  echo hello | sinew send fra:5000 --datagram
  echo hello all | sinew send 239.1.1.1:5000 --datagram")]
    Send(transfer::Send),
    /// Receive what `sinew send` sends
    #[command(after_help = "\
Examples:
  sinew listen 5000 --node net/fra > backup.tar
  sinew listen 5000 --out log --keep --json
  sinew listen 5000 --datagram
  sinew listen 5000 --datagram --group 239.1.1.1")]
    Listen(transfer::Listen),
    /// Carry a TCP port over the overlay, for unmodified programs
    #[command(after_help = "\
Examples:
  sinew forward --serve 2022 --to 127.0.0.1:22 --node net/fra
  sinew forward 2222 fra:2022 --node net/ams
  ssh -p 2222 127.0.0.1")]
    Forward(forward::Forward),
    /// Copy files, directories or streams to and from nodes, through relays
    #[command(
        override_usage = "sinew cp [OPTIONS] <SRC>... <DST>",
        after_help = "\
Examples:
  sinew cp disk.img fra:/srv/data/ --node net/ams
  sinew cp results/ lon:/srv/data/results fra:/srv/data/results
  sinew cp fra:/srv/data/disk.img . --via lon --stripes 1,4
  tar c dir | sinew cp - fra:/srv/data/dir.tar --background"
    )]
    Cp(cp::Copy),
    /// Show detached copies, cancel or resume them
    #[command(after_help = "\
Examples:
  sinew transfers
  sinew transfers cancel 7
  sinew transfers resume")]
    Transfers(transfers::Transfers),
    /// Carry unmodified programs over the overlay: SIP, multicast, video, SOCKS
    #[command(
        subcommand,
        after_help = "Example:\n  sinew gateway socks --node net/ams"
    )]
    Gateway(gateway::Gateway),
    /// Simulate the network, traffic and faults of a scenario file
    #[command(
        subcommand,
        after_help = "Example:\n  sinew sim run examples/diamond.toml"
    )]
    Sim(sim::Sim),
    /// Connect two network namespaces by an emulated link; needs root
    #[command(after_help = "\
Examples:
  sinew emulate --between left right 'loss=1% delay=10ms rate=10mbit queue=50' \\
    --address-a 10.9.0.1/24 --address-b 10.9.0.2/24
  sinew emulate --between left tap:vm0 'delay=40ms' \\
    --back 'delay=40ms loss=2%' --seconds 60 --json")]
    Emulate(Box<emulate::Emulate>),
    /// Reproduce the papers' figures, with a verdict on every claim
    #[command(
        subcommand,
        after_help = "Example:\n  sinew lab up examples/diamond.toml --seconds 5"
    )]
    Lab(lab::Lab),
    /// Measure cost and speed of a node, against baselines in the same run
    #[command(
        subcommand,
        after_help = "Example:\n  sinew bench forward --payload 160"
    )]
    Bench(bench::Bench),
    /// Print completions for your shell
    #[command(after_help = "\
Examples:
  sinew completions bash > /etc/bash_completion.d/sinew
  sinew completions fish > ~/.config/fish/completions/sinew.fish")]
    Completions(manual::Completions),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Manual(manual::Manual),
    /// Print the version
    #[command(after_help = "Example:\n  sinew version")]
    Version,
}

/// Runs the command.
pub fn run(cli: &Cli) -> Outcome {
    match &cli.command {
        Command::Up(args) => up::run(args),
        Command::Invite(args) => invitation::invite(args),
        Command::Join(args) => invitation::join(args),
        Command::Net(command) => authority::run(command),
        Command::Node(args) => node::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Status(args) => show::run(What::Status, args),
        Command::Links(args) => show::run(What::Links, args),
        Command::Peers(args) => peers::run(args),
        Command::Routes(args) => show::run(What::Routes, args),
        Command::Flows(args) => show::run(What::Flows, args),
        Command::Groups(args) => groups::show(args),
        Command::Group(command) => groups::run(command),
        Command::Calls(args) => calls::run(args),
        Command::Why(args) => why::why(args),
        Command::Whatif(args) => why::what_if(args),
        Command::Plan(args) => plan::plan(args),
        Command::Record(args) => record::run(args),
        Command::Link(command) => link::run(command),
        Command::Demo(args) => demo::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Discover(args) => discover::run(args),
        Command::Call(args) => call::run(args),
        Command::Send(args) => transfer::send(args),
        Command::Listen(args) => transfer::listen(args),
        Command::Forward(args) => forward::run(args),
        Command::Cp(args) => cp::run(args),
        Command::Transfers(args) => transfers::run(args),
        Command::Gateway(command) => gateway::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Emulate(args) => emulate::run(args),
        Command::Lab(command) => lab::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Completions(args) => manual::completions(args),
        Command::Manual(args) => manual::manual(args),
        Command::Version => terminal::line(concat!("sinew ", env!("CARGO_PKG_VERSION"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Calls `check` for every visible command, with the words before its name.
    fn each(
        command: &mut clap::Command,
        path: &str,
        check: &mut dyn FnMut(&mut clap::Command, &str),
    ) {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        check(command, &path);
        for below in command.get_subcommands_mut() {
            if below.get_name() != "help" && !below.is_hide_set() {
                each(below, &path, check);
            }
        }
    }

    #[test]
    fn help_fits_80_columns() {
        let mut cli = Cli::command().term_width(80);
        cli.build();
        each(&mut cli, "", &mut |command, path| {
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= 80, "{path}: {line}");
                }
            }
        });
    }

    /// Splits one command of a shell into words. It knows one kind of quotes, and stops at the end of the command.
    fn shell_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for c in line.chars().chain([' ']) {
            match c {
                '\'' => quoted = !quoted,
                '#' | '|' | '>' | '&' if !quoted && word.is_empty() => break,
                ' ' if !quoted => {
                    words.extend((!word.is_empty()).then(|| core::mem::take(&mut word)))
                }
                c => word.push(c),
            }
        }
        words
    }

    #[test]
    fn every_command_has_an_example_that_is_understood() {
        let mut cli = Cli::command().term_width(80);
        cli.clone().debug_assert();
        cli.build();
        let mut examples = 0;
        each(&mut cli, "", &mut |command, path| {
            let help = command.render_long_help().to_string().replace("\\\n", "");
            let after = help.split_once("\n\nExample").map(|(_, after)| after);
            let after = after.or_else(|| help.split_once("A network of two nodes").map(|(_, a)| a));
            let after = after.unwrap_or_else(|| panic!("{path} has no example"));
            let mut own = 0;
            for part in after.lines().flat_map(|line| line.split(" && ")) {
                let Some(at) = part
                    .find("sinew ")
                    .filter(|at| part[..*at].ends_with([' ', '|']) || *at == 0)
                else {
                    continue;
                };
                if part.contains("Exit status") || part.contains("then ") {
                    continue;
                }
                let words = shell_words(&part[at..]);
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{path}: {words:?}: {error}");
                }
                own += 1;
            }
            assert!(own > 0, "{path} has no example of sinew");
            examples += own;
        });
        assert!(examples > 80, "{examples}");
    }
}
