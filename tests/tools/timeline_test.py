"""tools/timeline.py draws what a trace says: every event at its place, all panels on one axis."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import timeline  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def name(kind, pid, tid, text):
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}


def event(track, kind, words, start_ns, end_ns, layer="L05.attn", walk=0, rows=8, step=0):
    pid, tid = track
    return {"name": words, "cat": kind, "ph": "X", "pid": pid, "tid": tid, "ts": start_ns / 1000,
            "dur": (end_ns - start_ns) / 1000,
            "args": {"walk": walk, "rows": rows, "step": step, "phase": 0, "layer": layer, "op": words.split()[0],
                     "impl": "x", "bucket": f"body:{rows}", "weight_bytes": 7, "row_bytes": 0, "wire_bytes": 0, "flops": 9}}


TWO_RANKS = [name("process_name", 1, 1, "rank 0"), name("thread_name", 1, 1, "worker 0"),
             name("process_name", 2, 2, "rank 1"), name("thread_name", 2, 2, "worker 0")]


def passage(begin, length, **more):
    """Rank 0: compute, wait, exchange in the ratio 5 : 3 : 2; rank 1: compute and exchange, 8 : 2."""
    at = [begin + length * part // 10 for part in range(11)]
    return [event((1, 1), "compute", "matmul a_long_name", at[0], at[5], **more),
            event((1, 1), "wait", "wait group", at[5], at[8], **more),
            event((1, 1), "exchange", "all_reduce o", at[8], at[10], layer="L05", **more),
            event((2, 2), "compute", "matmul a_long_name", at[0], at[8], **more),
            event((2, 2), "wait", "wait group", at[8], at[8], **more),
            event((2, 2), "exchange", "all_reduce o", at[8], at[10], layer="L05", **more)]


class Drawing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trace(self, file, *events):
        whole = [{"name": "body", "cat": "plan", "ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {}}]
        (self.folder / file).write_text(json.dumps({"traceEvents": TWO_RANKS + whole + list(events), "otherData": {}}))
        return str(self.folder / file)

    def draw(self, *arguments):
        """(exit status, standard error, rects of each panel by class, all words)"""
        out, said = self.folder / "out.svg", io.StringIO()
        with contextlib.redirect_stderr(said):
            status = timeline.main([*arguments, "-o", str(out)])
        if status != 0:
            return status, said.getvalue(), [], []
        root = ElementTree.parse(out).getroot()
        rects = [r for r in root.iter(SVG + "rect") if r.get("class") in timeline.COLOURS]
        words = [t.text for t in root.iter(SVG + "text")]
        return status, said.getvalue(), rects, words

    def test_every_event_of_the_layer_is_a_box_at_its_place(self):
        path = self.trace("plain.json", *passage(5000, 1000), event((1, 1), "compute", "embed", 0, 400, layer="embed"),
                          event((1, 1), "compute", "matmul x", 6000, 9000, layer="L06"),
                          event((1, 1), "compute", "matmul y", 6000, 9000, layer="L050.attn"))
        status, said, rects, words = self.draw("--layer", "L05", path, "--width", "1118")
        self.assertEqual((status, said), (0, ""))
        scale = (1118 - timeline.LEFT - timeline.RIGHT) / 1000
        boxes = [(r.get("class"), float(r.get("x")), float(r.get("width"))) for r in rects]
        expected = [("compute", 0, 500), ("wait", 500, 300), ("exchange", 800, 200),
                    ("compute", 0, 800), ("wait", 800, 0.4 / scale), ("exchange", 800, 200)]
        self.assertEqual([b[0] for b in boxes], [e[0] for e in expected])
        for (_, x, width), (_, start, length) in zip(boxes, expected):
            self.assertAlmostEqual(x, timeline.LEFT + start * scale, delta=0.01)
            self.assertAlmostEqual(width, length * scale, delta=0.01)
        self.assertEqual(len({r.get("y") for r in rects}), 2, "a row for each rank")
        self.assertEqual({r.get("fill") for r in rects}, set(timeline.COLOURS.values()))
        for text in ("plain", "rank 0", "rank 1", "matmul a_long_name", "wait", "all_reduce o", "L05, 8 rows", "1,000",
                     "1,000 ns;  a worker's mean: compute 650,  exchange 200,  wait 150"):
            self.assertIn(text, words)
        tips = [r.find(SVG + "title").text for r in rects]
        self.assertIn("500 ns", tips[0])
        self.assertIn("9 FLOP, all ranks together", tips[0])

    def test_panels_share_one_axis(self):
        short, long_ = self.trace("a.json", *passage(0, 1000)), self.trace("b.json", *passage(77, 4000))
        _, _, rects, words = self.draw("--layer", "L05", f"sp={short}", long_)
        ends = [max(float(r.get("x")) + float(r.get("width")) for r in part) for part in (rects[:6], rects[6:])]
        self.assertAlmostEqual((ends[1] - timeline.LEFT) / (ends[0] - timeline.LEFT), 4, places=3)
        self.assertTrue({"sp", "b"} <= set(words))

    def test_the_step_of_median_length_among_those_with_the_rows_is_drawn(self):
        path = self.trace("a.json", *passage(0, 5000, walk=0, rows=1), *passage(10000, 1000, walk=1, rows=8),
                          *passage(20000, 9000, walk=2, rows=8), *passage(30000, 3000, walk=3, rows=8),
                          *passage(40000, 2000, walk=4, rows=8)[:4])
        self.assertEqual(timeline.read_layer(path, "a", "L05", None).length, 3000, "the cut one is none")
        self.assertEqual(timeline.read_layer(path, "a", "L05", 1).length, 5000)

    def test_workers_are_told_where_a_rank_has_several(self):
        events = [name("process_name", 1, 1, "rank 0"), name("thread_name", 1, 1, "worker 0"),
                  name("thread_name", 1, 2, "worker 1"), name("process_name", 2, 3, "rank 1"),
                  name("thread_name", 2, 3, "worker 0")]
        self.assertEqual(list(timeline.track_names(events).values()), ["rank 0, worker 0", "rank 0, worker 1", "rank 1"])

    def test_labels_do_not_overlap(self):
        placed = timeline.place_labels([(100 + 4 * i, "quantise x") for i in range(12)], 400)
        self.assertEqual([line for _, _, _, line in placed[:4]], [0, 1, 2, 3])
        for line in range(timeline.LABEL_LINES):
            begins = [at for _, _, at, on in placed if on == line]
            for before, after in zip(begins, begins[1:]):
                self.assertGreater(after, before + len("quantise x") * timeline.CHARACTER)

    def test_ticks_are_round_and_few(self):
        self.assertEqual([timeline.tick_step(n) for n in (9, 11, 29_000_000)], [1, 2, 5_000_000])

    def test_what_is_not_there_is_named_with_what_is(self):
        path = self.trace("a.json", *passage(0, 1000))
        (self.folder / "no.json").write_text("[1, 2")
        for arguments, said in ((["--layer", "L77", path], "no layer L77; there are L05"),
                                (["--layer", "L05", "--rows", "3", path], "with 3 rows; there are steps of 8"),
                                (["--layer", "L05", str(self.folder / "gone.json")], "gone.json: No such file"),
                                (["--layer", "L05", str(self.folder / "no.json")], "no.json: no trace"),
                                (["--layer", "L05", "--width", "3", path], "--width 3")):
            status, error, _, _ = self.draw(*arguments)
            self.assertEqual(status, 1)
            self.assertIn(said, error)


if __name__ == "__main__":
    unittest.main()
