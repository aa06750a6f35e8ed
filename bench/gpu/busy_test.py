#!/usr/bin/env python3
"""Kernels of two processes that overlap, a gap, a call that takes long, and what lies outside the time that is judged."""
import json
import pathlib
import subprocess
import sys
import tempfile

MS = 1_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
        # The first process was killed after 1,100 ms, and the second's last records are later: the second from 0 to
        # 1,000 ms is judged.
        first.write_text(f"0 {400 * MS} K one\n{100 * MS} {200 * MS} C 1 {2**30}\n"
                         f"{450 * MS} {700 * MS} A cudaFree\n{1000 * MS} {1100 * MS} K late\n")
        second.write_text(f"{300 * MS} {600 * MS} K two<int, 4>\n{900 * MS} {1000 * MS} K one\n"
                          f"{1500 * MS} {1600 * MS} K later\nbroken li")
        command = [sys.executable, str(pathlib.Path(__file__).with_name("busy.py")), "1", str(first), str(second)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert abs(found["busy"] - 0.7) < 1e-9, found
    assert found["gaps_ms_at_s"] == [[300.0, 0.6, "1:two<int, 4>", "1:one"]], found
    assert found["calls_ms_at_s"] == [[250.0, 0.45, "0:cudaFree"]], found
    assert found["calls_over_1ms"] == {"0:cudaFree": 0.25}, found
    assert found["copied_gib"] == {"1": 1.0}, found
    assert found["kernels"] == [[0.5, "one"], [0.3, "two<int, 4>"]], found


if __name__ == "__main__":
    main()
