//! Two sites with a gateway each, and the nodes between them.
//!
//! ```text
//!   alice 10.91.1.2 ── gateway 10.91.1.1 at ams ══ mid … ══ fra, gateway 10.91.2.1 ── 10.91.2.2 bob
//!   a.example                                                                        b.example
//! ```

use crate::land::Land;
use crate::programs::Running;
use crate::sip::{Callee, Caller};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// UDP ports for media at each gateway.
pub(crate) const MEDIA: RangeInclusive<u16> = 16_000..=19_999;

/// One of the two sites.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) node: &'static str,
    pub(crate) place: &'static str,
    pub(crate) domain: &'static str,
    /// The addresses of the phone, of the gateway, and of a proxy if there is one.
    pub(crate) phone: Ipv4Addr,
    pub(crate) gateway: Ipv4Addr,
    pub(crate) proxy: Ipv4Addr,
}

impl Site {
    /// Returns the address to which phones send their requests.
    pub(crate) fn sip(&self) -> SocketAddr {
        (self.gateway, 5060).into()
    }
}

/// Two sites with running gateways.
pub(crate) struct Sites {
    pub(crate) land: Land,
    pub(crate) a: Site,
    pub(crate) b: Site,
    gateways: Vec<(&'static str, Running)>,
}

impl Sites {
    /// Makes the nodes `ams`, those of `between`, and `fra`. Each node in between has a link to
    /// `ams`, and one to `fra` with the given model in both directions.
    pub(crate) fn new(test: &str, between: &[(&'static str, &str)]) -> Sites {
        let mut nodes: Vec<(&str, &[&str])> = vec![("ams", &["a.example"])];
        nodes.extend(between.iter().map(|(name, _)| (*name, &[][..])));
        nodes.push(("fra", &["b.example"]));
        let mut links = Vec::new();
        for (name, _) in between {
            links.extend([("ams", *name), (*name, "fra")]);
        }
        let mut land = Land::new(test, &nodes, &links);
        for (name, model) in between.iter().filter(|(_, model)| !model.is_empty()) {
            land.world.impair(name, "fra", model);
        }
        let mut site = |node, place, domain| {
            let [phone, gateway] = land.beside(node, place);
            let net = phone.octets()[2];
            let proxy = Ipv4Addr::new(10, 91, net, 5);
            let own = format!("{proxy}/24");
            land.at(place)
                .ip(&["addr", "add", &own, "dev", "eth0"])
                .unwrap();
            Site {
                node,
                place,
                domain,
                phone,
                gateway,
                proxy,
            }
        };
        let (a, b) = (
            site("ams", "alice", "a.example"),
            site("fra", "bob", "b.example"),
        );
        land.start();
        Sites {
            land,
            a,
            b,
            gateways: Vec::new(),
        }
    }

    /// Makes the sites, and starts gateways that know the addresses of the phones.
    pub(crate) fn with_gateways(test: &str, between: &[(&'static str, &str)]) -> Sites {
        let mut sites = Sites::new(test, between);
        for site in [sites.a, sites.b] {
            let local = format!("--local {}={}:5060", site.domain, site.phone);
            sites.start_gateway(site, &local, None);
        }
        sites
    }

    /// Starts the gateway of a site with `dns` as its name server, and waits until it listens.
    pub(crate) fn start_gateway(&mut self, site: Site, more: &str, dns: Option<Ipv4Addr>) {
        let (from, to) = (MEDIA.start(), MEDIA.end());
        let words = format!(
            "gateway sip --json --node net/{node} --listen {} --media-ports {from}-{to} \
             --trace {node}.sip {more}",
            site.sip(),
            node = site.node,
        );
        let log = fs::File::create(self.log_path(site.node)).unwrap();
        let dir = &self.land.world.dir;
        // The gateway gets its own `resolv.conf`, in its own view of the files.
        let resolv = dir.join(format!("resolv-{}.conf", site.node));
        let servers = dns.map(|dns| format!("nameserver {dns}\n"));
        fs::write(&resolv, servers.unwrap_or_default()).unwrap();
        let script = format!(
            "mount --bind {} /etc/resolv.conf && exec \"$0\" \"$@\"",
            resolv.display()
        );
        let mut command: Command = self.land.at(site.node).command("unshare").unwrap();
        command
            .current_dir(dir)
            .args(["--mount", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_sinew"))
            .env_remove("SINEW_NODE")
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log);
        let mut running = Running(command.spawn().unwrap());
        self.land
            .world
            .wait(&format!("the gateway listens: {words}"), || {
                let log = self.log(site.node);
                let ended = running.0.try_wait().unwrap();
                assert!(ended.is_none(), "sinew {words}: {ended:?}\n{log}");
                log.contains("\"listening\"")
            });
        self.gateways.push((site.node, running));
    }

    /// Ends a gateway as a crash would.
    pub(crate) fn kill_gateway(&mut self, node: &str) {
        self.gateways.retain(|(name, _)| *name != node);
    }

    /// Returns whether the gateway at a node runs.
    pub(crate) fn runs(&mut self, node: &str) -> bool {
        let mut gateways = self.gateways.iter_mut();
        let gateway = gateways.find(|(name, _)| *name == node);
        gateway.is_some_and(|(_, running)| running.0.try_wait().unwrap().is_none())
    }

    /// Returns the output of the gateway at a node, a line of JSON for each event.
    pub(crate) fn log(&self, node: &str) -> String {
        fs::read_to_string(self.log_path(node)).unwrap_or_default()
    }

    /// Returns the events of one kind of the gateway at a node.
    pub(crate) fn events(&self, node: &str, kind: &str) -> Vec<Value> {
        let log = self.log(node);
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|event: &Value| event["event"] == kind)
            .collect()
    }

    /// Makes a caller at alice's place, who uses her gateway.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.land.at(self.a.place), self.a.phone, self.a.sip())
    }

    /// Makes a callee at bob's place.
    pub(crate) fn callee(&self) -> Callee {
        Callee::new(self.land.at(self.b.place), self.b.phone)
    }

    /// Returns how many UDP ports of the media's range are in use at a node.
    pub(crate) fn media_ports(&self, node: &str) -> usize {
        let table = || fs::read_to_string("/proc/thread-self/net/udp").unwrap();
        let table = self.land.at(node).run(table).unwrap();
        let local = table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let ports = local.filter_map(|local| local.split_once(':'));
        let ports = ports.filter_map(|(_, port)| u16::from_str_radix(port, 16).ok());
        ports.filter(|port| MEDIA.contains(port)).count()
    }

    fn log_path(&self, node: &str) -> PathBuf {
        self.land.world.dir.join(format!("gateway-{node}.log"))
    }
}
