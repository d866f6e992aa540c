//! `sinew plan`: how to move bulk data from one node to another, the rate that this would reach, and the reason. With
//! `--voice`, what calls between the two nodes miss, and which further node would help them. The network comes from the
//! same source as for `sinew why`; everything else is in `tools::explain`.

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::probe::Prober;
use crate::quantity::span;
use crate::show::text;
use crate::why::Network;
use base::Duration;
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use tools::explain::{
    self, Along, CONNECTIONS, Connections, Length, MARGIN, PlanAsked, RELAYS_MAX, View,
};
use tools::share;

/// Arguments of `sinew plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// The node with the data, or the one that speaks: name or overlay address
    pub src: String,
    /// The node that gets the data, or the one that listens
    pub dst: String,
    /// Plan for calls: the packets that they miss today, and the further nodes that would help
    #[arg(long, conflicts_with_all = ["connections", "relays", "margin", "length", "along", "probe", "congestion"])]
    pub voice: bool,
    /// With --voice: packets of a call that arrive later are lost
    #[arg(long, value_name = "TIME", default_value = "150ms", requires = "voice", value_parser = span)]
    pub deadline: Duration,
    /// TCP connections in total, on all segments together [default: up to 8 on each segment, as `cp` uses]
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// Most relays in a row
    #[arg(long, value_name = "N", default_value_t = RELAYS_MAX)]
    pub relays: usize,
    /// Share by which a path may be narrower than the widest if it is shorter
    #[arg(long, value_name = "SHARE", default_value_t = MARGIN, value_parser = share::parse)]
    pub margin: f64,
    /// How the length of a path is measured, among those that are wide enough
    #[arg(long, value_name = "LENGTH", default_value = "hops")]
    pub length: LengthArg,
    /// Where to look for relays: over the overlay's links, or along the path of least latency, whose
    /// nodes can all reach each other
    #[arg(long, value_name = "WHERE", default_value = "overlay")]
    pub along: AlongArg,
    /// The congestion control of the senders, by the kernel's name: reno, cubic, bbr; default: what each node uses
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// First measure the rate of each path, which takes some seconds
    #[arg(long, conflicts_with = "scenario")]
    pub probe: bool,
    /// The network
    #[command(flatten)]
    pub network: Network,
}

/// Where relays are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlongArg {
    /// Over the overlay's links
    Overlay,
    /// Along the path of least latency
    Path,
}

/// What makes a path long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LengthArg {
    /// The number of segments
    Hops,
    /// The latency
    Latency,
    /// The physical links, routers on the way and one more for each segment
    PhysicalHops,
}

/// Runs the command.
pub fn plan(args: &Plan) -> Outcome {
    if args.voice {
        let view = args.network.view()?;
        let advice = explain::advise(&view, &args.src, &args.dst, args.deadline);
        return args.network.tell(&advice.map_err(crate::why::failure)?);
    }
    let asked = PlanAsked {
        along: match args.along {
            AlongArg::Overlay => Along::Overlay,
            AlongArg::Path => Along::Path,
        },
        connections: args.connections.map_or(CONNECTIONS, Connections::InAll),
        relays: args.relays,
        margin: args.margin,
        length: match args.length {
            LengthArg::Hops => Length::Hops,
            LengthArg::Latency => Length::Latency,
            LengthArg::PhysicalHops => Length::PhysicalHops,
        },
        advises_probe: !args.probe && args.network.scenario.is_none(),
    };
    let mut view = args.network.view()?;
    if let Some(control) = &args.congestion {
        let sending = view.with_congestion(control);
        view = sending.map_err(crate::why::failure)?;
    }
    if args.probe {
        view = probed(args, view, &asked)?;
    }
    let plan = explain::plan(&view, &args.src, &args.dst, &asked);
    args.network.tell(&plan.map_err(crate::why::failure)?)
}

/// Returns the view with the rates that a probe measures now.
fn probed(args: &Plan, view: View, asked: &PlanAsked) -> Result<View, Failure> {
    let mut control = Control::find(args.network.node.as_deref())?;
    let status = control.status()?;
    let own = text(&status["snapshot"]["address"]);
    let prober = Prober {
        socket: control.beside(host::relay::SUFFIX)?,
        own: own.parse().map_err(Failure::failed)?,
        bytes: u64::MAX,
        congestion: args.congestion.as_deref().unwrap_or_default(),
        tell: &|line| eprintln!("sinew: {line}"),
        names: &Names::of(&status),
    };
    let ends = (args.src.as_str(), args.dst.as_str());
    let src = view.address(ends.0).map_err(crate::why::failure)?;
    let dst = view.address(ends.1).map_err(crate::why::failure)?;
    prober.refine(view, (src, dst), asked, &mut BTreeSet::new())
}
