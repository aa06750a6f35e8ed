"""Makes the tables of the boundary study from the runs' files alone, and marks missing runs."""
import json
import statistics

from codec_bytes import BYTES_PER_NUMBER

BASE = "None"
TARGETS = (  # name; variants, of which the best counts; limit in percent
    ("8 bits", ("Int8",), 0.1),
    ("8 bits, dynamic", ("Int8Dynamic",), 0.1),
    ("16 times fewer numbers, best construction",
     ("Subspace-16x", "Subspace-16x-Refresh", "Anchored-16x", "Anchored-16x-4Tokens", "Anchored-16x-4Tokens-Narrow"),
     0.5))


def final_loss(run):
    return run["validation"][-1][1]


def changes(runs, length, variant, against=BASE, seeds=None):
    """By how many percent a variant's last validation loss exceeds that of another variant: seed -> percent.
    Covers all seeds that have runs, or the given ones."""
    found = {}
    for run in runs.values():
        at, name, seed = run["run"].split("/")
        base = runs.get(f"{length}/{against}/{seed}")
        if at == length and name == variant and base and (seeds is None or int(seed) in seeds):
            found[int(seed)] = 100 * (final_loss(run) / final_loss(base) - 1)
    return found


def table(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def percent(value):
    return f"{value:+.2f} %"


def summary(found, wanted):
    """The mean change, with the number of seeds if some are missing."""
    if not found:
        return "missing"
    seeds = {1: " (one seed)", 2: " (two seeds)"}.get(len(found), "") if len(found) < wanted else ""
    return percent(statistics.mean(found.values())) + seeds


def bytes_per_token(boundary, width):
    """The bytes that cross forward, without token ids and headers."""
    codec, numbers = boundary["codec"], width
    if codec in ("Bottleneck", "Maxout"):
        numbers = width // boundary.get("factor", 2)
    elif codec in ("Subspace", "Anchored"):
        numbers = boundary["rank"]
    learned = codec in ("Bottleneck", "Maxout", "Subspace", "Anchored")
    number_codec = boundary.get("coefficients", "BF16") if learned else codec
    return numbers * BYTES_PER_NUMBER[number_codec]


def length_table(runs, study, length):
    """All variants of a training length, in the order of the study."""
    head = ["boundary", "bytes a token and way", *(f"seed {seed}" for seed in study.SEEDS), "mean", "spread"]
    base = [runs.get(f"{length}/{BASE}/{seed}") for seed in study.SEEDS]
    losses = [f"{final_loss(run):.4f}" if run else "missing" for run in base]
    made = [final_loss(run) for run in base if run]
    rows = [[BASE, f"{bytes_per_token({'codec': BASE}, study.WIDTH):.0f}", *losses,
             f"{statistics.mean(made):.4f}" if made else "missing", ""]]
    for variant in study.VARIANTS:
        if variant in (BASE, study.CHECK) or (length, variant, study.SEEDS[0]) not in study.order():
            continue
        found = changes(runs, length, variant, seeds=study.SEEDS)
        values = found.values()
        boundary = study.job_of((length, variant, 1))["pipeline"]["boundary"]
        rows.append([variant, f"{bytes_per_token(boundary, study.WIDTH):.1f}",
                     *(percent(found[seed]) if seed in found else "missing" for seed in study.SEEDS),
                     summary(found, len(study.SEEDS)),
                     f"{max(values) - min(values):.2f}" if len(values) > 1 else ""])
    return table(head, rows)


def noise_table(runs, study):
    """The spread between runs that should be alike."""
    rows = []
    for length in study.LENGTHS:
        made = [final_loss(run) for name, run in runs.items() if name.startswith(f"{length}/{BASE}/")]
        spread = 100 * (max(made) / min(made) - 1) if len(made) > 1 else None
        check = changes(runs, length, study.CHECK)
        rows.append([length, f"{spread:.2f} % ({len(made)} seeds)" if spread is not None else "missing",
                     ", ".join(map(percent, check.values())) or "missing"])
    return table(["length", f"largest over smallest loss of {BASE}", "float32 against bfloat16 products, same seed"],
                 rows)


def width_table(runs, study):
    """The cost of sending fewer numbers with the same layers, tables and matrices."""
    rows = []
    for length in study.LENGTHS:
        for suffix in ("", "-4Tokens"):
            wide = f"Anchored-1x{suffix}"
            cells = [summary(changes(runs, length, wide), len(study.SEEDS))]
            for times in study.NARROWER:
                cells.append(summary(changes(runs, length, f"Anchored-{times}x{suffix}", wide), len(study.SEEDS)))
            rows.append([length, wide, *cells])
    head = ["length", "at full width", f"that against {BASE}", *(f"{times}x against that" for times in study.NARROWER)]
    return table(head, rows)


def target_table(runs, study):
    rows = []
    for what, candidates, limit in TARGETS:
        for length in study.LENGTHS:
            found = {name: changes(runs, length, name) for name in candidates}
            means = {name: statistics.mean(values.values()) for name, values in found.items() if values}
            if not means:
                rows.append([what, length, f"{limit:+.1f} %", "missing", "", "", ""])
                continue
            best = min(means, key=means.get)
            seeds = len(found[best])
            error = f"{statistics.stdev(found[best].values()) / seeds ** 0.5:.2f}" if seeds > 1 else ""
            rows.append([what, length, f"{limit:+.1f} %", f"{percent(means[best])}, {best}", error, str(seeds),
                         "met" if means[best] <= limit else "missed"])
    return table(["what", "length", "target", "reached (mean)", "standard error", "seeds", "result"], rows)


def large_table(large):
    """Validation losses of bench/gpu/boundaries.py, after so many tokens: those of BASE, and by how many percent the
    others exceed them."""
    curves = {name: dict(map(tuple, variant["validation"])) for name, variant in large["variants"].items()}
    at = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    rows = [[BASE, *(f"{curves[BASE][tokens]:.3f}" for tokens in at)]]
    rows += [[name, *(percent(100 * (curve[tokens] / curves[BASE][tokens] - 1)) for tokens in at)]
             for name, curve in curves.items() if name != BASE]
    return table(["boundary", *(f"{tokens / 1e6:.1f} M tokens" for tokens in at)], rows)


def parts(runs, study):
    """The tables, each under the name of its place in the report."""
    return {"noise": noise_table(runs, study), "targets": target_table(runs, study),
            "width": width_table(runs, study)} | {
        length: length_table(runs, study, length) for length in study.LENGTHS} | {
        "large": large_table(json.loads(study.LARGE.read_text()))}


def fill(report, found):
    """The report with the lines between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    for name, text in found.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, mark, rest = report.partition(begin)
        _, closing, after = rest.partition(end)
        if not mark or not closing:
            raise SystemExit(f"the report has no place for {name}: {begin.strip()} ... {end}")
        report = f"{before}{begin}\n{text}\n\n{closing}{after}"
    return report
