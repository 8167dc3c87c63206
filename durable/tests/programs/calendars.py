#!/usr/bin/env python3
"""Compares the times of rules at changes of the clock, in the zones of the system, with a search that looks at each instant by
Python's zoneinfo.

usage: calendars.py CALENDAR_TIMES [SHARE]

SHARE is a percentage of the zones: 100 takes minutes (default: 2).
"""

import datetime
import pathlib
import random
import subprocess
import sys
import unittest
import zoneinfo

PROGRAM = sys.argv[1]
SHARE = int(sys.argv[2]) if len(sys.argv) > 2 else 2
UTC = datetime.timezone.utc


class Times:
    """The program under test. It answers line by line."""

    def __init__(self):
        self.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self):
        self.program.stdin.close()
        self.program.wait()
        self.program.stdout.close()

    def after(self, rule, zone, after, count):
        """Up to `count` times after the second `after`, in seconds since 1970."""
        print(zone, after * 1000, count, rule, sep="|", file=self.program.stdin, flush=True)
        answer = self.program.stdout.readline().strip()
        assert not answer.startswith("fault"), f"{rule}: {answer}"
        return [int(word) for word in answer.split()]


# Rules, their weekdays (0 is Monday) or None, and their hours, minutes and seconds. The last item: the rule is a rhythm.
EVERY = range(60)
HOURS = range(24)
AT_CHANGES = [
    ("cron 30 2 * * *", None, [2], [30], [0], False),
    ("cron 0 0 * * *", None, [0], [0], [0], False),
    ("cron 15,45 0-3 * * *", None, range(4), [15, 45], [0], False),
    ("cron 20 10 2 * * sun", [6], [2], [10], [20], False),
    ("cron */20 * * * *", None, HOURS, range(0, 60, 20), [0], True),
    ("cron 30 */2 * * *", None, range(0, 24, 2), [30], [0], True),
    ("cron * 1-2 * * *", None, [1, 2], EVERY, [0], True),
    ("cron 10 0-2,23 * * sun,fri", [6, 4], [0, 1, 2, 23], [10], [0], False),
    ("cron 5 * * * *", None, HOURS, [5], [0], True),
    ("cron 0/30 * * * *", None, HOURS, [0, 30], [0], True),
    ("cron */15 1,2 * * *", None, [1, 2], [0, 15, 30, 45], [0], True),
]
DAY = 86_400


class Clock:
    """The local clock of a zone, by Python's zoneinfo."""

    def __init__(self, name):
        self.zone = zoneinfo.ZoneInfo(name)

    def offset(self, instant):
        return int(datetime.datetime.fromtimestamp(instant, self.zone).utcoffset().total_seconds())

    def changes(self, first, end):
        """The instants in a span from which the offset is another. No two of them lie within 12 hours."""
        step = DAY // 2
        found = []
        for low in range(first, end, step):
            high = low + step
            if self.offset(low) == self.offset(high):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.offset(middle) == self.offset(low) else (low, middle)
            found.append(high)
        return found


def start_of(year):
    return int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp())


def local_times(rule, first, end):
    """The local times of a rule in a span, in seconds since 1970 on the local clock: day by day."""
    _, weekdays, hours, minutes, seconds, _ = rule
    for day in range(first // DAY * DAY, end, DAY):
        if weekdays is None or (day // DAY + 3) % 7 in weekdays:
            for hour in hours:
                for minute in minutes:
                    for second in seconds:
                        yield day + hour * 3600 + minute * 60 + second


def instants(rule, clock, change, first, end):
    """The instants of a rule in (first, end]. Only one change lies near them."""
    before, after = clock.offset(change - 1), clock.offset(change)
    found = set()
    for local in local_times(rule, first - 2 * DAY, end + 2 * DAY):
        passes = [local - before] if local - before < change else []
        passes += [local - after] if local - after >= change else []
        if rule[5]:
            found.update(passes)
        else:
            found.add(passes[0] if passes else change)
    return sorted(t for t in found if first < t <= end)


def distinct_zones():
    """A name for each zone of the system that has a history of its own."""
    by_content = {}
    for name in sorted(zoneinfo.available_timezones()):
        file = next(file for folder in zoneinfo.TZPATH if (file := pathlib.Path(folder, name)).exists())
        by_content.setdefault(file.read_bytes(), name)
    return sorted(by_content.values())


class ClockChanges(unittest.TestCase):
    def setUp(self):
        self.times = Times()
        self.addCleanup(self.times.close)

    def test_rules_hold_at_clock_changes_in_all_zones(self):
        zones = distinct_zones()
        self.assertGreater(len(zones), 300)
        random.seed(SHARE)
        compared = 0
        for name in random.sample(zones, max(1, len(zones) * SHARE // 100)):
            clock = Clock(name)
            changes = clock.changes(3 * DAY, start_of(2040)) + clock.changes(start_of(2600), start_of(2602))
            for before, change in zip([-DAY * 9] + changes, changes):
                self.assertGreater(change - before, 5 * DAY, f"{name}: `instants` looks at one change alone")
                for rule in AT_CHANGES:
                    after = change + random.choice([-DAY, -5400, -3601, -1800, -1, 0, 1, 1800, 3599])
                    self.check(rule, name, clock, change, after)
                    compared += 1
        self.assertGreater(compared, 100)

    def check(self, rule, name, clock, change, after):
        wanted = instants(rule, clock, change, after, change + DAY)
        found = self.times.after(rule[0], name, after, len(wanted))
        if found != wanted:
            self.fail(f"{rule[0]} in {name} after {after}, at the change {change}: {found}, expected {wanted}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
