//! Verdicts from the rows on each claim.

use super::{
    AFTER_S, CONNECTIONS, DETOUR, ERRORS, LOCAL, LOCAL_LINKS, REACT, SAVED, SHARE, SMALL, STRIPES,
    TRANSFERS, USERS, value,
};
use crate::experiment::{Rows, Verdict};

pub(super) fn judge(rows: &Rows) -> Vec<Verdict> {
    vec![
        small_portion(rows),
        away(rows),
        local_recovery(rows),
        wireless(rows),
        feedback(rows),
        local_rate(rows),
        Verdict::untested(
            "caching",
            "nothing is cached: a relay of one transfer has nobody else to serve from its buffer",
        ),
        better(rows),
        fairness(rows),
        users_of_congested(rows),
        parallel(rows),
        Verdict::untested(
            "stability",
            "of the network as a whole the paper names no measure, and a chain of a few flows would not show it",
        ),
    ]
}

fn both(rows: &Rows, part: f64, size: f64, key: &str) -> (f64, f64) {
    let of = |relayed| value(rows, part, size, relayed, key);
    (of(0.0), of(1.0))
}

fn small_portion(rows: &Rows) -> Verdict {
    let alone = value(rows, SHARE, 0.0, 0.0, "ordinary_kbps");
    let lost = |size: u32| {
        let of = |relayed| value(rows, SHARE, f64::from(size), relayed, "ordinary_kbps");
        (1.0 - of(1.0) / alone, 1.0 - of(0.0) / alone)
    };
    let said = TRANSFERS.map(|size| {
        let (relayed, end_to_end) = lost(size);
        format!(
            "{size} relayed transfers {:.1} % (end to end {:.1} %)",
            100.0 * relayed,
            100.0 * end_to_end
        )
    });
    let holds = lost(TRANSFERS[0]).0 <= SMALL;
    Verdict::of("small-portion", holds, format!("ordinary flows lose: {}", said.join(", ")))
        .note("a relayed transfer takes a flow's share on every link; end to end it takes far less than that")
}

fn away(rows: &Rows) -> Verdict {
    let size = f64::from(USERS);
    let (balance, loss) = (
        both(rows, DETOUR, size, "balance"),
        both(rows, DETOUR, size, "loss"),
    );
    let said = format!(
        "load of the mean link over that of the most loaded {:.2}, relayed {:.2}; loss of the congested link {:.1} %, relayed {:.1} %",
        balance.0,
        balance.1,
        100.0 * loss.0,
        100.0 * loss.1
    );
    Verdict::of("away", balance.1 > balance.0 && loss.1 < loss.0, said)
}

fn local_recovery(rows: &Rows) -> Verdict {
    let mut holds = true;
    let said = ERRORS.map(|errors| {
        let (direct, relayed) = both(rows, LOCAL, errors, "packets_per_segment");
        holds &= relayed < direct;
        format!(
            "{} % errors {direct:.4}, relayed {relayed:.4}",
            100.0 * errors
        )
    });
    let said = format!(
        "packets on a link of {LOCAL_LINKS} for a delivered segment: {}",
        said.join("; ")
    );
    Verdict::of("local-recovery", holds, said)
}

fn wireless(rows: &Rows) -> Verdict {
    let (direct, relayed) = both(rows, LOCAL, ERRORS[ERRORS.len() - 1], "packets_per_segment");
    let saved = 1.0 - relayed / direct;
    let said = format!(
        "{:.1} % of all packets are saved with 10 % errors on the last link",
        100.0 * saved
    );
    Verdict::of("wireless", saved >= SAVED, said)
}

fn feedback(rows: &Rows) -> Verdict {
    let trip = both(rows, REACT, 1.0, "round_trip_ms");
    let taken = both(rows, REACT, 1.0, "taken_s");
    let said = format!(
        "feedback after {:.0} ms, relayed {:.0} ms; what a stream leaves is taken after {:.1} s, relayed {:.1} s",
        trip.0, trip.1, taken.0, taken.1
    );
    Verdict::of("feedback", trip.1 < trip.0 && taken.1 < taken.0, said)
}

fn local_rate(rows: &Rows) -> Verdict {
    let used = both(rows, REACT, 1.0, "used");
    let said = format!(
        "of the capacity {:.1} % is used in the {AFTER_S} s after the stream, relayed {:.1} %",
        100.0 * used.0,
        100.0 * used.1
    );
    Verdict::of("local-rate", used.1 > used.0, said)
}

fn better(rows: &Rows) -> Verdict {
    let mut holds = true;
    let said = TRANSFERS.map(|size| {
        let (regular, relayed) = both(rows, SHARE, f64::from(size), "transfer_kbps");
        holds &= relayed > regular;
        format!("{size} transfers {regular:.0}, relayed {relayed:.0}")
    });
    Verdict::of("better", holds, format!("kbit/s each: {}", said.join("; ")))
}

fn fairness(rows: &Rows) -> Verdict {
    let mut holds = true;
    let said = TRANSFERS.map(|size| {
        let (regular, relayed) = both(rows, SHARE, f64::from(size), "jain");
        holds &= relayed > regular;
        format!("{size} transfers {regular:.3}, relayed {relayed:.3}")
    });
    Verdict::of(
        "fairness",
        holds,
        format!("Jain's index over all flows: {}", said.join("; ")),
    )
    .note("the paper argues from wireless networks; here on wires")
    .because("with one transfer among eighty flows the index is that of the eighty")
}

fn users_of_congested(rows: &Rows) -> Verdict {
    let (beside, without) = both(rows, DETOUR, f64::from(USERS), "ordinary_kbps");
    let users = both(rows, DETOUR, f64::from(USERS), "transfer_kbps");
    let said = format!(
        "ordinary flows {beside:.0} kbit/s with {USERS} users beside them, {without:.0} when those go around; the users {:.0} and {:.0}",
        users.0, users.1
    );
    Verdict::of("users-of-congested", without > beside, said)
}

fn parallel(rows: &Rows) -> Verdict {
    let ratio = |count: u32| {
        let of = |key| value(rows, STRIPES, f64::from(count), 0.0, key);
        (
            of("transfer_kbps") / of("ordinary_kbps"),
            of("ordinary_kbps"),
        )
    };
    let said = CONNECTIONS.map(|count| {
        let (times, left) = ratio(count);
        format!("{count} connections {times:.1} times an ordinary flow, which has {left:.0} kbit/s")
    });
    let holds = ratio(CONNECTIONS[2]).0 > 2.0;
    Verdict::of("parallel", holds, said.join("; "))
}
