//! The metrics of the relay service. No label names a transfer, because the number of transfers is unbounded.

use super::page::Page;
use crate::relay::failure::FailureKind;
use crate::relay::ledger::TurnedAway;
use crate::status::BulkStatus;
use std::collections::BTreeMap;

pub(super) fn bulk(page: &mut Page, bulk: &BulkStatus) {
    page.gauge(
        "sinew_bulk_transfers",
        "Bulk transfers under way.",
        bulk.active,
    );
    page.gauge(
        "sinew_bulk_transfers_limit",
        "As many may be under way at the same time.",
        bulk.limit,
    );
    page.counter(
        "sinew_bulk_transfers_done_total",
        "Bulk transfers that have ended as they should.",
        bulk.done,
    );
    let kinds = || FailureKind::ALL.into_iter().chain([FailureKind::Other(0)]);
    each(
        page,
        "sinew_bulk_transfers_failed_total",
        "Bulk transfers that have failed, by kind of failure.",
        kinds().map(FailureKind::label),
        &bulk.failed,
    );
    each(
        page,
        "sinew_bulk_transfers_refused_total",
        "Bulk transfers that were refused before they began, by reason.",
        kinds().map(FailureKind::label),
        &bulk.refused,
    );
    page.gauge(
        "sinew_bulk_greeting_connections",
        "TCP connections that have not said yet what they want.",
        bulk.greeting,
    );
    each(
        page,
        "sinew_bulk_connections_turned_away_total",
        "Connections closed before they were of use, by reason.",
        TurnedAway::ALL.into_iter().map(TurnedAway::label),
        &bulk.turned_away,
    );
    page.family(
        "sinew_bulk_bytes_total",
        "counter",
        "Bytes of bulk data: passed on by relays, taken in by sinks, given by sources.",
    );
    page.sample(&[("role", &"relay")], bulk.passed_bytes);
    page.sample(&[("role", &"sink")], bulk.taken_bytes);
    page.sample(&[("role", &"source")], bulk.given_bytes);
}

/// Adds a counter with all its reasons, including those that are zero, so that the first event of a kind is seen as
/// growth.
fn each(
    page: &mut Page,
    name: &str,
    help: &str,
    reasons: impl Iterator<Item = &'static str>,
    counts: &BTreeMap<&'static str, u64>,
) {
    page.family(name, "counter", help);
    for reason in reasons {
        let count = counts.get(reason).copied().unwrap_or(0);
        page.sample(&[("reason", &reason)], count);
    }
}
