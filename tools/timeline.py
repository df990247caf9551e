#!/usr/bin/env python3
"""One layer's timeline out of traces (`weft run --trace`, `weft bench latency --trace`), as an SVG.

    tools/timeline.py --layer L05 plain.json sp=other.json -o layer.svg [--rows N]

A panel for each trace, all on one axis, so that schedules can be compared; in it a row for each worker
of each rank, with compute, exchange and wait in three colours. A trace's name is its file's, or what
stands before "=". Of the steps with N rows (those with the most, if it is not said) the one is drawn
whose layer took the median time.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import sys
from xml.sax.saxutils import escape, quoteattr

COLOURS = {"compute": "#a6cee3", "exchange": "#fdae61", "wait": "#e3e3e3"}
EDGES = {"compute": "#5b9bc4", "exchange": "#d98324", "wait": "#c4c4c4"}

# In pixels.
LEFT, RIGHT, ROW, GAP = 118, 24, 30, 6
TITLE, LABEL_LINE, LABEL_LINES, PANEL_GAP, AXIS = 42, 15, 4, 26, 46
CHARACTER = 6.6  # of a label, set in 11 px


class Problem(Exception):
    """Something that the reader of the message can put right."""


@dataclasses.dataclass(frozen=True)
class Event:
    kind: str  # of COLOURS
    name: str
    start: int  # ns
    end: int
    step: int
    tip: str


@dataclasses.dataclass
class Layer:
    """One passage of one layer: events by track, from 0 on."""
    name: str
    rows: int
    bucket: str
    tracks: dict  # label -> [Event]

    @property
    def length(self):
        return max(e.end for events in self.tracks.values() for e in events)

    def shares(self):
        """Time in each kind, mean over workers."""
        sums = dict.fromkeys(COLOURS, 0)
        for events in self.tracks.values():
            for e in events:
                sums[e.kind] += e.end - e.start
        return {kind: total / len(self.tracks) for kind, total in sums.items()}


def ns(microseconds):
    return round(microseconds * 1000)


def track_names(events):
    """{(pid, tid): label}, a worker named only where its rank has several."""
    processes, threads = {}, {}
    for e in events:
        if e["ph"] == "M" and e["name"] == "process_name":
            processes[e["pid"]] = e["args"]["name"]
        elif e["ph"] == "M" and e["name"] == "thread_name":
            threads[e["pid"], e["tid"]] = e["args"]["name"]
    several = {pid for pid, count in collections.Counter(pid for pid, _ in threads).items() if count > 1}
    return {key: processes[key[0]] + (f", {name}" if key[0] in several else "")
            for key, name in sorted(threads.items())}


def tip_of(event):
    args = event["args"]
    lines = [f"{event['name']}  {ns(event['dur']):,} ns", f"{args['layer']}  {args['op']}:{args['impl']}  step {args['step']}"]
    for key, what in (("flops", "FLOP"), ("weight_bytes", "bytes of weights"), ("row_bytes", "bytes of rows"),
                      ("wire_bytes", "bytes between ranks")):
        if args.get(key):
            lines.append(f"{args[key]:,} {what}, all ranks together")
    return "\n".join(lines)


def read_layer(path, name, layer, rows):
    """The passage to be drawn. rows: None takes the steps that have the most."""
    try:
        events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
        tracks = track_names(events)
        steps = [e for e in events if e["ph"] == "X" and e["cat"] in COLOURS]
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Problem(f"{path}: no trace; `weft run --trace` writes one") from None
    walks = collections.defaultdict(lambda: collections.defaultdict(list))
    for e in steps:
        if e["args"]["layer"] == layer or e["args"]["layer"].startswith(layer + "."):
            walks[e["args"]["walk"], e["args"]["rows"]][e["pid"], e["tid"]].append(e)
    if not walks:
        there = sorted({e["args"]["layer"].split(".")[0] for e in steps})
        raise Problem(f"{path}: no layer {layer}; there are {', '.join(there)}")
    counts = sorted({rows for _, rows in walks})
    rows = rows if rows is not None else counts[-1]
    passages = []
    for (_, count), by_track in walks.items():
        # Where a trace ends for want of room a passage may be cut.
        if count == rows and len(by_track) == len(tracks) and len({len(list_) for list_ in by_track.values()}) == 1:
            first = min(ns(e["ts"]) for list_ in by_track.values() for e in list_)
            made = {label: [Event(e["cat"], e["name"], ns(e["ts"]) - first, ns(e["ts"]) + ns(e["dur"]) - first,
                                  e["args"]["step"], tip_of(e)) for e in by_track[key]]
                    for key, label in tracks.items()}
            passages.append(Layer(name, rows, next(iter(by_track.values()))[0]["args"]["bucket"], made))
    if not passages:
        raise Problem(f"{path}: no whole passage of {layer} with {rows} rows; there are steps of {', '.join(map(str, counts))}")
    passages.sort(key=lambda p: p.length)
    return passages[(len(passages) - 1) // 2]


def tick_step(length, most=10):
    """The least of 1, 2, 5, 10, ... that needs at most so many."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if length / (step * factor) <= most:
                return step * factor
        step *= 10


