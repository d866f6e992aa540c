//! `sinew send` and `sinew listen`: streams and datagrams from the shell.
//!
//! ```text
//!   file or pipe ──▶ send ──stream──▶ overlay ──stream──▶ listen ──▶ file or pipe
//! ```
//! Both end with status 0 only if all data has arrived: the sender waits until the receiver has accepted the last byte
//! and closed.

mod messages;
mod progress;
mod silence;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::names::{Names, as_client, as_operator, client_socket};
use crate::quantity::{seconds, within};
use crate::stop::Stop;
use crate::terminal;
use clap::Args;
use client::{DatagramSocket, Node, Options, Stream, StreamControl, Target};
use progress::Progress;
use serde_json::json;
use silence::Silence;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::groups::is_group;

/// How long each hop tries to repair losses of datagrams to a group.
const GROUP_DEADLINE: Duration = Duration::from_millis(500);

/// The limits of `--give-up`: from what a busy host needs, to a day.
const GIVE_UP_LEAST: base::Duration = base::Duration::from_secs(1);
const GIVE_UP_MOST: base::Duration = base::Duration::from_secs(86_400);

/// Bytes read and written at once: the node accepts them with four reads.
const BUFFER_BYTES: usize = 256 * 1024;

/// Options of `sinew send`.
#[derive(Debug, Args)]
pub struct Send {
    /// The node, by name or overlay address, and the virtual port there; or a group and port, with
    /// --datagram
    #[arg(value_name = "NODE:PORT")]
    pub to: String,
    /// File to send; default: standard input
    pub file: Option<PathBuf>,
    /// Send datagrams, one for each line of input, without waiting for a receiver
    #[arg(long)]
    pub datagram: bool,
    /// Send messages, one for each line of input, over a stream that keeps their boundaries and order
    #[arg(long, conflicts_with = "datagram")]
    pub messages: bool,
    /// Give up messages that cannot arrive within this time after they were read, such as 150ms; other
    /// messages do not wait for them
    #[arg(long, value_name = "TIME", requires = "messages", value_parser = lifetime)]
    pub deadline: Option<Duration>,
    /// The control socket of the node to start from, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// How long the stream survives silence of the receiver, such as 5m; default: the node's setting
    /// (15m)
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub give_up: Option<Duration>,
    /// Congestion control of this end: cubic, as in kernels, or bbr, which tolerates random losses;
    /// default: the node's setting (cubic)
    #[arg(long, value_name = "CONTROL", value_parser = control)]
    pub control: Option<StreamControl>,
    /// Print JSON at the end, instead of the receiver's answers
    #[arg(long)]
    pub json: bool,
}

/// Options of `sinew listen`.
#[derive(Debug, Args)]
pub struct Listen {
    /// The virtual port; 0 for any free one
    pub port: u16,
    /// File to write to; default: standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Receive one stream after the other, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Receive datagrams and write each as a line, until Ctrl-C
    #[arg(long)]
    pub datagram: bool,
    /// Receive one stream of messages and write each as a line
    #[arg(long, conflicts_with_all = ["datagram", "keep"])]
    pub messages: bool,
    /// Receive datagrams to this group and the port; may be repeated
    #[arg(long, value_name = "GROUP", requires = "datagram")]
    pub group: Vec<base::NodeAddr>,
    /// The control socket of the node, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// How long a stream survives silence of the sender, such as 5m; default: the node's setting (15m)
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub give_up: Option<Duration>,
    /// Congestion control of this end: cubic, as in kernels, or bbr, which tolerates random losses;
    /// default: the node's setting (cubic)
    #[arg(long, value_name = "CONTROL", value_parser = control)]
    pub control: Option<StreamControl>,
    /// Print JSON for each stream when it ends; needs --out
    #[arg(long, requires = "out")]
    pub json: bool,
}

