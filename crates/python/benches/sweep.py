"""How a sweep on a Dask cluster scales: with workers here, and with more by replay of what its cells took.

    python benches/sweep.py amir06/fig12 --workers 1 2 --replay 4 8 16

With workers here, files are compared byte for byte, and the speed-up is against one worker in the same run. The replay takes the time
of each cell alone and gives the next cell to the first worker that is free, as Dask does, with the measured cost of a task in the client, which hands
out one after the other.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import time

from sinew import _sinew, lab


def measured(experiment: str, quick: bool, workers: int) -> tuple[float, dict[str, bytes]]:
    """Seconds of a sweep with so many workers, and its files."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        # Every worker has loaded the package before the clock starts.
        client.run(lambda: __import__("sinew.lab"))
        outcome = lab.run(experiment, quick=quick, keep=False, client=client)
        return outcome.took_s, outcome.files


def task_s() -> float:
    """What a task costs the client that hands it out and takes its result."""
    from distributed import Client

    count = 300
    with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
        begun = time.perf_counter()
        client.gather([client.submit(abs, n, pure=False) for n in range(count)])
        return (time.perf_counter() - begun) / count


def replay_s(cells_s: list[float], workers: int, each_s: float) -> float:
    """When the last cell would be over."""
    free = [0.0] * workers
    handed_s = 0.0
    for cell_s in cells_s:
        handed_s += each_s
        start_s = max(heapq.heappop(free), handed_s)
        heapq.heappush(free, start_s + cell_s)
    return max(free)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("experiment")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--replay", type=int, nargs="*", default=[4, 8, 16])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    request = lab._request(args.experiment, args.quick, 1, None, {})
    cells_s = []
    for cell in lab.cells(args.experiment, quick=args.quick):
        begun = time.perf_counter()
        _sinew.lab_measure(request, cell["key"])
        cells_s.append(time.perf_counter() - begun)
    print(f"{len(cells_s)} cells, {sum(cells_s):.2f} s together, the longest {max(cells_s):.3f} s")
    files, one_s = None, None
    for workers in args.workers:
        runs = [measured(args.experiment, args.quick, workers) for _ in range(args.repeats)]
        took_s = statistics.median(took for took, _ in runs)
        files = files or runs[0][1]
        same = all(run == files for _, run in runs)
        one_s = one_s or took_s * workers
        ratio = one_s / took_s / workers
        print(f"k={workers}: {took_s:.2f} s, {ratio:.2f} k, files {'equal' if same else 'DIFFER'}")
    each_s = task_s()
    alone_s = replay_s(cells_s, 1, each_s)
    print(f"replay, with {1e3 * each_s:.2f} ms for each task:")
    for workers in args.replay:
        took_s = replay_s(cells_s, workers, each_s)
        print(f"k={workers}: {took_s:.2f} s, {alone_s / took_s / workers:.2f} k")


if __name__ == "__main__":
    main()
