//! Three bare forwarders in a chain, and the sockets at both ends of it and of the path without forwarders.
//!
//! ```text
//!   start from the last to the first, each told where the next one listens ─> ... ─> kill
//! ```

use super::{Arena, MIDDLE};
use crate::bench::BenchError;
use crate::bench::trial::{Drain, Plan, Source, Trial, run};
use crate::bench::usage::Usage;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};

/// As many as there are nodes.
const RELAYS: usize = 3;

/// The forwarders, and the sockets of the streams.
pub(super) struct Relays {
    /// The processes, the last one first.
    processes: Vec<Process>,
    /// The sockets to the first forwarder, one per stream.
    through: Vec<UdpSocket>,
    /// The sockets directly to the end, one per stream.
    straight: Vec<UdpSocket>,
    end: UdpSocket,
}

/// One forwarder. It ends when its standard input is closed, so also when this process ends.
struct Process {
    host: usize,
    child: Child,
    /// The port at which it listens.
    port: u16,
}

impl Relays {
    /// Starts the forwarders and opens the sockets for `streams` streams.
    pub(super) fn start(arena: &Arena<'_>, streams: u32) -> Result<Relays, BenchError> {
        let row = &arena.row;
        let bind = |host: usize| -> Result<UdpSocket, BenchError> {
            let socket = row.within(host, || UdpSocket::bind(row.any()))??;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        // Returns a port of `host`, for its own processes and for the host before it.
        let own = |host: usize, port| -> SocketAddr {
            let other = if host == 0 { 1 } else { host - 1 };
            (row.ip(host, other), port).into()
        };
        let end = bind(RELAYS - 1)?;
        let end_at = own(RELAYS - 1, end.local_addr()?.port());
        let (mut to, mut processes) = (end_at, Vec::new());
        for host in (0..RELAYS).rev() {
            let process = Process::start(arena, host, to)?;
            to = own(host, process.port);
            processes.push(process);
        }
        let sources = |to: SocketAddr| -> Result<Vec<UdpSocket>, BenchError> {
            let open = |_| {
                let socket = bind(0)?;
                socket.connect(to)?;
                Ok(socket)
            };
            (0..streams).map(open).collect()
        };
        Ok(Relays {
            processes,
            through: sources(to)?,
            straight: sources(end_at)?,
            end,
        })
    }

    /// Runs a trial with the kernel alone.
    pub(super) fn direct(&self, plan: &Plan) -> Result<Trial, BenchError> {
        run(plan, &self.straight, &self.end)
    }

    /// Runs a trial through the forwarders.
    pub(super) fn trial(&mut self, plan: &Plan) -> Result<Trial, BenchError> {
        let before = self.middle_usage()?;
        let mut trial = run(plan, &self.through, &self.end)?;
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                return Err(process.error(&format!("has ended: {status}")));
            }
        }
        let used = self.middle_usage()?.since(before);
        trial.wakeups = Some(used.wakeups);
        trial.cpu_ns = Some(used.cpu_ns);
        Ok(trial)
    }

    fn middle_usage(&self) -> Result<Usage, BenchError> {
        let middle = self.processes.iter().find(|one| one.host == MIDDLE);
        let middle = middle.expect("all are started before the first trial");
        Ok(Usage::of(middle.child.id())?)
    }
}

impl Process {
    /// Starts the forwarder of `host`, and waits until it listens.
    fn start(arena: &Arena<'_>, host: usize, to: SocketAddr) -> Result<Process, BenchError> {
        let program = match &arena.options.program {
            Some(program) => program.clone(),
            None => tools::program::path()?,
        };
        let mut command = Command::new(&program);
        command
            .args(["bench", "relay", "--listen", &arena.row.any().to_string()])
            .args(["--to", &to.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cpu) = arena.cpu(host + 1) {
            command.args(["--cpu", &cpu.to_string()]);
        }
        // A process starts in the network of the thread that starts it.
        let child = arena.row.within(host, || command.spawn())?;
        let child =
            child.map_err(|error| BenchError::Start(format!("{}: {error}", program.display())))?;
        let mut process = Process {
            host,
            child,
            port: 0,
        };
        process.port = match process.ready() {
            Ok(at) => at.port(),
            Err(_) => return Err(process.error("did not start")),
        };
        Ok(process)
    }

    /// Returns the address at which it listens, from the one line that it prints.
    fn ready(&mut self) -> io::Result<SocketAddr> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        line.trim().parse().map_err(io::Error::other)
    }

    /// Makes an error from what is wrong with it and its error output.
    fn error(&mut self, what: &str) -> BenchError {
        self.end();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        BenchError::Start(format!("forwarder {} {what}\n  {}", self.host, said.trim()))
    }

    fn end(&mut self) {
        // Both fail for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Source for UdpSocket {
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        // A packet that the kernel does not accept is lost, and counted because it does not arrive.
        let _ = UdpSocket::send(self, packet);
        Ok(())
    }
}

impl Drain for UdpSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.recv(packet).ok())
    }
}

/// Returns sockets for `streams` streams on loopback, and the socket that they are connected to.
#[cfg(test)]
pub(in crate::bench) fn udp_pair(streams: usize) -> (Vec<UdpSocket>, UdpSocket) {
    let end = UdpSocket::bind("127.0.0.1:0").unwrap();
    end.set_nonblocking(true).unwrap();
    let source = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(end.local_addr().unwrap()).unwrap();
        socket
    };
    ((0..streams).map(source).collect(), end)
}