/// Reads the lifetime of a message: a millisecond to a minute.
fn lifetime(text: &str) -> Result<Duration, String> {
    let most = base::Duration::from_secs(60);
    let span = within(seconds(text)?, base::Duration::from_millis(1), most)?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Reads how long a stream survives without any answer.
pub fn patience(text: &str) -> Result<Duration, String> {
    let span = within(seconds(text)?, GIVE_UP_LEAST, GIVE_UP_MOST)?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Reads the congestion control of a stream.
pub fn control(text: &str) -> Result<StreamControl, String> {
    let known = StreamControl::ALL.into_iter().find(|c| c.label() == text);
    known.ok_or_else(|| format!("`{text}` is no control; use cubic or bbr"))
}

fn stream_options(give_up: Option<Duration>, control: Option<StreamControl>) -> Options {
    Options {
        give_up,
        control,
        // The first answer reports a refusal.
        early: true,
        ..Options::stream()
    }
}

/// Returns the node to start from, and the names that it knows.
pub fn node_at(path: Option<&Path>) -> Result<(Node, Names), Failure> {
    if let Some(node) = as_client(path)? {
        return Ok((node, Names::default()));
    }
    let status = Control::find(path)?.status()?;
    Ok((Node::at(client_socket(&status)?), Names::of(&status)))
}

/// Reads `NODE:PORT`: a node or a group, and a port.
pub fn target(word: &str, names: &Names) -> Result<Target, Failure> {
    let wrong = || {
        Failure::misused(format_args!(
            "`{word}` is not NODE:PORT, like fra:5000 or 10.7.0.3:5000"
        ))
    };
    let (node, port) = word.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if port == 0 {
        return Err(wrong());
    }
    let group = node.parse().ok().filter(|node| is_group(*node));
    match group {
        Some(group) => Ok(Target::new(group, port)),
        None => Ok(Target::new(names.address(node)?, port)),
    }
}

/// Runs `sinew send`.
pub fn send(args: &Send) -> Outcome {
    let (node, names) = node_at(args.node.as_deref())?;
    let to = target(&args.to, &names)?;
    let input: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).map_err(|error| {
            Failure::failed(format_args!("cannot read {}: {error}", path.display()))
        })?),
        None => Box::new(io::stdin()),
    };
    if args.datagram {
        return send_datagrams(args, &node, to, input);
    }
    if is_group(to.node) {
        return Err(Failure::misused(
            "streams go to one node: add --datagram for a group",
        ));
    }
    let silence = Silence::watch(to, &args.to, as_operator(args.node.as_deref()));
    if args.messages {
        return messages::send(args, &node, (to, &silence), input);
    }
    let stream = node.connect(to, stream_options(args.give_up, args.control))?;
    silence.on_open(stream.local());
    let mut progress = Progress::new(args.json, false, length(args.file.as_deref()));
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(|| take_answers(&stream, args.json));
        let sent = pour(input, &stream, &mut progress);
        let sent = sent.and_then(|()| stream.shutdown(Shutdown::Write).map_err(Broken::To));
        if let Err(Broken::From(_)) = &sent {
            // The receiver must not mistake a part for the whole.
            stream.reset();
        }
        let answers = answers
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
        match sent {
            // The end of the other direction has the node's error.
            Err(Broken::To(_)) if answers.is_err() => answers.map_err(Broken::To),
            Err(broken) => Err(broken),
            Ok(()) => answers.map_err(Broken::To),
        }
    });
    let seconds = progress.done();
    answers.map_err(|broken| match broken {
        Broken::From(error) => Failure::failed(format_args!("cannot read the input: {error}")),
        Broken::To(error) if error.kind() == ErrorKind::Other => {
            Failure::failed(format_args!("cannot write to standard output: {error}"))
        }
        Broken::To(error) => Failure::failed(format_args!(
            "{to}: {error}; {} bytes had been sent",
            progress.bytes
        )),
    })?;
    progress.tell("to", to, seconds, args.json)
}

