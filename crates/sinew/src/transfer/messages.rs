//! Streams of messages from the shell: each line is a message.

use super::progress::Progress;
use super::silence::Silence;
use super::{Broken, Listen, Send, stream_options};
use crate::failure::{Failure, Outcome};
use crate::stop::Stop;
use crate::terminal;
use client::{Accepted, Error, Listener, MessageStream, Node, Options, Target};
use serde_json::json;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use wire::ipc::PAYLOAD_BYTES_MAX;

/// Sends each line as a message. Waits until the receiver has accepted all messages and closed.
pub(super) fn send(
    args: &Send,
    node: &Node,
    (to, silence): (Target, &Silence),
    input: Box<dyn Read>,
) -> Outcome {
    let options = Options {
        deadline: args.deadline,
        ..stream_options(args.give_up, args.control)
    };
    let stream = node.connect_messages(to, options)?;
    silence.on_open(stream.local());
    let mut progress = Progress::new(args.json, false, None);
    let sent = pour(input, &stream, &mut progress);
    if let Err(Broken::From(_)) = &sent {
        stream.reset();
    }
    let answered = sent.and_then(|messages| {
        stream.shutdown_write().map_err(Broken::To)?;
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX];
        while stream.recv(&mut buffer).map_err(Broken::To)? > 0 {}
        Ok(messages)
    });
    let seconds = progress.done();
    let messages = answered.map_err(|broken| match broken {
        Broken::From(error) => Failure::failed(format_args!("cannot read the input: {error}")),
        Broken::To(error) => Failure::failed(format_args!("{to}: {error}")),
    })?;
    let given_up = stream.expired().map_err(Failure::failed)?.given_up;
    if args.json {
        return terminal::json(&json!({
            "to": to.to_string(), "messages": messages, "given_up": given_up,
            "bytes": progress.bytes, "seconds": seconds,
        }));
    }
    tell("given up", given_up, messages);
    Ok(())
}

fn pour(input: impl Read, to: &MessageStream, progress: &mut Progress) -> Result<u64, Broken> {
    let mut input = io::BufReader::new(input);
    let (mut line, mut messages) = (Vec::new(), 0);
    loop {
        line.clear();
        let mut part = Read::take(&mut input, PAYLOAD_BYTES_MAX as u64 + 2);
        part.read_until(b'\n', &mut line).map_err(Broken::From)?;
        match line.last() {
            None => return Ok(messages),
            Some(b'\n') => drop(line.pop()),
            Some(_) => {}
        }
        // A message has at least one byte: an empty line is no message.
        if !line.is_empty() {
            to.send(&line).map_err(Broken::To)?;
            messages += 1;
            progress.add(line.len());
        }
    }
}

/// Writes the messages of one stream, each as a line.
pub(super) fn listen(
    args: &Listen,
    listener: &Listener,
    stop: &mut Stop,
    output: &mut Box<dyn Write>,
) -> Outcome {
    let stream = loop {
        if !stop.wait_for(listener)? {
            return Err(Failure::failed("stopped before anything had come"));
        }
        match listener.accept() {
            Ok(Accepted::Messages(stream)) => break stream,
            Ok(other) => other.reset(),
            Err(Error::WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let (from, mut progress) = (
        stream.peer(),
        Progress::new(args.json, args.out.is_none(), None),
    );
    stream.set_nonblocking(true).map_err(Failure::failed)?;
    let taken = take(&stream, stop, output, &mut progress);
    let seconds = progress.done();
    let messages = match taken {
        Ok(Some(messages)) => messages,
        Ok(None) => {
            stream.reset();
            return Err(Failure::failed(format_args!(
                "{from}: stopped before the end"
            )));
        }
        Err(broken) => {
            stream.reset();
            return Err(broken.of_listening(from, progress.bytes));
        }
    };
    let missed = stream.expired().map_err(Failure::failed)?.missed;
    if args.json {
        return terminal::json(&json!({
            "from": from.to_string(), "messages": messages, "missed": missed,
            "bytes": progress.bytes, "seconds": seconds,
        }));
    }
    tell("missed", missed, messages + missed);
    Ok(())
}

/// Returns the number of received messages; `None` if the user interrupted the command.
fn take(
    stream: &MessageStream,
    stop: &mut Stop,
    output: &mut Box<dyn Write>,
    progress: &mut Progress,
) -> Result<Option<u64>, Broken> {
    let (mut buffer, mut messages) = (vec![0; PAYLOAD_BYTES_MAX + 1], 0);
    loop {
        match stream.recv(&mut buffer[..PAYLOAD_BYTES_MAX]) {
            Ok(0) => {
                output.flush().map_err(Broken::To)?;
                return Ok(Some(messages));
            }
            Ok(len) => {
                buffer[len] = b'\n';
                output.write_all(&buffer[..=len]).map_err(Broken::To)?;
                messages += 1;
                progress.add(len);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                output.flush().map_err(Broken::To)?;
                if !stop.wait_for(stream).map_err(|_| Broken::To(error))? {
                    return Ok(None);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::From(error)),
        }
    }
}

/// Prints a number of messages, if it is not zero.
fn tell(what: &str, count: u64, of: u64) {
    if count > 0 {
        // If standard error is closed, there is no place for this line.
        let _ = writeln!(io::stderr(), "{count} of {of} messages {what}");
    }
}
