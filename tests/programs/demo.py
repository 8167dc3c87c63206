#!/usr/bin/env python3
"""The page of docs/demo in a headless Chromium: its buttons, its sliders, and its counters beside the same run on the host.

usage: demo.py HOST_PROGRAM
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/pages"))
try:
    from browser import Browser
except ImportError as missing:
    print(f"skipped: {missing}: scripts/bootstrap demo")
    sys.exit(77)

FIGURES = "#worst0", "#all0", "#worst1", "#all1"


def number(text):
    return int(text.replace(",", ""))


def wait_for(page, selector, text):
    page.wait(lambda: page.text(selector) == text, f"{selector} to become {text}")


def test_counters_are_those_of_the_host(page):
    before = number(page.text("#ticks"))
    for _ in range(30):
        page.click("#step")
    wait_for(page, "#ticks", f"{before + 3000:,}")
    timers, delay, pushes = page.run("return ['timers', 'delay', 'pushes'].map((id) => Number(document.getElementById(id).value))")
    ran = subprocess.run([sys.argv[1], str(round(10**timers)), str(round(10**delay)), str(pushes), "3000"],
                         check=True, capture_output=True, text=True).stdout
    shown = [number(page.text(selector)) for selector in FIGURES]
    assert shown == [int(word) for word in ran.split()], (shown, ran)
    assert 0 < shown[0] < shown[2], f"tvec's worst tick is {shown[0]}, the other one's {shown[2]}"


def test_keys_move_sliders_and_begin_again(page):
    page.press("#timers", "ARROW_LEFT")
    page.wait(lambda: page.text("#all0") == "0", "the counters to begin again")
    assert number(page.text("#timers-is")) < 19_953


def test_it_goes_on_and_stops_by_its_button(page):
    page.click("#pause")
    before = number(page.text("#ticks"))
    page.wait(lambda: number(page.text("#ticks")) > before, "ticks to pass")
    page.click("#pause")
    assert page.text("#pause") == "Go on"


def test_it_fits_on_a_phone(page):
    page.resize(390, 844, dark=True)
    assert page.run("return document.documentElement.scrollWidth") <= 390


with tempfile.TemporaryDirectory() as folder:
    built = subprocess.run([ROOT / "docs/demo/build", folder], capture_output=True, text=True)
    if built.returncode == 77:
        print("skipped:", built.stderr.strip())
        sys.exit(77)
    assert built.returncode == 0, built.stderr
    with Browser() as page:
        page.resize(1100, 1000)
        page.open(f"file://{folder}/index.html?paused")
        page.wait(lambda: page.text("#ticks") != "0", "the page to show its wheels")
        for test in (test_counters_are_those_of_the_host, test_keys_move_sliders_and_begin_again,
                     test_it_goes_on_and_stops_by_its_button, test_it_fits_on_a_phone):
            test(page)
            print("ok", test.__name__)
        assert page.complaints() == [], page.complaints()
