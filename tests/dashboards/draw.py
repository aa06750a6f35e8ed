"""Draws a dashboard as Grafana would lay it out, as one page of HTML. Pure: the dashboard and what its queries returned
in, text out. It knows the kinds of panels and the units that our dashboards have, and no others."""

import html
import json
import math
import re

COLUMN, ROW, GAP = 60, 38, 8  # pixels; Grafana's rows are 30 and 8 between them
COLOURS = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d", "#fade2a",
           "#447ebc", "#c15c17", "#890f02", "#0a437c", "#6d1f62", "#584477")
NAMED = {"text": "#ccccdc", "red": "#f2495c", "orange": "#ff9830", "yellow": "#fade2a", "green": "#73bf69",
         "blue": "#5794f2", "purple": "#b877d9", "semi-dark-blue": "#3274d9", "semi-dark-orange": "#ff780a"}
GLYPH = 6.5  # pixels: more than a mean letter of a label is wide
STYLE = """body{margin:0;background:#111217;color:#ccccdc;font:12px sans-serif}
.panel{position:absolute;overflow:hidden;background:#181b1f;border:1px solid #2a2d33;box-sizing:border-box}
.panel h3{margin:4px 8px;font-size:13px;font-weight:500}.row{position:absolute;font-size:15px;font-weight:500}
.stat{font-size:30px;text-align:center;margin-top:16px}.empty{color:#ff9830;text-align:center;margin-top:30px}
table{width:100%;border-collapse:collapse}td,th{text-align:left;padding:2px 8px;border-bottom:1px solid #2a2d33}
.legend{position:absolute;bottom:2px;left:8px;right:8px;height:30px;overflow:hidden;font-size:11px;line-height:15px}
.legend b{display:inline-block;width:12px;height:3px;margin:0 4px 3px 8px}text{fill:#9a9aa8;font-size:11px}"""
SCALES = {"bytes": (1024, (" B", " KiB", " MiB", " GiB", " TiB")), "Bps": (1000, (" B/s", " kB/s", " MB/s", " GB/s")),
          "short": (1000, ("", " K", " Mil", " Bil")), "ops": (1000, (" ops/s", "K ops/s")),
          "reqps": (1000, (" req/s", "K req/s"))}


def fixed(value, decimals=None):
    """The number with so many decimals, or with three digits that count."""
    if decimals is not None or value == int(value):
        return f"{value:.{decimals or 0}f}"
    text = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def shown(value, unit, decimals=None):
    """The number as Grafana shows it in this unit."""
    if unit in SCALES:
        factor, names = SCALES[unit]
        power = min(len(names) - 1, max(0, int(math.log(abs(value), factor)))) if value else 0
        return fixed(value / factor**power, decimals) + names[power]
    if unit == "s":
        for limit, factor, name in ((1e-3, 1e-6, " µs"), (1, 1e-3, " ms"), (60, 1, " s"), (3600, 60, " mins"),
                                    (86400, 3600, " hours")):
            if abs(value) < limit:
                return fixed(value / factor, decimals) + name if value else "0 s"
        return fixed(value / 86400, decimals) + " days"
    if unit == "percentunit":
        return fixed(value * 100, decimals) + "%"
    if unit == "currencyUSD":
        return f"${fixed(value, decimals)}"
    if unit == "sci":
        return f"{value:.2e}"
    if unit.startswith("suffix:"):
        return f"{fixed(value, decimals)} {unit.removeprefix('suffix:')}"
    if unit == "none":
        return fixed(value, decimals)
    raise ValueError(f"the drawing does not know the unit {unit!r}")


def legend(target, labels):
    """A series' name under its panel."""
    if target["legendFormat"] != "__auto":
        return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"])
    named = {key: value for key, value in labels.items() if key != "__name__"}
    return json.dumps(named) if named else "Value"


def page(dashboard, results, start, end, step):
    """`results`: (panel's id, refId) → the series of the answer, [{"metric": labels, "values": [(time, number)]}]; of
    an instant query with one value. Times are seconds."""
    parts = []
    for panel in [each for one in dashboard["panels"] for each in (one, *one.get("panels", []))]:
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN, place["y"] * ROW
        if panel["type"] == "row":
            parts.append(f'<div class="row" style="left:8px;top:{y + 12}px">{html.escape(panel["title"])}</div>')
            continue
        width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        series = [(target, legend(target, one["metric"]), one) for target in panel["targets"]
                  for one in results[panel["id"], target["refId"]]]
        body = DRAWN[panel["type"]](panel, series, width, height, (start, end, step)) if series else \
            '<div class="empty">No data</div>'
        parts.append(f'<div class="panel" style="left:{x}px;top:{y}px;width:{width}px;height:{height}px">'
                     f'<h3>{html.escape(panel["title"])}</h3>{body}</div>')
    return (f'<!doctype html><meta charset="utf-8"><title>{html.escape(dashboard["title"])}</title>'
            f"<style>{STYLE}</style>{''.join(parts)}")


def size(dashboard):
    """(width, height) of the page in pixels."""
    return 24 * COLUMN, max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) * ROW


def _stat(panel, series, _width, _height, _times):
    defaults = panel["fieldConfig"]["defaults"]
    value = series[0][2]["values"][-1][1]
    text = shown(value, defaults["unit"], defaults.get("decimals"))
    return f'<div class="stat" style="color:{_colour(defaults, value)}">{text}</div>'


