#!/usr/bin/env python3
"""What networkx says of random graphs, for crates/graph/tests/networkx.rs and crates/lab/tests/networkx.rs.

    python3 corpus.py make              graphs.txt and digests.txt beside this file (minutes)
    python3 corpus.py live FIRST COUNT  the graphs of these seeds in full, on standard output

Needs networkx (`pip install networkx` in a virtual environment). Graphs are a function of their
seed, by the same generator here and in the Rust test, so a digest per graph is enough to keep.

A graph in full:
    graph SEED NODES                  nodes are 0 .. NODES-1; results are from 0, or from 0 to the last
    link FROM TO LATENCY_US LOSS      LOSS as a share of 65536; directed
    hops D0 D1 ..                     distances by each metric; - is unreachable
    hops-parents P0 P1 ..             the node before on the shortest path, the lowest of several
    width W0 W1 ..                    widest paths, bits per second; the root's own is -
    width-1 .. width-3                the same, of at most so many links
    shortest-widest COST              by latency, to the last node
    shortest-half COST                by latency, of paths at least half as wide as the widest
    disjoint-1 .. disjoint-3          COUNT COST of node-disjoint paths, least total latency
    paths C1 ..                       the four shortest simple paths by latency
    end DIGEST                        FNV-1a, 32 bits folded, of the lines from `hops` to `paths`
"""

import itertools
import math
import multiprocessing
import pathlib
import sys

import networkx as nx

GRAPHS = 10_000  # with a digest each
IN_FULL = 150  # of them
MASK = (1 << 64) - 1
METRICS = ("hops", "latency", "loss", "expected-latency")


class Rng:
    """xoshiro256++ seeded through SplitMix64, as base::Rng."""

    def __init__(self, seed):
        self.state = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.state.append(z ^ (z >> 31))

    def below(self, bound):
        s = self.state
        rotate = lambda x, k: ((x << k) | (x >> (64 - k))) & MASK
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return (result * bound) >> 64


def generate(seed):
    """Nodes, and links as {(from, to): (latency_us, loss)} in order of their first mention."""
    rng = Rng(seed)
    nodes = 2 + rng.below(15)
    if rng.below(20) == 0:
        nodes = 20 + rng.below(41)
    count = nodes + rng.below(3 * nodes)
    few_values = rng.below(2) == 0
    both_ways = rng.below(2) == 0
    links = {}
    for _ in range(count):
        a, b = rng.below(nodes), rng.below(nodes)
        if few_values:  # ties are the rule
            latency_us, loss = 1000 * (1 + rng.below(4)), 2000 * rng.below(3)
        else:
            latency_us = 1 + rng.below(100_000)
            loss = 0 if rng.below(2) == 0 else rng.below(6554)
        if a == b:
            continue
        links[a, b] = (latency_us, loss)
        if both_ways:
            links[b, a] = (latency_us, loss)
    return nodes, links


def minus_log(loss):
    """-ln(1 - loss/65536) in units of 1e-9, plus 1; whole numbers all the way."""
    n = 65536 - loss
    whole = n.bit_length() - 1
    mantissa, log2 = n << (62 - whole), whole
    for _ in range(32):
        square = (mantissa * mantissa) >> 62
        doubled = square >> 63
        mantissa = square >> doubled
        log2 = log2 << 1 | doubled
    ln2 = 2_977_044_471_819_572_071
    return ((((16 << 32) - log2) * ln2 + (1 << 63)) >> 64) + 1


def expected_latency(latency_us, loss, detect_us=2_000, late_us=100_000):
    """The formula of Amir06 IV-B in nanoseconds; beyond p = 4/9 a straight line to a dead link."""
    direct = latency_us * 1000
    recovered, late = 3 * direct + detect_us * 1000, late_us * 1000
    lost = lambda q: 2 * q * q * 65536 - 3 * q**3
    peak = 29127
    low = lost(min(loss, peak))
    beyond = max(loss - peak, 0) * ((1 << 48) - low) // (65536 - peak)
    excess = low * (late - recovered) + beyond * max(late - recovered, 0)
    scaled = (direct << 48) + ((loss * (recovered - direct)) << 32) + excess
    return (scaled + (1 << 47)) >> 48


