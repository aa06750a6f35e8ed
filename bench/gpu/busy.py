#!/usr/bin/env python3
"""What kept a GPU busy: reads the files of bench/gpu/spy.cc, of all processes that shared it, and prints JSON: the part
of the time in which a kernel ran, the longest gaps, and the kernels that took most, in the SECONDS before the last
tenth of a second.

Usage: busy.py SECONDS FILE..."""
import collections
import json
import sys


def main() -> None:
    events = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(" ", 3)
                if len(fields) == 4:
                    events.append((int(fields[0]), int(fields[1]), fields[2], fields[3]))
    events.sort()
    begin, high = events[0][0], max(event[1] for event in events) - 1e8
    low = high - 1e9 * float(sys.argv[1])
    busy, reached, gaps, by_name, copied = 0.0, low, [], collections.Counter(), collections.Counter()
    for first, last, kind, name in events:
        if last <= low or first >= high:
            continue
        if kind == "C":
            copied[name.split()[0]] += int(name.split()[1])
            continue
        by_name[name] += last - first
        if first > reached:
            gaps.append((first - reached, (reached - begin) / 1e9))
        busy += max(0, min(last, high) - max(first, reached))
        reached = max(reached, last)
    if high > reached:
        gaps.append((high - reached, (reached - begin) / 1e9))
    span = high - low
    gaps.sort(reverse=True)
    print(json.dumps({
        "seconds": span / 1e9, "busy": busy / span,
        "gaps_ms_at_s": [(round(length / 1e6, 2), round(at, 3)) for length, at in gaps[:12]],
        "gaps_over_1ms": sum(length for length, _ in gaps if length > 1e6) / span,
        "copied_gib": {kind: count / 2**30 for kind, count in copied.items()},
        "kernels": [(round(time / span, 4), name[:90]) for name, time in by_name.most_common(28)]}, indent=None))


if __name__ == "__main__":
    main()
