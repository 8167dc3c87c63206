#!/usr/bin/python3
"""Looks at the demonstration's page in a headless Chromium: its figures move, and follow the load. Skipped
where there is none.

usage: demo_in_browser.py DEMO
"""

import pathlib
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(sys.argv[1]).parent))
try:
    import browser
except ImportError as missing:
    print(f"skipped: {missing}: scripts/bootstrap demo", file=sys.stderr)
    sys.exit(77)

from children import PATIENCE
from demo import Demo

WIDTHS = {"phone": 360, "desk": 1280}
MOST = 160


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.demo = cls.enterClassContext(Demo("--seconds", 300))
        cls.page = cls.enterClassContext(browser.Browser())
        cls.page.open(f"http://127.0.0.1:{cls.demo.port}/")

    def wait_for(self, condition, what):
        ends = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), ends, f"{what}: {self.page.text('body')}")
            time.sleep(0.1)

    def figure(self, name):
        """The number in an output, or -1 where there is none yet."""
        word = self.page.text("#" + name).split(" ")[0]
        return -1 if word in ("", "-") else float(word)

    def test_every_figure_shows(self):
        for name in "wakeups", "fired", "moved", "dropped", "lateness", "p99", "open", "echoes":
            self.wait_for(lambda name=name: self.figure(name) >= 0, name)
        self.wait_for(lambda: self.figure("wakeups") > 0 and self.figure("echoes") > 0, "wake-ups and echoes")
        self.assertEqual(self.page.run("return document.querySelectorAll('#levels tr').length"), 5)

    def test_the_wheel_turns(self):
        seen = set()

        def picture():
            seen.add(self.page.run("return document.getElementById('wheel').toDataURL()"))
            return len(seen) > 5
        self.wait_for(picture, "six pictures of the wheel")

    def test_each_ring_has_its_name(self):
        self.page.run("""window.written = new Set();
            const write = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
              window.written.add(text);
              write.call(this, text, ...where);
            };""")
        names = {"root", "level 1", "level 2", "level 3", "level 4"}
        self.wait_for(lambda: names <= set(self.page.run("return [...window.written]")), "names of rings")

    def test_a_spike_of_lateness_leaves_what_is_usual_legible(self):
        usual, spike = self.page.run("""return import("/chart.js").then(({ Chart }) => {
            const chart = new Chart(document.body, "x", "ms", 2, [{ id: "x", name: "", colour: "hand" }], { isLogarithmic: true });
            chart.add(1, [83]);
            chart.add(2, [1]);
            const figure = document.querySelector("body > figure");
            const points = figure.querySelector("polyline").getAttribute("points").split(" ");
            figure.remove();
            return points.map((point) => 1 - point.split(",")[1] / 80).reverse();
          })""")
        self.assertGreater(usual, 0.3)  # of the chart's height
        self.assertGreater(spike, usual)

    def test_what_is_seen_follows_the_load(self):
        for key, connections in ("END", MOST), ("HOME", 0):
            self.page.press("#connections", key)
            self.wait_for(lambda c=connections: abs(self.figure("open") - c) <= MOST / 10, "connections")
            self.assertEqual(self.figure("wanted"), connections)
        self.wait_for(lambda: self.figure("echoes") == 0, "silence")
        self.page.press("#connections", "END")
        self.wait_for(lambda: self.figure("echoes") > 0, "echoes")
        self.page.click("#burst")
        self.wait_for(lambda: self.figure("open") > MOST + MOST / 8, "a burst")

    def test_it_fits_a_phone_and_a_desk(self):
        for name, width in WIDTHS.items():
            self.page.resize(width, 800)
            self.assertLessEqual(self.page.run("return document.documentElement.scrollWidth"), width, name)

    def test_no_script_fails(self):
        self.assertEqual(self.page.complaints(), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
