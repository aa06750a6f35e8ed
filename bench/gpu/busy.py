#!/usr/bin/env python3
"""What kept a GPU busy: reads the files of bench/gpu/spy.cc, of all processes that shared it, and prints JSON: the part
of the time in which a kernel ran; the longest gaps, with the kernels before and behind each and the files that these
are from; the kernels that took most; and the calls of CUDA that took a millisecond or more.

Usage: busy.py SECONDS FILE...     of the SECONDS before the last tenth of a second of which all files tell: a program
                                   that is killed leaves its last records unwritten"""
import collections
import json
import sys


def main() -> None:
    events, calls, ends = [], [], []
    for number, path in enumerate(sys.argv[2:]):
        end = 0
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(" ", 3)
                if len(fields) != 4:
                    continue
                event = (int(fields[0]), int(fields[1]), fields[3], number)
                if fields[2] == "A":
                    calls.append(event)
                else:
                    events.append((*event, fields[2]))
                    end = max(end, event[1])
        if end:
            ends.append(end)
    events.sort()
    begin, high = events[0][0], min(ends) - 1e8
    low = high - 1e9 * float(sys.argv[1])
    busy, reached, last_name = 0.0, low, ""
    gaps, by_name, copied = [], collections.Counter(), collections.Counter()
    for first, last, name, number, kind in events:
        if last <= low or first >= high:
            continue
        if kind == "C":
            copied[name.split()[0]] += int(name.split()[1])
            continue
        by_name[name] += last - first
        if first > reached:
            gaps.append((first - reached, (reached - begin) / 1e9, last_name, f"{number}:{name[:40]}"))
        busy += max(0, min(last, high) - max(first, reached))
        if last > reached:
            reached, last_name = last, f"{number}:{name[:40]}"
    if high > reached:
        gaps.append((high - reached, (reached - begin) / 1e9, last_name, ""))
    span = high - low
    gaps.sort(reverse=True)
    within = [(first, last, name, number) for first, last, name, number in calls if last > low and first < high]
    took = collections.Counter()
    for first, last, name, number in within:
        took[f"{number}:{name}"] += last - first
    within.sort(key=lambda call: call[0] - call[1])
    print(json.dumps({
        "seconds": span / 1e9, "busy": busy / span,
        "gaps_ms_at_s": [(round(length / 1e6, 2), round(at, 3), *names) for length, at, *names in gaps[:24]],
        "gaps_over_1ms": sum(length for length, *_ in gaps if length > 1e6) / span,
        "copied_gib": {kind: count / 2**30 for kind, count in copied.items()},
        "calls_ms_at_s": [(round((last - first) / 1e6, 2), round((first - begin) / 1e9, 3), f"{number}:{name}")
                          for first, last, name, number in within[:24]],
        "calls_over_1ms": {name: time / 1e9 for name, time in took.most_common(12)},
        "kernels": [(round(time / span, 4), name[:90]) for name, time in by_name.most_common(28)]}, indent=None))


if __name__ == "__main__":
    main()
