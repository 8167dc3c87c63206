#!/usr/bin/python3
"""Looks at the page of `tvec-timers serve` in a headless Chromium. Skipped where there is none.

usage: page_in_browser.py TVEC_TIMERS
"""

import os
import sys
import unittest

try:
    import browser
except ImportError as missing:
    print(f"skipped: {missing}: scripts/bootstrap demo", file=sys.stderr)
    sys.exit(77)

from serving import Case, wait_for

Case.tool = sys.argv[1]
WIDTHS = {"phone": 360, "desk": 1280}


class Page(Case):
    @classmethod
    def setUpClass(cls):
        cls.page = cls.enterClassContext(browser.Browser())

    def setUp(self):
        super().setUp()
        self.fails = True
        hook = self.hook(lambda _: (500, {}, b"<script>document.title = 'taken'</script>") if self.fails else (200, {}, b""))
        self.put("far", in_ms=1_000_000)
        self.put(os.fsdecode(b"<script>document.title = 'taken'</script>\xff"))
        serve = self.serve(hook.to, "--page", "127.0.0.1:0", "--plan", "retry fixed 10ms | attempts 1")
        wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.page.open(serve.address())
        self.wait_for_text("#dead", "HTTP 500")

    def wait_for_text(self, selector, text):
        wait_for(lambda: text in self.page.text(selector), f"{text} in {selector}")

    def test_it_shows_what_there_is_and_runs_none_of_it(self):
        self.wait_for_text("#near", "far")
        self.wait_for_text("#stats", "waiting")
        self.wait_for_text("#dead", "<script>")
        self.assertEqual(self.page.run("return document.title"), "tvec-timers")
        self.assertEqual(self.page.run("return document.querySelectorAll('script').length"), 1)
        self.assertEqual(self.page.complaints(), [])

    def test_its_buttons_revive_and_purge(self):
        self.page.click("#dead button")  # revive: it fails again
        self.wait_for_text("#state", "revived")
        wait_for(lambda: self.json_of("dead"), "it is dead again")
        self.wait_for_text("#dead", "HTTP 500")
        self.page.click("#dead button + button")
        self.wait_for_text("#state", "purged")
        self.assertEqual(self.json_of("dead"), [])

    def test_it_fits_a_phone_and_a_desk(self):
        for name, width in WIDTHS.items():
            self.page.resize(width, 800)
            self.assertLessEqual(self.page.run("return document.documentElement.scrollWidth"), width, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
