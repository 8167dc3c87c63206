#!/usr/bin/python3
"""Looks at the site that scripts/pages/docs has made, in a headless Chromium: no page is wider than a phone or a desk, and the
search finds names, headings and what stands below them. Skipped where there is none.

usage: site_in_browser.py FOLDER_OF_HTML
"""

import io
import pathlib
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "scripts"))
try:
    from PIL import Image, ImageStat

    import browser
except ImportError as missing:
    print(f"skipped: {missing}: scripts/bootstrap demo", file=sys.stderr)
    sys.exit(77)

from children import PATIENCE

SITE = pathlib.Path(sys.argv[1]).resolve()
WIDTHS = {"phone": 360, "desk": 1280}
FOUND = 'return [...document.querySelectorAll("#MSearchResultsWindow a")].map((e) => e.innerText)'


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = cls.enterClassContext(browser.Browser())

    def open(self, name):
        self.assertTrue((SITE / name).is_file(), name)
        self.page.open((SITE / name).as_uri())

    def test_no_page_is_wider_than_the_screen(self):
        guides = [f"{path.stem.replace('_', '-')}.html" for path in (ROOT / "docs").glob("*.md") if path.stem != "README"]
        for width in WIDTHS.values():
            self.page.resize(width, 800)
            for name in [*guides, "index.html", "readme.html", "examples-servers-server-options-hpp.html", "pages.html", "annotated.html", "files.html", "functions.html",
                         "classtvec_1_1timer__wheel.html", "tvec_8h.html", "timer__wheel_8hpp.html"]:
                self.open(name)
                self.assertLessEqual(self.page.run("return document.documentElement.scrollWidth"), width, name)

    def test_no_table_of_three_columns_is_cut_on_a_phone(self):
        self.page.resize(WIDTHS["phone"], 800)
        for path in sorted((ROOT / "docs").glob("*.md")):
            if path.stem != "README":
                self.open(f"{path.stem.replace('_', '-')}.html")
                cut = self.page.run("""return [...document.querySelectorAll("table.markdownTable")].filter(
                    (table) => table.rows[0].cells.length <= 3 && table.scrollWidth > table.clientWidth)
                    .map((table) => table.rows[0].innerText)""")
                self.assertEqual(cut, [], path.name)

    def test_code_in_a_table_stands_in_its_line(self):
        self.page.resize(WIDTHS["desk"], 800)
        self.open("which-arm.html")
        displays = self.page.run("""return [...new Set([...document.querySelectorAll("td code")].map(
            (code) => getComputedStyle(code).display))]""")
        self.assertEqual(displays, ["inline"])

    def search(self, words, title):
        self.open("index.html")
        self.page.find("#MSearchField").send_keys(words)
        ends = time.monotonic() + PATIENCE
        while not any(found.startswith(title) for found in self.page.run(FOUND)):
            self.assertLess(time.monotonic(), ends, words)
            time.sleep(0.1)

    def test_the_search_finds_names_and_headings(self):
        self.page.resize(WIDTHS["desk"], 800)
        for words, title in [("arm_within", "arm_within"), ("started", "Get started in five minutes"),
                             ("worst ca", "The worst call"), ("nginx", "nginx")]:
            self.search(words, title)

    def test_the_search_finds_phrases_of_guides_and_of_headers(self):
        self.page.resize(WIDTHS["phone"], 800)
        self.search("grid that begins at the origin", "tvec::clocked_wheel")
        self.search("as many other timers as possible", "arm_within()")  # one sentence is all that is said of it
        self.search("推迟、取消", "tvec")
        self.search("somebody has to call run", "2. A timer")
        self.assertLessEqual(self.page.run("return document.documentElement.scrollWidth"), WIDTHS["phone"])
        self.page.find("#MSearchResultsWindow a").click()
        self.assertTrue(self.page.run("return location.href").endswith("/start.html#start_2-a-timer"))

    def test_in_the_dark_pages_are_dark(self):
        for dark in False, True:
            self.page.resize(WIDTHS["desk"], 800, dark)
            self.open("start.html")
            lightness = ImageStat.Stat(Image.open(io.BytesIO(self.page.picture())).convert("L")).median[0] / 255
            self.assertTrue(lightness < 0.3 if dark else lightness > 0.7, lightness)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
