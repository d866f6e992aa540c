//! The socket for questions to a running gateway: a Unix socket next to that of its node. A
//! question and an answer are one line each, as at the node's own socket.

use super::exchange::Far;
use super::record;
use crate::failure::Failure;
use client::Options;
use gateway::sip::Gateway;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The ending of the socket's name: `net/ams.sip` next to `net/ams.ctl`.
pub const SUFFIX: &str = "sip";
/// How long a client may take to send its question.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question.
const MAX_QUESTION_BYTES: u64 = 4_096;

/// The socket, until this value is dropped.
pub struct Station {
    listener: UnixListener,
    path: PathBuf,
    gateway: Arc<Gateway>,
    far: Far,
    options: Options,
}

impl Station {
    /// Opens the socket. The function replaces a file that a killed gateway has left.
    pub fn open(
        path: &Path,
        (gateway, far): (Arc<Gateway>, Far),
        options: Options,
    ) -> Result<Station, Failure> {
        let fail = |error: io::Error| Failure::failed(format_args!("{}: {error}", path.display()));
        if UnixStream::connect(path).is_ok() {
            return Err(Failure::failed(format_args!(
                "{}: another gateway of this node runs",
                path.display()
            )));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(fail)?;
        let only_owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, only_owner).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        Ok(Station {
            listener,
            path: path.to_owned(),
            gateway,
            far,
            options,
        })
    }

    /// Answers the next client.
    pub fn serve_next(&self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        let (gateway, far, options) = (self.gateway.clone(), self.far.clone(), self.options);
        let serve = move || {
            // If the client has gone, it needs no answer.
            let _ = serve(&stream, (&gateway, &far), options);
        };
        let thread = std::thread::Builder::new().name("station".into());
        // If there is no thread, the client gets no answer. Calls continue.
        let _ = thread.spawn(serve);
    }
}

impl AsFd for Station {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(
    stream: &UnixStream,
    (gateway, far): (&Gateway, &Far),
    options: Options,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(stream.take(MAX_QUESTION_BYTES)).read_line(&mut question)?;
    let answer = answer(&question, (gateway, far), options);
    let mut stream = stream;
    writeln!(stream, "{answer}")
}

fn answer(question: &str, (gateway, far): (&Gateway, &Far), options: Options) -> Value {
    let question: Value = serde_json::from_str(question).unwrap_or_default();
    match question["cmd"].as_str() {
        Some("calls") => json!({
            "ok": true,
            "node": gateway.node().to_string(),
            "at": gateway.local().to_string(),
            "deadline_ms": options.deadline.map(|deadline| deadline.as_millis() as u64),
            "routing": options.routing.label(),
            "target": options.aim.target(),
            "repair": options.aim.most(),
            "calls": gateway.calls().iter().map(|call| record::json(call, far)).collect::<Vec<_>>(),
            "counters": record::counters(gateway),
        }),
        _ => json!({"ok": false, "error": "asked for nothing that a gateway knows: calls"}),
    }
}
