"""Scenarios: all ways to make one, what a run gives, what is refused, and how it ends early."""

from __future__ import annotations

import json
import math
import pickle
import signal
import subprocess
import sys
import threading

import pytest
from conftest import CHAIN, command

import sinew


def test_a_text_a_file_and_a_dictionary_are_the_same_scenario(tmp_path):
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN)
    tables = {
        "scenario": {"name": "chain", "duration": "5s"},
        "topology": {"kind": "chain", "nodes": 3, "delay": "10ms", "path": "loss=5% burst=25%"},
        "flow": [{"from": "n0", "to": "n2"}],
    }
    made = [
        sinew.Scenario.from_toml(CHAIN),
        sinew.Scenario.from_toml(path),
        sinew.Scenario.from_toml(str(path)),
        sinew.Scenario.from_dict(tables),
    ]
    assert len({scenario.run(7).json for scenario in made}) == 1
    again = pickle.loads(pickle.dumps(made[0]))
    assert again == made[0] and again.run(7).json == made[0].run(7).json


def test_a_run_is_that_of_the_command_line(tmp_path, pair):
    path = tmp_path / "pair.toml"
    path.write_text(pair.toml)
    words = command("sim", "run", path, "--seed", "7", "--json")
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    result = pair.build().run(7)
    assert json.loads(told) == result.report == json.loads(result.json)


def test_tables_have_flows_links_and_events(pair):
    result = pair.fault("1s", "link-down", a="a", b="b").build().run(7)
    assert result.flows[0]["sent"] == 250 and result.seed == 7
    assert [(link["from"], link["to"]) for link in result.links] == [("a", "b"), ("b", "a")]
    down = [event for event in result.events if event["event"] == "link-down"]
    assert {event["node"] for event in down} == {"a", "b"} and down[0]["at_s"] > 1
    assert result.rows()[0]["delay_ms.p50"] >= 10 and "<table>" in result._repr_html_()
    with pytest.raises(ValueError, match="flows, links, events"):
        result.rows("packet")


def test_a_result_becomes_data_frames(pair):
    pandas = pytest.importorskip("pandas")
    frame = pair.build().run(7).to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame.loc[0, "sent"] == 250


def test_a_graph_becomes_a_scenario():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(4)
    networkx.set_edge_attributes(graph, 12.5, "weight")
    scenario = sinew.Scenario.from_networkx(
        graph, duration="2s", delay="weight", flows=[(0, 3)], seed=3
    )
    assert scenario.links == [("0", "1"), ("1", "2"), ("2", "3")] and scenario.seed == 3
    assert scenario.run().flows[0]["delay_ms"]["p50"] >= 37.5
    directed = networkx.DiGraph()
    directed.add_edge("a", "b", delay_ms=10)
    directed.add_edge("b", "a", delay_ms=30)
    scenario = sinew.Scenario.from_networkx(directed, duration="2s")
    assert 'path = "delay=10ms"\nback = "delay=30ms"' in scenario.toml


def test_why_and_whatif_explain_paths():
    builder = sinew.Builder("square", duration="2s").node("a", "b", "c", "d")
    builder.link("a", "b", delay_ms=10).link("b", "d", delay_ms=10)
    square = builder.link("a", "c", delay_ms=15).link("c", "d", delay_ms=15).build()
    assert square.why("a", "d")["chosen"]
    assert square.whatif("a-b down", "a", "d")
    for wrong, word in [
        (lambda: square.why("a", "x"), "no node `x`"),
        (lambda: square.why("a", "d", by="weight"), "expected-latency"),
        (lambda: square.why("a", "d", at_s=3), "over after"),
        (lambda: square.why("a", "d", deadline_ms=math.nan), "deadline_ms"),
        (lambda: square.whatif("a-b down", "a"), "both ends"),
    ]:
        with pytest.raises(ValueError, match=word):
            wrong()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ({"delay_ms": math.nan}, "delay_ms=nan: expected a number"),
        ({"delay_ms": math.inf}, "delay_ms=inf"),
        ({"delay_ms": -1}, "delay_ms=-1: expected a number"),
        ({"loss_pct": 101}, "from 0 to 100"),
        ({"loss_pct": "5%"}, "loss_pct='5%': expected a number"),
        ({"dealy_ms": 1}, "did you mean `delay_ms`"),
        ({"delay": 10}, 'like "20ms"'),
        ({"delay": "10ms loss=5%"}, "expected one word"),
        ({"rate_bps": True}, "rate_bps=True"),
    ],
)
def test_bad_units_are_answered(words, answer):
    with pytest.raises(ValueError, match=answer):
        sinew.Builder("x", duration="1s").node("a", "b").link("a", "b", **words)


def test_bad_keys_values_and_shapes_are_answered():
    own: dict[str, object] = {"name": "x", "duration": "1s"}
    own["about"] = own
    for tables, answer in [
        ({"scenario": {"name": "x", "durations": "1s"}}, "did you mean `duration`"),
        ({"scenario": {"name": "x", "duration": "-1s"}}, "expected a time"),
        ({"scenario": {"name": "x", "duration": math.nan}}, "nan"),
        ({"scenario": own}, "in itself"),
        ({"scenario": {"name": object(), "duration": "1s"}}, "no place for object"),
        ({"scenario": {1: "x"}}, "a key is a text"),
    ]:
        with pytest.raises(ValueError, match=answer):
            sinew.Scenario.from_dict(tables)
    with pytest.raises(OSError):
        sinew.Scenario.from_toml("/nowhere/x.toml")
    for seed in (-1, 1 << 64):
        with pytest.raises(ValueError, match="seed"):
            sinew.Scenario.from_toml(CHAIN).run(seed)


def test_progress_is_told_and_its_exception_ends_the_run(pair):
    shares: list[float] = []
    quick = pair.build()
    quick.run(progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0

    def raises(share: float) -> None:
        raise LookupError(f"at {share}")

    with pytest.raises(LookupError, match="at 0|at 1"):
        quick.run(progress=raises)
    with pytest.raises(TypeError):
        quick.run(progress=3)


#: Hours of simulated time: it does not end by itself while a test waits. Where the tests run in the background, SIGINT may
#: be ignored, and Python leaves it so.
ENDLESS = """
import signal, sinew
signal.signal(signal.SIGINT, signal.default_int_handler)
mesh = sinew.Builder("mesh", duration="10h").topology("full-mesh", nodes=20, delay="10ms")
mesh.flow("n0", "n1").build().run(progress=lambda share: print("runs", flush=True))
"""


def test_ctrl_c_ends_a_run_by_keyboard_interrupt():
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors and process.returncode != 0


def test_other_threads_run_meanwhile(pair):
    """A thread that can only go on while the run holds no lock ends the run."""
    started, seen = threading.Event(), []

    def other() -> None:
        started.wait()
        seen.append(True)

    thread = threading.Thread(target=other)
    thread.start()

    def progress(share: float) -> None:
        started.set()
        if seen:
            raise StopIteration

    endless = sinew.Builder("mesh", duration="10h").topology("full-mesh", nodes=20, delay="10ms")
    with pytest.raises(StopIteration):
        endless.flow("n0", "n1").build().run(progress=progress)
    thread.join()
