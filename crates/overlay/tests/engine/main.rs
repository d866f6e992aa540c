//! The engine against whole worlds of nodes, packet scripts and bad input. One program for all of them: the engine
//! is generic over what it writes into, so each program that drives it compiles it anew.

mod world;

mod audits;
mod bad_input;
mod brake;
mod bursts;
mod capacity;
mod certificates;
mod chain;
mod clocks;
mod control_traffic;
mod detours;
mod direct;
mod early;
mod ends;
mod expiring;
mod fat_paths;
mod goals;
mod group_audits;
mod group_keys;
mod groups;
mod hop_by_hop;
mod jitter;
mod long_datagrams;
mod many_groups;
mod measured;
mod mtu;
mod outages;
mod paced;
mod parting;
mod protection;
mod reliable;
mod reroute;
mod restart;
mod rights;
mod roots;
mod scripts;
mod session_troubles;
mod sessions;
mod sharing;
mod stamped;
mod targeted;
mod tunnels;
mod two_ways;
mod video;