def text(x, y, words, size=11, anchor="start", weight="normal", fill="#222", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{fill}"{more}>{escape(words)}</text>')


def place_labels(wanted, right):
    """[(x, words)] by x -> [(x, words, text's x, line)]: each in the lowest line with room, if there is one."""
    used = [float("-inf")] * LABEL_LINES
    placed = []
    for x, words in wanted:
        width = len(words) * CHARACTER
        begin = min(x - 3, right - width)
        for line in range(LABEL_LINES):
            if used[line] < begin:
                used[line] = begin + width + 8
                placed.append((x, words, begin, line))
                break
    return placed


def panel(layer, top, scale, right):
    """SVG of one trace's passage; returns it and the y below it."""
    out = [text(LEFT, top + 14, layer.name, 14, weight="bold")]
    shares = layer.shares()
    out.append(text(LEFT, top + 31, f"{layer.length:,} ns;  a worker's mean: " +
                    ",  ".join(f"{kind} {shares[kind]:,.0f}" for kind in COLOURS), fill="#555"))
    rows_top = top + TITLE + LABEL_LINE * LABEL_LINES + 6
    wanted = []
    for row, (label, events) in enumerate(layer.tracks.items()):
        y = rows_top + row * (ROW + GAP)
        out.append(text(LEFT - 8, y + ROW / 2 + 4, label, anchor="end"))
        for e in events:
            x, width = LEFT + e.start * scale, (e.end - e.start) * scale
            out.append(f'<rect class={quoteattr(e.kind)} x="{x:.2f}" y="{y}" width="{max(width, 0.4):.2f}" height="{ROW}" '
                       f'fill="{COLOURS[e.kind]}" stroke="{EDGES[e.kind]}" stroke-width="0.5">'
                       f'<title>{escape(e.tip)}</title></rect>')
            words = "wait" if e.kind == "wait" else e.name
            if len(words) * CHARACTER + 6 <= width:
                out.append(text(x + width / 2, y + ROW / 2 + 4, words, anchor="middle"))
            elif row == 0 and e.kind != "wait" and (not wanted or wanted[-1][1] != words):  # once for all phases
                wanted.append((x + width / 2, words))
    labels = [(x, words, at, rows_top - 8 - line * LABEL_LINE) for x, words, at, line in place_labels(wanted, right)]
    out += [f'<line x1="{x:.1f}" y1="{y + 3}" x2="{x:.1f}" y2="{rows_top}" stroke="#888" stroke-width="0.6"/>'
            for x, _, _, y in labels]
    # A white rim keeps them readable over the lines of others.
    out += [text(at, y, words, fill="#333", more=' stroke="white" stroke-width="3" paint-order="stroke"')
            for _, words, at, y in labels]
    return out, rows_top + len(layer.tracks) * (ROW + GAP) - GAP


def draw(layers, layer_name, width):
    length = max(layer.length for layer in layers)
    scale = (width - LEFT - RIGHT) / length
    right = width - RIGHT
    out = [text(LEFT, 26, f"{layer_name}, {layers[0].rows} row{'s' * (layers[0].rows != 1)}", 16, weight="bold")]
    x = right
    for kind in reversed(COLOURS):
        x -= len(kind) * 8 + 30
        out.append(f'<rect x="{x}" y="15" width="13" height="13" fill="{COLOURS[kind]}" stroke="{EDGES[kind]}"/>')
        out.append(text(x + 18, 26, kind, 12))
    y = 44
    grid_top = y + TITLE
    body = []
    for layer in layers:
        lines, y = panel(layer, y, scale, right)
        body += lines
        y += PANEL_GAP
    step = tick_step(length)
    for at in range(0, length + 1, step):
        x = LEFT + at * scale
        out.append(f'<line x1="{x:.1f}" y1="{grid_top}" x2="{x:.1f}" y2="{y - 8}" stroke="#eee"/>')
        out.append(text(x, y + 6, f"{at:,}", anchor="middle", fill="#555"))
    out.append(text((LEFT + right) / 2, y + 26, "ns since the layer's first step began", anchor="middle", fill="#555"))
    height = y + AXIS - 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<rect width="{width}" height="{height}" fill="white"/>\n'
            + "\n".join(out + body) + "\n</svg>\n")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], prog="timeline.py")
    parser.add_argument("traces", nargs="+", metavar="[NAME=]TRACE")
    parser.add_argument("--layer", required=True, help="as weft explain names it: L05 has L05.attn and L05.mlp")
    parser.add_argument("--rows", type=int, help="of the step; default: the most that the first trace has")
    parser.add_argument("--width", type=int, default=1280, help="of the picture in pixels [%(default)s]")
    parser.add_argument("-o", "--output", required=True, metavar="SVG")
    flags = parser.parse_args(arguments)
    try:
        if flags.width < 480:
            raise Problem(f"--width {flags.width}: at least 480")
        layers, rows = [], flags.rows
        for trace in flags.traces:
            name, equals, path = trace.partition("=") if "=" in trace else ("", "", trace)
            layers.append(read_layer(path, name if equals else pathlib.Path(path).stem, flags.layer, rows))
            rows = layers[0].rows
        pathlib.Path(flags.output).write_text(draw(layers, flags.layer, flags.width), encoding="utf-8")
    except Problem as problem:
        print(f"timeline.py: {problem}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"timeline.py: {flags.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
