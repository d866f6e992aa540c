//! A program in C, written for BSD sockets. It runs against the kernel and, with renamed calls,
//! against a node of this host, and against one that is reached through its gate, as from another
//! host.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use world::World;
use world::c::Compiler;

/// The compiled programs.
struct Programs {
    plain: PathBuf,
    renamed: PathBuf,
    calls: PathBuf,
}

/// Builds the library and the programs. Returns `None` if there is no compiler for C.
fn programs(dir: &Path) -> Option<Programs> {
    let compiler = Compiler::find()?;
    let (plain, renamed) = (dir.join("echo"), dir.join("echo-sinew"));
    let calls = dir.join("calls");
    let echo = "examples/c/echo.c";
    compiler.compile(echo, &[], &plain);
    let rename = ["-include", "sinew_rename.h"];
    compiler.compile_with_library(echo, &rename, &renamed);
    compiler.compile_with_library("crates/capi/tests/calls.c", &[], &calls);
    Some(Programs {
        plain,
        renamed,
        calls,
    })
}

/// A server that runs until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server at `node`, and returns its port.
fn serve(program: &Path, kind: &str, node: &Path) -> (Server, String) {
    let mut command = Command::new(program);
    command.args([kind, "serve", "0"]).env("SINEW_NODE", node);
    let mut server = Server(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    let mut out = BufReader::new(server.0.stdout.take().unwrap());
    out.read_line(&mut port).unwrap();
    (server, port.trim().to_owned())
}

fn ask(program: &Path, kind: &str, node: &Path, to: &str, port: &str) {
    let asked = Command::new(program)
        .args([kind, "ask", to, port, "50"])
        .env("SINEW_NODE", node)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(
        asked.status.success(),
        "{kind} by {}: {said}",
        node.display()
    );
    assert_eq!(asked.stdout, b"50 answers\n");
}

#[test]
fn a_program_for_bsd_sockets_runs_after_renaming_its_calls() {
    let mut world = World::new("capi");
    let Some(programs) = programs(&world.dir) else {
        return;
    };
    for kind in ["udp", "tcp"] {
        let nowhere = Path::new("/nonexistent");
        let (_server, port) = serve(&programs.plain, kind, nowhere);
        ask(&programs.plain, kind, nowhere, "127.0.0.1", &port);
    }
    for (name, number) in [("ams", 1), ("fra", 2)] {
        world.add(name, number, "");
        let gate = world.endpoint(100 + number);
        world.sinew(&format!("net clients net/{name} --listen {gate}"));
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    world.wait("ams has a route to fra", || {
        world.has_route("ams", "10.7.0.2")
    });
    let (ams, fra) = (world.node("ams"), world.node("fra"));
    let remote = |node: &Path, name: &str| node.join(format!("{name}.remote"));
    for kind in ["udp", "tcp"] {
        for server in [fra.clone(), remote(&fra, "fra")] {
            let (_server, port) = serve(&programs.renamed, kind, &server);
            for client in [ams.clone(), remote(&ams, "ams")] {
                ask(&programs.renamed, kind, &client, "10.7.0.2", &port);
            }
        }
    }
    // A program that gets a domain finds the domain's nodes by the DNS or, here, by configuration.
    let keys = remote(&ams, "ams").display().to_string();
    let domain = format!("dns:example.org?keys={keys}&static={}", world.endpoint(101));
    for node in [ams.clone(), remote(&ams, "ams"), PathBuf::from(domain)] {
        let mut calls = Command::new(&programs.calls);
        let called = calls.env("SINEW_NODE", &node).output().unwrap();
        let said = String::from_utf8_lossy(&called.stderr);
        assert!(called.status.success(), "by {}: {said}", node.display());
        assert_eq!(called.stdout, b"done\n");
    }
    world.assert_all_run();
}