/// Returns the length of a file; a device and a pipe have none.
fn length(path: Option<&Path>) -> Option<u64> {
    let metadata = path?.metadata().ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Writes the receiver's answers to standard output, until it has closed.
fn take_answers(stream: &Stream, quiet: bool) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut stream = stream;
    loop {
        let len = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if !quiet {
            let mut out = io::stdout().lock();
            out.write_all(&buffer[..len])
                .and_then(|()| out.flush())
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
    }
}

/// Sends each line as a datagram. A line that is longer than the network carries is an error.
fn send_datagrams(args: &Send, node: &Node, to: Target, input: Box<dyn Read>) -> Outcome {
    let options = match is_group(to.node) {
        true => Options::voice(GROUP_DEADLINE),
        false => Options::best_effort(),
    };
    let socket = node.bind(0, options)?;
    let mut progress = Progress::new(args.json, false, None);
    let mut input = io::BufReader::new(input);
    let mut line = Vec::new();
    let mut datagrams = 0u64;
    loop {
        line.clear();
        let most = socket.max_payload() as u64 + 2;
        let mut part = Read::take(&mut input, most);
        io::BufRead::read_until(&mut part, b'\n', &mut line)
            .map_err(|error| Failure::failed(format_args!("cannot read the input: {error}")))?;
        if line.is_empty() {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        socket.send_to(&line, to)?;
        datagrams += 1;
        progress.add(line.len());
    }
    let seconds = progress.done();
    if args.json {
        return terminal::json(&json!({
            "to": to.to_string(), "datagrams": datagrams, "bytes": progress.bytes,
            "seconds": seconds,
        }));
    }
    Ok(())
}

/// Runs `sinew listen`.
pub fn listen(args: &Listen) -> Outcome {
    let (node, _) = node_at(args.node.as_deref())?;
    let mut output: Box<dyn Write> = match &args.out {
        Some(path) => Box::new(File::create(path).map_err(|error| {
            Failure::failed(format_args!("cannot write {}: {error}", path.display()))
        })?),
        None => Box::new(io::stdout()),
    };
    let mut stop = Stop::new()?;
    if args.datagram {
        // A receiver of groups needs no port of its own.
        let port = if args.group.is_empty() { args.port } else { 0 };
        let socket = node.bind(port, Options::best_effort())?;
        for group in &args.group {
            socket.join(*group, args.port)?;
        }
        say_where(args, socket.local());
        return take_datagrams(&socket, &mut stop, &mut output);
    }
    let listener = node.listen(args.port, stream_options(args.give_up, args.control))?;
    say_where(args, listener.local());
    listener.set_nonblocking(true)?;
    if args.messages {
        return messages::listen(args, &listener, &mut stop, &mut output);
    }
    let mut cut = 0;
    loop {
        if !stop.wait_for(&listener)? {
            return match (args.keep, cut) {
                (true, 0) => Ok(()),
                (true, cut) => Err(Failure::failed(format_args!("{cut} streams were cut off"))),
                (false, _) => Err(Failure::failed("stopped before anything had come")),
            };
        }
        let stream = match listener.accept_bytes() {
            Ok(stream) => stream,
            Err(client::Error::WouldBlock) => continue,
            Err(error) => return Err(error.into()),
        };
        stream.set_nonblocking(true).map_err(Failure::failed)?;
        let from = stream.peer();
        let mut progress = Progress::new(args.json, args.out.is_none(), None);
        let taken = take_stream(&stream, &mut stop, &mut output, &mut progress);
        let seconds = progress.done();
        match taken {
            Ok(true) => progress.tell("from", from, seconds, args.json)?,
            Ok(false) => {
                stream.reset();
                return Err(Failure::failed(format_args!(
                    "{from}: stopped; {} bytes had come, and they are not all",
                    progress.bytes
                )));
            }
            Err(broken) => {
                stream.reset();
                let failure = broken.of_listening(from, progress.bytes);
                if !args.keep || matches!(broken, Broken::To(_)) {
                    return Err(failure);
                }
                failure.report();
                cut += 1;
            }
        }
        if !args.keep {
            return Ok(());
        }
    }
}

/// Prints the address where the command listens, for users and for scripts that request any port.
fn say_where(args: &Listen, local: Target) {
    if args.port == 0 || io::stderr().is_terminal() {
        // If standard error is closed, there is no place for this line.
        let _ = writeln!(io::stderr(), "listening at {local}");
    }
}

fn take_datagrams(
    socket: &DatagramSocket,
    stop: &mut Stop,
    output: &mut Box<dyn Write>,
) -> Outcome {
    socket.set_nonblocking(true)?;
    let mut buffer = vec![0; socket.max_payload().max(65_536)];
    while stop.wait_for(socket)? {
        let len = match socket.recv_from(&mut buffer) {
            Ok((len, ..)) => len,
            Err(client::Error::WouldBlock) => continue,
            Err(error) => return Err(error.into()),
        };
        let written = output
            .write_all(&buffer[..len])
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush());
        written.map_err(unwritten)?;
    }
    Ok(())
}

/// Writes a stream to `output`. Returns false if the user interrupted it.
fn take_stream(
    stream: &Stream,
    stop: &mut Stop,
    output: &mut Box<dyn Write>,
    progress: &mut Progress,
) -> Result<bool, Broken> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut stream = stream;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => {
                output.flush().map_err(Broken::To)?;
                return Ok(true);
            }
            Ok(len) => {
                output.write_all(&buffer[..len]).map_err(Broken::To)?;
                progress.add(len);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                output.flush().map_err(Broken::To)?;
                if !stop.wait_for(stream).map_err(|_| Broken::To(error))? {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::From(error)),
        }
    }
}

/// The side of a copy that has failed.
#[derive(Debug)]
enum Broken {
    From(io::Error),
    To(io::Error),
}

impl Broken {
    fn of_listening(&self, from: Target, bytes: u64) -> Failure {
        match self {
            Broken::From(error) => Failure::failed(format_args!(
                "{from}: {error}; {bytes} bytes had come, and they are not all"
            )),
            Broken::To(error) => unwritten(io::Error::new(error.kind(), error.to_string())),
        }
    }
}

fn unwritten(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::failed(format_args!("cannot write the output: {error}")),
    }
}

fn pour(mut from: impl Read, mut to: &Stream, progress: &mut Progress) -> Result<(), Broken> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::From(error)),
        };
        to.write_all(&buffer[..len]).map_err(Broken::To)?;
        progress.add(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_node_and_a_port() {
        let names = Names::of(&json!({"snapshot": {"name": "ams", "address": "10.7.0.1"}}));
        for good in ["ams:5000", "10.7.0.1:5000"] {
            assert_eq!(target(good, &names).unwrap().to_string(), "10.7.0.1:5000");
        }
        for bad in ["ams", "ams:", "ams:0", "ams:65536", ":5000", "fra:5000"] {
            assert!(
                matches!(target(bad, &names), Err(Failure::Misused(_))),
                "{bad}"
            );
        }
    }
}