def width(latency_us, loss):
    """1460 bytes * sqrt(3/2) / (round trip * sqrt(p)) in bits per second."""
    square = 11680 * 11680 * 3 // 2 * 65536 * 500_000_000_000
    return math.isqrt(square // (max(latency_us, 1) ** 2 * (2 * loss if loss else 1)))


def as_graph(nodes, links):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    for (a, b), (latency_us, loss) in links.items():
        costs = (1, latency_us * 1000, minus_log(loss), expected_latency(latency_us, loss))
        values = {m: max(cost, 1) for m, cost in zip(METRICS, costs)}
        graph.add_edge(a, b, width=width(latency_us, loss), **values)
    return graph


def row(values):
    return " ".join("-" if value is None else str(value) for value in values)


def distances(graph, metric):
    before, distance = nx.dijkstra_predecessor_and_distance(graph, 0, weight=metric)
    yield f"{metric} {row(distance.get(v) for v in graph)}"
    yield f"{metric}-parents {row(min(before.get(v) or [None]) for v in graph)}"


def widths(graph):
    """By thresholds: the widest links first, and what they reach, in how many steps."""
    best = {limit: {} for limit in (None, 1, 2, 3)}
    wide = nx.DiGraph()
    wide.add_nodes_from(graph)
    by_width = lambda edge: -edge[2]
    edges = sorted(graph.edges(data="width"), key=by_width)
    for negative, same in itertools.groupby(edges, key=by_width):
        wide.add_edges_from((a, b) for a, b, _ in same)
        for node, steps in nx.single_source_shortest_path_length(wide, 0).items():
            for limit in best:
                if node != 0 and (limit is None or steps <= limit):
                    best[limit].setdefault(node, -negative)
    for limit, found in best.items():
        name = "width" if limit is None else f"width-{limit}"
        yield f"{name} {row(found.get(v) for v in graph)}"
    last = len(graph) - 1
    widest = best[None].get(last)
    for name, least in (("widest", widest), ("half", widest and widest // 2)):
        cost = None
        if widest:
            enough = [(a, b) for a, b, w in graph.edges(data="width") if w >= least]
            cost = nx.dijkstra_path_length(graph.edge_subgraph(enough), 0, last, weight="latency")
        yield f"shortest-{name} {row([cost])}"


def disjoint(graph):
    """Unit flows through nodes that are split in two."""
    last = len(graph) - 1
    split = nx.DiGraph()
    for v in graph:
        split.add_edge((v, "in"), (v, "out"), weight=0, capacity=1)
    for a, b, cost in graph.edges(data="latency"):
        split.add_edge((a, "out"), (b, "in"), weight=cost, capacity=1)
    src, dst = (0, "out"), (last, "in")
    most = nx.maximum_flow_value(split, src, dst)
    costs = {0: None}
    for k in (1, 2, 3):
        count = min(k, most)
        if count not in costs:
            split.nodes[src]["demand"], split.nodes[dst]["demand"] = -count, count
            costs[count] = nx.min_cost_flow_cost(split)
        yield f"disjoint-{k} {count} {row([costs[count]])}"


def paths(graph):
    try:
        found = nx.shortest_simple_paths(graph, 0, len(graph) - 1, weight="latency")
        first = list(itertools.islice(found, 4))
    except nx.NetworkXNoPath:
        first = []
    yield f"paths {row(nx.path_weight(graph, path, 'latency') for path in first)}".rstrip()


def results(nodes, links):
    graph = as_graph(nodes, links)
    for metric in METRICS:
        yield from distances(graph, metric)
    yield from widths(graph)
    yield from disjoint(graph)
    yield from paths(graph)


def digest(lines):
    value = 0xCBF29CE484222325
    for byte in "".join(line + "\n" for line in lines).encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return f"{(value >> 32) ^ (value & 0xFFFFFFFF):08x}"


def in_full(seed):
    nodes, links = generate(seed)
    lines = list(results(nodes, links))
    head = [f"graph {seed} {nodes}"]
    head += [f"link {a} {b} {us} {loss}" for (a, b), (us, loss) in links.items()]
    return "\n".join([*head, *lines, f"end {digest(lines)}"])


def short(seed):
    return digest(list(results(*generate(seed))))


def make():
    here = pathlib.Path(__file__).parent
    with multiprocessing.Pool() as pool:
        graphs = pool.map(in_full, range(IN_FULL), chunksize=10)
        digests = pool.map(short, range(GRAPHS), chunksize=50)
    (here / "graphs.txt").write_text("\n".join(graphs) + "\n")
    lines = [" ".join(digests[i : i + 10]) for i in range(0, GRAPHS, 10)]
    (here / "digests.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(graphs)} graphs in full, {len(digests)} digests, by networkx {nx.__version__}")


def main():
    match sys.argv[1:]:
        case ["make"]:
            make()
        case ["live", first, count]:
            for seed in range(int(first), int(first) + int(count)):
                print(in_full(seed))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
