"""Functions in a simulation: traffic, losses and measures of one's own, and what goes wrong in them."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys

import pytest

import sinew


def poisson(rate: float, size: int = 160):
    def packets(source: random.Random):
        at_s = 0.0
        while True:
            at_s += source.expovariate(rate)
            yield at_s, size

    return packets


def gilbert(enter: float, leave: float):
    def model(source: random.Random):
        is_bad = False

        def is_lost(at_s: float, size: int) -> bool:
            nonlocal is_bad
            is_bad = source.random() < (1 - leave if is_bad else enter)
            return is_bad

        return is_lost

    return model


def test_traffic_of_ones_own_is_sent_and_repeats_by_its_seed(pair):
    scenario = pair.build()
    runs = [scenario.run(seed, traffic={"a-b": poisson(40)}, packets=True) for seed in (7, 7, 8)]
    assert runs[0].json == runs[1].json != runs[2].json
    sent = [packet["sent_s"] for packet in runs[0].packets]
    # 200 in the mean, with a standard deviation of 14.
    assert 130 < len(sent) == runs[0].flows[0]["sent"] < 270 and sent == sorted(sent)
    few = scenario.run(7, traffic={"a-b": lambda _: [1.0, (1.5, 1000)]}, packets=True)
    assert [packet["sent_s"] for packet in few.packets] == [1.0, 1.5]


def test_each_stream_of_a_flow_has_packets_of_its_own():
    calls = sinew.Builder("calls", duration="2s").node("a", "b").link("a", "b", delay_ms=5)
    calls = calls.flow("a", "b", count=3).build()
    packets = calls.run(7, traffic={"a-b": poisson(20)}, packets=True).packets
    first = {
        stream: [p["sent_s"] for p in packets if p["stream"] == stream][0] for stream in range(3)
    }
    assert len(set(first.values())) == 3


def test_losses_of_ones_own_replace_those_of_the_path():
    direct = sinew.Builder("pair", duration="20s", profile="paper").node("a", "b")
    direct = direct.link("a", "b", delay_ms=60, loss_pct=50)
    direct = direct.flow("a", "b", deadline="100ms").build()
    lost = direct.run(
        7, losses={("a", "b"): gilbert(0.05, 0.5), ("b", "a"): lambda _: lambda *_: False}
    )
    # The stationary rate is 0.05 / 0.55; 60 ms are too far for a request.
    assert 5 < lost.flows[0]["lost_pct"] + lost.flows[0]["late_pct"] < 14
    seen = []

    def watch(_: random.Random):
        return lambda at_s, size: bool(seen.append((at_s, size)))

    direct.run(7, losses={("a", "b"): watch})
    times = [at_s for at_s, _ in seen]
    assert times[0] < 0 < times[-1] and times == sorted(times) and all(size > 0 for _, size in seen)


def test_measures_of_ones_own_become_a_table(pair):
    def measure(moment: sinew.Moment) -> dict[str, float]:
        assert moment.link("a", "b")["state"] == "up"
        return {"received": moment.flows["a-b"]["received"]}

    result = pair.build().run(7, measure=measure, every_s=0.5)
    assert [row["at_s"] for row in result.measures] == [0.5 * n for n in range(1, 11)]
    received = [row["received"] for row in result.rows("measures")]
    assert received == sorted(received) and received[-1] > 200
    values = pair.build().run(7, measure=lambda moment: moment.at_s * 2, every_s=2).measures
    assert values == [{"at_s": 2.0, "value": 4.0}, {"at_s": 4.0, "value": 8.0}]
    plain = pair.build().run(7)
    assert plain.json == result.json and plain.measures == [] and plain.packets == []


def test_packets_become_tables(pair):
    result = pair.build().run(
        7, packets=True, losses={("a", "b"): lambda r: lambda *_: r.random() < 0.4}
    )
    lost = [packet for packet in result.packets if packet["delay_ms"] is None]
    assert len(lost) == result.flows[0]["lost"] > 0 and len(result.packets) == 250
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas("packets")
    assert isinstance(frame, pandas.DataFrame) and frame["delay_ms"].isna().sum() == len(lost)
    assert frame["delay_ms"].min() >= 10 and set(frame["receiver"]) == {"b"}


def test_packets_become_arrow(pair):
    pytest.importorskip("pyarrow")
    result = pair.build().run(
        7, packets=True, losses={("a", "b"): lambda r: lambda *_: r.random() < 0.4}
    )
    table = result.to_arrow("packets")
    assert table.num_rows == 250 and table["delay_ms"].null_count == result.flows[0]["lost"]
    assert result.to_arrow()["sent"].to_pylist() == [250]


def raises(*_: object) -> bool:
    raise LookupError("mine")


def test_what_a_function_raises_ends_the_run_and_reaches_the_caller(pair):
    scenario = pair.build()

    def packets(_: random.Random):
        yield 1.0
        raises()

    for parts in [
        {"traffic": {"a-b": packets}},
        {"traffic": {"a-b": raises}},
        {"losses": {("a", "b"): raises}},
        {"losses": {("a", "b"): lambda _: raises}},
        {"measure": raises},
    ]:
        with pytest.raises(LookupError, match="mine") as caught:
            scenario.run(7, **parts)
        names = [entry.name for entry in caught.traceback]
        assert names[-1] == "raises", names
    # Nothing is torn: it runs as before.
    assert scenario.run(7).json == scenario.run(7).json


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ({"traffic": {"a-c": poisson(1)}}, "did you mean `a-b`"),
        ({"traffic": {"a-b": lambda _: [2.0, 1.0]}}, "in order"),
        ({"traffic": {"a-b": lambda _: [math.nan]}}, "a number from 0"),
        ({"traffic": {"a-b": lambda _: [-1.0]}}, "a number from 0"),
        ({"traffic": {"a-b": lambda _: [(1.0, -5)]}}, "bytes: expected a whole number"),
        ({"traffic": {"a-b": lambda _: [(1.0, 10**30)]}}, "from 16 to 1392"),
        ({"traffic": {"a-b": lambda _: [(1.0, 100, 3)]}}, "a moment, or"),
        ({"traffic": {"a-b": lambda _: [[1.0, 100]]}}, "a moment, or"),
        ({"traffic": {"a-b": lambda _: iter(lambda: 0.0, 1)}}, "does the moment grow"),
        ({"traffic": {("a", "b"): poisson(1)}}, "the name of a flow"),
        ({"losses": {"ab": gilbert(0, 1)}}, "a pair of nodes"),
        ({"losses": {("a", "c"): gilbert(0, 1)}}, "no node `c`"),
        ({"losses": {("a", "a"): gilbert(0, 1)}}, "no link"),
        ({"measure": lambda _: {"at_s": 1}}, "another name"),
        ({"measure": print, "every_s": math.nan}, "every_s"),
        ({"measure": print, "every_s": 0}, "from 0.001 s"),
    ],
)
def test_bad_parts_are_answered(pair, parts, answer):
    with pytest.raises(ValueError, match=answer):
        pair.build().run(7, **parts)


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ({"traffic": {"a-b": 3}}, "expected a function"),
        ({"losses": {("a", "b"): lambda _: 3}}, "expected a function"),
        ({"measure": 3}, "expected a function"),
        ({"traffic": poisson(1)}, "expected a dictionary"),
        ({"losses": gilbert(0, 1)}, "expected a dictionary"),
        ({"traffic": {"a-b": lambda _: None}}, "is there a `yield`"),
        ({"losses": {("a", "b"): lambda at_s, size: False}}, "one random.Random"),
        ({"losses": {("a", "b"): lambda _: lambda *_: 0.01}}, "expected True or False"),
        ({"measure": lambda moment: [1]}, "expected a number"),
    ],
)
def test_what_is_of_another_kind_is_answered(pair, parts, answer):
    with pytest.raises(TypeError, match=answer):
        pair.build().run(7, **parts)


#: Functions that do not come back, or hardly forward. Where the tests run in the background, SIGINT may be ignored, and
#: Python leaves it so.
STUCK = """
import signal, sinew
signal.signal(signal.SIGINT, signal.default_int_handler)
pair = sinew.Builder("pair", duration="10h").node("a", "b").link("a", "b").flow("a", "b").build()
def creeps(source):
    print("runs", flush=True)
    at_s = 0.0
    while True:
        for n in range(90_000):
            yield at_s
        at_s += 0.01
def spins(source):
    print("runs", flush=True)
    while True:
        pass
    yield 0.0
pair.run(7, traffic={"a-b": KIND})
"""


@pytest.mark.parametrize("kind", ["creeps", "spins"])
def test_ctrl_c_ends_a_run_whose_function_does_not_return(kind):
    text = STUCK.replace("KIND", kind)
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors and process.returncode != 0


def test_a_function_may_run_a_simulation_itself(pair):
    inner = pair.build()
    result = inner.run(7, measure=lambda moment: inner.run(7).flows[0]["sent"], every_s=5)
    assert result.measures == [{"at_s": 5.0, "value": 250}]
