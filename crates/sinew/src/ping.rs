//! `sinew ping`: measures round trip and loss to a node.

use crate::echo::{Answer, Heard, Path, Rtts, Way, interval, loss_pct};
use crate::failure::{Failure, Outcome};
use crate::terminal;
use base::Duration;
use clap::Args;
use serde_json::{Value, json};
use wire::ipc::Options;

/// Arguments of `sinew ping`.
#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    pub(crate) way: Way,
    /// Number of requests
    #[arg(long, short = 'c', default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
    /// Time between requests; a bare number is in seconds
    #[arg(long, short = 'i', value_name = "TIME", default_value = "200ms", value_parser = interval)]
    pub interval: Duration,
    /// Size of a request in bytes
    #[arg(long, short = 's', default_value_t = 56,
          value_parser = clap::value_parser!(u16).range(14..=1_392))]
    pub size: u16,
}

/// Runs the command.
pub fn run(args: &Ping) -> Outcome {
    let path = Path::find(&args.way)?;
    let mut prober = path.prober(Options::TTL_DEFAULT, args.way.timeout)?;
    let mut replies = Replies {
        args,
        path: &path,
        rtts: Rtts::default(),
        seen: Vec::new(),
        sent: 0,
    };
    replies.say(&format!(
        "asking {} {} times",
        path.names.both(&path.to.to_string()),
        args.count
    ))?;
    let start = prober.now();
    'asking: for seq in 0..args.count {
        prober.ask(seq, args.size.into())?;
        replies.sent += 1;
        let last = seq + 1 == args.count;
        let next = start + args.interval * (u64::from(seq) + 1);
        let end = if last {
            prober.now() + args.way.timeout
        } else {
            next
        };
        while !(last && replies.complete()) {
            match prober.wait(end)? {
                Heard::Answer(answer) => replies.take(answer)?,
                Heard::Nothing => break,
                Heard::Interrupted => break 'asking,
            }
        }
    }
    replies.finish()
}

struct Replies<'a> {
    args: &'a Ping,
    path: &'a Path,
    rtts: Rtts,
    seen: Vec<(u16, Value)>,
    sent: u16,
}

impl Replies<'_> {
    fn complete(&self) -> bool {
        self.rtts.len() >= usize::from(self.sent)
    }

    fn say(&self, line: &str) -> Outcome {
        if self.args.way.json {
            Ok(())
        } else {
            terminal::line(line)
        }
    }

    fn take(&mut self, answer: Answer) -> Outcome {
        let Answer {
            seq,
            node,
            arrived,
            hops,
            rtt_ms,
        } = answer;
        let node = node.to_string();
        if !arrived {
            return self.say(&format!(
                "{seq}: went in circles until {}",
                self.path.names.both(&node)
            ));
        }
        if self.seen.iter().any(|(before, _)| *before == seq) {
            return self.say(&format!("{seq}: duplicate reply after {rtt_ms:.2} ms"));
        }
        self.rtts.add(rtt_ms);
        self.seen
            .push((seq, json!({"seq": seq, "rtt_ms": rtt_ms, "hops": hops})));
        let plural = if hops == 1 { "hop" } else { "hops" };
        self.say(&format!(
            "{seq}: reply from {}: {rtt_ms:.2} ms, {hops} {plural}",
            self.path.names.name(&node)
        ))
    }

    fn finish(self) -> Outcome {
        let (sent, received) = (usize::from(self.sent), self.rtts.len());
        let loss = loss_pct(sent, received);
        let to = self.path.to.to_string();
        if self.args.way.json {
            let replies: Vec<&Value> = self.seen.iter().map(|(_, reply)| reply).collect();
            terminal::json(&json!({
                "to": to, "name": self.path.names.name(&to), "sent": sent, "received": received,
                "loss_pct": loss, "rtt_ms": self.rtts.json(), "replies": replies,
            }))?;
        } else {
            let mut line = format!("{sent} sent, {received} received, {loss:.1} % lost");
            let quantiles = [0.0, 0.5, 0.95, 1.0].map(|share| self.rtts.quantile(share));
            if let [Some(min), Some(median), Some(p95), Some(max)] = quantiles {
                line += &format!(
                    "\nround trip min/median/p95/max {min:.2}/{median:.2}/{p95:.2}/{max:.2} ms"
                );
            }
            terminal::line(&line)?;
        }
        if received == 0 {
            return Err(Failure::failed(format_args!(
                "{to} does not answer: see `sinew routes` for a path, and `sinew trace {to}`"
            )));
        }
        Ok(())
    }
}
