//! Where a running gateway can be asked: a Unix socket beside its node's, a question and an answer
//! of a line each, as at the node's own.

use super::exchange::Far;
use super::record;
use crate::failure::Failure;
use gateway::sip::Gateway;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name of the socket ends so: `net/ams.sip` beside `net/ams.ctl`.
pub const SUFFIX: &str = "sip";
/// How long who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question.
const MAX_QUESTION_BYTES: u64 = 4_096;

/// The socket, until it is dropped.
pub struct Station {
    listener: UnixListener,
    path: PathBuf,
    gateway: Arc<Gateway>,
    far: Far,
    deadline: base::Duration,
}

impl Station {
    /// Opens it. A file that a gateway left which was killed is taken over.
    pub fn open(
        path: &Path,
        (gateway, far): (Arc<Gateway>, Far),
        deadline: base::Duration,
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
            deadline,
        })
    }

    /// Answers who came.
    pub fn serve_next(&self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        let (gateway, far, deadline) = (self.gateway.clone(), self.far.clone(), self.deadline);
        let serve = move || {
            // Who goes away does not want an answer.
            let _ = serve(&stream, (&gateway, &far), deadline);
        };
        let thread = std::thread::Builder::new().name("station".into());
        // Without a thread nobody is answered; calls go on.
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
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(
    stream: &UnixStream,
    (gateway, far): (&Gateway, &Far),
    deadline: base::Duration,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(stream.take(MAX_QUESTION_BYTES)).read_line(&mut question)?;
    let answer = answer(&question, (gateway, far), deadline);
    let mut stream = stream;
    writeln!(stream, "{answer}")
}

fn answer(question: &str, (gateway, far): (&Gateway, &Far), deadline: base::Duration) -> Value {
    let question: Value = serde_json::from_str(question).unwrap_or_default();
    match question["cmd"].as_str() {
        Some("calls") => json!({
            "ok": true,
            "node": gateway.node().to_string(),
            "at": gateway.local().to_string(),
            "deadline_ms": deadline.as_millis(),
            "calls": gateway.calls().iter().map(|call| record::json(call, far)).collect::<Vec<_>>(),
            "counters": record::counters(gateway),
        }),
        _ => json!({"ok": false, "error": "asked for nothing that a gateway knows: calls"}),
    }
}
