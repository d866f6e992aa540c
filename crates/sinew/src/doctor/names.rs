//! Checks name resolution: the resolver of the system, and the names in the node's configuration.

use super::Finding;
use crate::config::Config;
use net::resolver::{self, Answer};
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The name that the check looks up. Choice: a root server is known wherever names of the Internet are, and most
/// resolvers have it in their cache.
const NAME: &str = "a.root-servers.net.";
/// How long an answer may take. Choice: a resolver repeats its question after 5 s if a server does not answer. By then
/// a node would try its next endpoint.
const PATIENCE: Duration = Duration::from_secs(4);

/// A question whose answer may still come.
pub(super) struct Asked(Receiver<Answer>);

/// Asks the resolver in a thread, while other checks run.
pub(super) fn ask() -> Asked {
    let (told, answer) = channel();
    // If the thread hangs, it ends with the process.
    thread::spawn(move || told.send(resolver::ask(NAME)));
    Asked(answer)
}

impl Asked {
    /// Waits for the answer and rates it.
    pub(super) fn look(self) -> Finding {
        judge(self.0.recv_timeout(PATIENCE).ok())
    }
}

fn judge(answer: Option<Answer>) -> Finding {
    let what = "DNS";
    let next = "see /etc/resolv.conf and whether UDP and TCP port 53 get through; until then write addresses in place \
                of names";
    match answer {
        Some(Answer::Known) => Finding::good(what, "names of the Internet are found"),
        Some(Answer::Unknown) => Finding::good(
            what,
            "a name server answers, and knows no names of the Internet",
        ),
        Some(Answer::Nobody(why)) => {
            Finding::weak(what, format!("no name server answers: {why}"), next)
        }
        None => Finding::weak(
            what,
            format!(
                "no name server has answered within {} s",
                PATIENCE.as_secs()
            ),
            next,
        ),
    }
}

/// Lists names of the configuration that no name server knows.
pub(super) fn configured(config: &Config) -> Vec<Finding> {
    let endpoints = config
        .neighbors
        .iter()
        .flat_map(|neighbor| &neighbor.endpoints);
    let renewal = config.renewal.iter().flat_map(|renewal| &renewal.from);
    let mut unknown = Vec::new();
    let mut count = 0;
    for endpoint in endpoints.chain(renewal) {
        count += 1;
        if let Err(error) = endpoint.to_socket_addrs() {
            unknown.push(format!("{endpoint}: {error}"));
        }
    }
    match (unknown.is_empty(), count) {
        (true, 0) => vec![],
        (true, _) => vec![Finding::good(
            "names",
            format!("{count} endpoints are known"),
        )],
        (false, _) => unknown
            .into_iter()
            .map(|why| {
                Finding::bad(
                    "names",
                    why,
                    "see /etc/resolv.conf, or write its address instead",
                )
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn any_answer_is_one_and_silence_is_none() {
        for answer in [Answer::Known, Answer::Unknown] {
            assert_eq!(judge(Some(answer)).state, State::Good);
        }
        let nobody = Answer::Nobody("Temporary failure in name resolution".into());
        for answer in [Some(nobody), None] {
            let found = judge(answer);
            assert_eq!(found.state, State::Weak);
            assert!(found.next.contains("/etc/resolv.conf"), "{found:?}");
        }
    }
}