def _colour(defaults, value):
    """That of the last threshold which the value has reached."""
    reached = [step["color"] for step in defaults["thresholds"]["steps"]
               if step["value"] is None or value >= step["value"]]
    return NAMED[reached[-1]]


def _table(panel, series, _width, _height, _times):
    names = panel["transformations"][1]["options"]["renameByName"]
    units = {one["matcher"]["options"]: one["properties"][0]["value"] for one in panel["fieldConfig"]["overrides"]}
    rows = {}
    for target, _, one in series:
        header = names[f"Value #{target['refId']}"]
        rows.setdefault(tuple(sorted(one["metric"].items())), {})[header] = shown(one["values"][-1][1], units[header])
    labels = sorted({key for row in rows for key, _ in row})
    columns = list(names.values())
    lines = [[dict(row).get(label, "") for label in labels] + [cells.get(column, "") for column in columns]
             for row, cells in sorted(rows.items())]
    return "<table>" + "".join(
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) + "</tr>"
        for tag, line in [("th", labels + columns), *(("td", line) for line in lines)]) + "</table>"


def _ticks(low, high):
    """About four round numbers from low to high."""
    raw = (high - low) / 4 or 1
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _stacked(series):
    """(lower, upper) numbers by time of each series, on those before it."""
    below = {}
    for _, _, one in series:
        lower = {time: below.get(time, 0) for time, _ in one["values"]}
        upper = {time: lower[time] + value for time, value in one["values"]}
        below |= upper
        yield lower, upper


def _timeseries(panel, series, width, height, times):
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    bands = list(_stacked(series)) if stacked else [(None, dict(one["values"])) for _, _, one in series]
    every = [value for _, upper in bands for value in upper.values()]
    low, high = defaults.get("min", min(every)), max(every)
    if high <= low:
        high = low + 1
    labels = [(tick, shown(tick, defaults["unit"])) for tick in _ticks(low, high)]
    widest = max((len(label) for _, label in labels), default=0)
    left, top, right, bottom = max(76, 12 + GLYPH * widest), 6, width - 12, height - 86
    start, end, step = times

    def x(time):
        return left + (time - start) / (end - start) * (right - left)

    def y(value):
        return bottom - (value - low) / (high - low) * (bottom - top)

    drawn = []
    for tick, label in labels:
        drawn.append(f'<path d="M{left} {y(tick):.1f}H{right}" stroke="#2a2d33"/>'
                     f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{html.escape(label)}</text>')
    for index, (lower, upper) in enumerate(bands):
        colour = COLOURS[index % len(COLOURS)]
        for run in _runs(sorted(upper), step):
            line = "L".join(f"{x(time):.1f} {y(upper[time]):.1f}" for time in run)
            drawn.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-linecap="square"/>')
            if lower:
                back = "L".join(f"{x(time):.1f} {y(lower[time]):.1f}" for time in reversed(run))
                drawn.append(f'<path d="M{line}L{back}Z" fill="{colour}" fill-opacity="0.3"/>')
    picture = f'<svg width="{width}" height="{height - 60}">{"".join(drawn)}</svg>'
    return picture + _legend(name for _, name, _ in series)


def _runs(times, step):
    """The times, cut where a point is missing."""
    run = []
    for time in times:
        if run and time - run[-1] > step * 1.5:
            yield run
            run = []
        run.append(time)
    if run:
        yield run


def _legend(names):
    return '<div class="legend">' + "".join(
        f'<b style="background:{COLOURS[index % len(COLOURS)]}"></b>{html.escape(name)}'
        for index, name in enumerate(names)) + "</div>"


def _timeline(panel, series, width, height, times):
    defaults = panel["fieldConfig"]["defaults"]
    words = {float(value): each["text"] for mapping in defaults.get("mappings", [])
             for value, each in mapping["options"].items()}
    start, end, step = times
    left, high = 140, (height - 50) / len(series)
    drawn = []
    for index, (_, name, one) in enumerate(series):
        top = index * high
        drawn.append(f'<text x="{left - 6}" y="{top + high / 2 + 4:.1f}" text-anchor="end">{html.escape(name)}</text>')
        numbers = dict(one["values"])
        for run in _runs(sorted(numbers), step):
            for group in _equal(run, numbers):
                x = left + (group[0] - start) / (end - start) * (width - left - 12)
                wide = (group[-1] - group[0] + step) / (end - start) * (width - left - 12)
                value = numbers[group[0]]
                drawn.append(f'<rect x="{x:.1f}" y="{top + 2:.1f}" width="{wide:.1f}" height="{high * 0.9 - 2:.1f}" '
                             f'fill="{_colour(defaults, value)}" fill-opacity="0.7"/>'
                             f'<text x="{x + 4:.1f}" y="{top + high / 2 + 4:.1f}">'
                             f'{words.get(value) or shown(value, defaults["unit"])}</text>')
    return f'<svg width="{width}" height="{height - 40}">{"".join(drawn)}</svg>'


def _equal(run, numbers):
    """The times of a run, in groups of one value."""
    group = []
    for time in run:
        if group and numbers[time] != numbers[group[0]]:
            yield group
            group = []
        group.append(time)
    yield group


DRAWN = {"stat": _stat, "table": _table, "timeseries": _timeseries, "state-timeline": _timeline}
