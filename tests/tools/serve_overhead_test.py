"""bench/serve_overhead.py reads streams as they came: no token is lost at a border of packets or chunks."""
import http.server
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import serve_overhead  # noqa: E402

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def text(piece):
    return event({"choices": [{"text": piece}]})


def usage(tokens):
    return event({"choices": [], "usage": {"completion_tokens": tokens}})


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Reading(unittest.TestCase):
    def test_every_cut_of_the_bytes_tells_the_same_stream(self):
        # A comment, an event in two chunks, two events in one, and one without text.
        whole = HEAD + chunk(b": ping\n\n") + chunk(text("a")[:9]) + chunk(text("a")[9:]) + \
            chunk(text("b") + text("c")) + chunk(text("")) + chunk(usage(4)) + chunk(event(b"[DONE]")) + b"0\r\n\r\n"
        for cut in range(1, len(whole)):
            stream = serve_overhead.read_stream(0.5, [(1.0, whole[:cut]), (2.0, whole[cut:])])
            self.assertEqual((len(stream.times), stream.tokens), (3, 4), cut)
            self.assertTrue(all(t in (1.0, 2.0) for t in stream.times) and stream.times == sorted(stream.times), cut)

    def test_an_event_has_the_time_of_its_last_byte(self):
        first, second = chunk(text("a")), chunk(text("b"))
        stream = serve_overhead.read_stream(0.5, [(1.0, HEAD + first[:-3]), (2.0, first[-3:] + second),
                                                  (3.0, chunk(usage(2)) + b"0\r\n\r\n")])
        self.assertEqual(stream.times, [2.0, 2.0])
        self.assertEqual(stream.first_ms, 1500)
        stream = serve_overhead.read_stream(0.5, [(1.0, HEAD + first[:-2]), (2.0, first[-2:] + second),
                                                  (3.0, chunk(usage(2)) + b"0\r\n\r\n")])
        self.assertEqual(stream.times, [1.0, 2.0])

    def test_errors_are_not_streams(self):
        for pieces in ([(1.0, b"HTTP/1.1 429 Too Many Requests\r\n\r\n{}")],
                       [(1.0, HEAD + chunk(event({"error": {"message": "no"}})) + b"0\r\n\r\n")],
                       [(1.0, HEAD + chunk(text("a")) + b"0\r\n\r\n")]):
            with self.assertRaises(RuntimeError):
                serve_overhead.read_stream(0.0, pieces)


class Rates(unittest.TestCase):
    def test_only_the_time_in_which_all_decode_counts(self):
        early = serve_overhead.Stream(0.0, [1.0, 2.0, 3.0, 4.0, 5.0], 5)
        late = serve_overhead.Stream(0.0, [3.0, 4.0, 5.0, 6.0, 7.0], 5)
        self.assertEqual(serve_overhead.decode_rate([early]), 1.0)
        self.assertEqual(serve_overhead.decode_rate([early, late]), 2.0)
        self.assertEqual(serve_overhead.output_rate([early, late]), 10 / 7)

    def test_tokens_that_were_told_together_count_each(self):
        merged = serve_overhead.Stream(0.0, [1.0, 2.0, 3.0], 6)
        self.assertEqual(serve_overhead.decode_rate([merged]), 2.0)

    def test_streams_that_never_meet_have_no_rate(self):
        with self.assertRaises(RuntimeError):
            serve_overhead.decode_rate([serve_overhead.Stream(0.0, [1.0, 2.0], 2),
                                        serve_overhead.Stream(0.0, [3.0, 4.0], 2)])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = staticmethod(lambda *_: None)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(body["max_tokens"]):
            self.wfile.write(chunk(text("x")))
        self.wfile.write(chunk(usage(body["max_tokens"])) + b"0\r\n\r\n")


class Running(unittest.TestCase):
    def test_all_streams_of_a_server_are_read_to_their_end(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bodies = [json.dumps({"max_tokens": n}).encode() for n in (3, 50, 400)]
        streams = serve_overhead.run_streams(server.server_port, bodies)
        self.assertEqual([(len(s.times), s.tokens) for s in streams], [(3, 3), (50, 50), (400, 400)])
        self.assertTrue(all(s.sent < s.times[0] for s in streams))


if __name__ == "__main__":
    unittest.main()
