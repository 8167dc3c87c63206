"""A headless Chromium, which asks nobody but the page that it is given."""

import base64
import os
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
QUIETLY = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars")

for program in CHROMIUM, DRIVER:
    if not os.access(program, os.X_OK):
        raise ImportError(f"No program '{program}'")


class Browser:
    """`flags`: besides those that keep it quiet."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chromium")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in *QUIETLY, *self.flags, f"--user-data-dir={self.folder.name}":
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options=options, service=Service(
            DRIVER, log_path=os.devnull, env={**os.environ, "HOME": self.folder.name}))
        return self

    def __exit__(self, *_):
        self.driver.quit()
        self.folder.cleanup()

    def open(self, address):
        self.driver.get(address)

    def resize(self, width, height, dark=False):
        """As a screen of so many pixels, in the light or in the dark."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def picture(self):
        """What is on the screen, as PNG."""
        seen = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        return base64.b64decode(seen["data"])

    def run(self, script):
        return self.driver.execute_script(script)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """What it says; elements are written anew while this asks."""
        return self.run(f"return document.querySelector('{selector}').innerText")

    def wait(self, is_so, what, seconds=120):
        """Until it is so; frames come at the machine's pace."""
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"waited for {what}"
            time.sleep(0.05)

    def press(self, selector, key):
        self.find(selector).send_keys(getattr(Keys, key))

    def click(self, selector):
        self.find(selector).click()

    def complaints(self):
        """What the page has written into the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
