//! Callees that never answer, and answers that lack what ends a transaction.

use super::*;
use voice::media::Expired;

/// Returns an answer without a tag of To, as some callees send it, and as the stack makes it for a silent callee.
fn untagged(request: &Message, status: &str) -> String {
    let names = ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"];
    let lines = names.into_iter().flat_map(|name| request.lines(name));
    let head: Vec<String> = lines.collect();
    format!(
        "SIP/2.0 {status}\r\n{}\r\nContent-Length: 0\r\n\r\n",
        head.join("\r\n")
    )
}

/// Bob calls Alice at her site. Returns the INVITE as she received it.
fn ring(w: &mut World) -> Message {
    let invite = w.bob.invite("anybody@a.example", &[], "");
    w.bob.send(w.a.at(), &invite);
    w.alice.until("INVITE")
}

/// Without a tag, the stack answered every ACK with the refusal again, for ever.
#[test]
fn a_final_answer_has_a_tag_even_if_the_callee_gave_none() {
    let mut w = World::new("untagged");
    for (status, expected) in [("486 Busy Here", 486), ("200 OK", 502)] {
        let at_alice = ring(&mut w);
        w.alice.send(at_alice.from, &untagged(&at_alice, status));
        let answer = w.bob.until(&format!("SIP/2.0 {expected}"));
        assert!(answer.one("To").contains(";tag="), "{}", answer.text);
        assert_eq!(w.a.ended().end, Some(End::Refused(expected)));
    }
    // The same holds for other requests.
    let options = w.bob.invite("anybody@a.example", &[], "");
    w.bob.send(w.a.at(), &options.replace("INVITE", "OPTIONS"));
    let at_alice = w.alice.until("OPTIONS");
    w.alice
        .send(at_alice.from, &untagged(&at_alice, "404 Not Found"));
    let answer = w.bob.until("SIP/2.0 404");
    assert!(answer.one("To").contains(";tag="), "{}", answer.text);
}

#[test]
fn a_call_that_nobody_answers_is_cancelled() {
    let mut w = World::with("unanswered", |settings| {
        settings.answer_within = Duration::from_millis(500);
    });
    // The stack has no limit for a callee that has sent only this.
    let at_alice = ring(&mut w);
    w.alice.respond(&at_alice, "100 Trying", "");
    let answer = w.bob.until("SIP/2.0 408");
    assert!(answer.one("To").contains(";tag="), "{}", answer.text);
    w.alice.until("CANCEL");
    let end = End::Expired(Expired::NoAnswer);
    assert_eq!(w.a.ended().end, Some(end));
    assert!(w.a.gateway.calls().is_empty());
    // An answer that comes too late is taken back.
    w.alice.respond(&at_alice, "200 OK", &w.alice.sdp(""));
    w.alice.until("ACK");
    let bye = w.alice.until("BYE");
    assert!(bye.one("Reason").contains("cause=408"), "{}", bye.text);
}

#[test]
fn a_request_whose_to_cannot_be_read_is_refused_at_once() {
    let mut w = World::new("bad-to");
    let invite = w.alice.invite("bob@b.example", &[], "");
    let answer = w.refused(&invite.replace("To: <sip:bob@b.example>", "To: <sip:bob"));
    assert!(answer.text.starts_with("SIP/2.0 400"), "{}", answer.text);
    assert!(w.a.gateway.calls().is_empty());
}

/// The caller would end the call at a 408, and the callee at a BYE.
#[test]
fn a_new_offer_that_nobody_answers_leaves_the_call_as_it_is() {
    let mut w = World::with("no-answer-within", |settings| {
        settings.answer_within = Duration::from_millis(500);
    });
    let mut call = w.call();
    call.caller.send(&w.alice, "INVITE", &w.alice.sdp(""));
    let offer = w.bob.until("INVITE");
    w.bob.respond(&offer, "100 Trying", "");
    w.alice.until("SIP/2.0 504");
    // An answer that comes too late is acknowledged, and no more.
    w.bob.respond(&offer, "200 OK", &w.bob.sdp(""));
    w.bob.until("ACK");
    assert_eq!(w.a.gateway.calls().len(), 1);
    w.hang_up(&mut call);
}

/// The stack would ask a name server for the host of the INVITE, and handle no other message meanwhile.
#[test]
fn a_repeated_refusal_is_acknowledged_to_where_it_came_from() {
    let mut w = World::new("repeated");
    let invite = w.invite(&w.alice.sdp(""));
    assert!(invite.text.contains("INVITE sip:bob@b.example "));
    w.bob.respond(&invite, "603 Decline", "");
    let first = w.bob.until("ACK");
    w.bob.respond(&invite, "603 Decline", "");
    let mut bytes = [0; 4_000];
    let (len, from) = w.bob.sip.recv_from(&mut bytes).unwrap();
    assert_eq!(std::str::from_utf8(&bytes[..len]).unwrap(), first.text);
    assert_eq!(from, w.b.at());
}
