#!/usr/bin/env python3
"""Compares the times of rules with those that other programs find.

usage: calendars.py CALENDAR_TIMES [SHARE]

Recurrence rules are compared with python3-dateutil. At changes of the clock, in every zone of the system, rules are compared
with a search that looks at each instant by Python's zoneinfo. SHARE is a percentage of both: 100 takes minutes (default: 2).
"""

import datetime
import pathlib
import random
import signal
import subprocess
import sys
import unittest
import zoneinfo

try:
    from dateutil.rrule import rruleset, rrulestr
except ImportError:
    rrulestr = None

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


class Calendars(unittest.TestCase):
    def setUp(self):
        self.times = Times()
        self.addCleanup(self.times.close)


# --- recurrence rules, beside dateutil ---------------------------------------------------------------------------------

WEEKDAYS = "MO TU WE TH FR SA SU".split()


def some_of(low, high, both_ends=False):
    chosen = random.sample(range(low, high + 1), random.randint(1, 3))
    return ",".join(str(-n if both_ends and random.random() < 0.4 else n) for n in chosen)


def random_rule():
    """A rule that RFC 5545 allows, and that no two programs read in different ways."""
    freq = random.choice("YEARLY MONTHLY WEEKLY DAILY HOURLY MINUTELY SECONDLY".split())
    within_a_day = freq in ("HOURLY", "MINUTELY", "SECONDLY")
    parts = {"FREQ": freq}

    def maybe(chance, name, value):
        if random.random() < chance:
            parts[name] = value()

    maybe(0.4, "INTERVAL", lambda: random.choice([1, 2, 3, 4, 5, 7, 12, 13, 24, 90]))
    maybe(0.3, "BYMONTH", lambda: some_of(1, 12))
    maybe(0.35, "BYDAY", lambda: ",".join(random.sample(WEEKDAYS, random.randint(1, 3))))
    if freq == "YEARLY" and "BYDAY" in parts:
        maybe(0.3, "BYWEEKNO", lambda: some_of(2, 51, True))  # dateutil loses days of weeks in two years
    if freq in ("YEARLY", "MONTHLY") and "BYDAY" in parts and "BYWEEKNO" not in parts and random.random() < 0.5:
        # All of them have a number: dateutil wants both of 1MO and WE on one day.
        parts["BYDAY"] = ",".join(random.choice(["1", "2", "-1", "5", "+3", "-2", "-5"]) + day
                                  for day in parts["BYDAY"].split(","))
    if freq == "YEARLY" or within_a_day:
        maybe(0.15, "BYYEARDAY", lambda: some_of(1, 366, True))
    if freq != "WEEKLY":
        maybe(0.25, "BYMONTHDAY", lambda: some_of(1, 31, True))
    maybe(0.25, "BYHOUR", lambda: some_of(0, 23))
    maybe(0.25, "BYMINUTE", lambda: some_of(0, 59))
    maybe(0.2, "BYSECOND", lambda: some_of(0, 59))
    if any(name.startswith("BY") for name in parts):
        maybe(0.2, "BYSETPOS", lambda: some_of(1, 5, True))
    maybe(0.2, "WKST", lambda: random.choice(WEEKDAYS))
    maybe(0.2, "COUNT", lambda: random.randint(1, 12))
    start = datetime.datetime(random.randint(1998, 2030), random.randint(1, 12), random.randint(1, 28),
                              random.randint(0, 23), random.choice([0, 30, 17]), random.choice([0, 0, 5]))
    if freq == "WEEKLY" and "BYSETPOS" in parts:
        # dateutil leaves the days before the start out of the first week, but not out of the first month or year.
        start -= datetime.timedelta(days=(start.weekday() - WEEKDAYS.index(parts.get("WKST", "MO"))) % 7)
    if "COUNT" not in parts:
        maybe(0.2, "UNTIL", lambda: (start + datetime.timedelta(days=random.randint(1, 2000))).strftime("%Y%m%dT%H%M%SZ"))
    return ";".join(f"{name}={value}" for name, value in parts.items()), start


class TooLong(Exception):
    pass


def within(seconds, find):
    """What `find` returns, or None if it takes longer: dateutil may search for hours."""
    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return find()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # the signal may come until here
    except TooLong:
        return None
    finally:
        signal.signal(signal.SIGALRM, before)


def times_of_dateutil(rule, start, count, left_out=()):
    try:
        rules = rruleset()
        rules.rrule(rrulestr("RRULE:" + rule.replace("Z", ""), dtstart=start))
        for time in left_out:
            rules.exdate(datetime.datetime.fromtimestamp(time, UTC).replace(tzinfo=None))
        return [int(t.replace(tzinfo=UTC).timestamp()) for t, _ in zip(rules, range(count))]
    except ValueError as e:
        if "empty" not in str(e):  # a rule without times
            raise
        return []


@unittest.skipUnless(rrulestr, "there is no python3-dateutil")
class Recurrence(Calendars):
    def test_random_rules_have_the_times_that_dateutil_finds(self):
        random.seed(SHARE)
        compared = 0
        for _ in range(100 * SHARE):
            rule, start = random_rule()
            wanted = within(0.1, lambda: times_of_dateutil(rule, start, 12))
            if wanted is None:
                continue
            text = f"rrule DTSTART={start:%Y%m%dT%H%M%S};{rule}"
            if wanted and random.random() < 0.3:
                left_out = random.sample(wanted, random.randint(1, len(wanted)))
                wanted = within(0.1, lambda: times_of_dateutil(rule, start, 12, left_out))
                if wanted is None:
                    continue
                text += ";EXDATE=" + ",".join(f"{datetime.datetime.fromtimestamp(t, UTC):%Y%m%dT%H%M%S}" for t in left_out)
            with self.subTest(text):
                self.assertEqual(self.times.after(text, "", 0, 12), wanted)
            compared += 1
        self.assertGreater(compared, 50 * SHARE)


# --- changes of the clock, beside a search through all instants ---------------------------------------------------------

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
    ("rrule DTSTART=19690101T013000;FREQ=DAILY", None, [1], [30], [0], False),
    ("rrule DTSTART=19690101T000000;FREQ=WEEKLY;BYDAY=SU,FR;BYHOUR=0,1,2,23;BYMINUTE=10", [6, 4], [0, 1, 2, 23], [10], [0], False),
    ("rrule DTSTART=19690101T000500;FREQ=HOURLY", None, HOURS, [5], [0], True),
    ("rrule DTSTART=19690101T000000;FREQ=MINUTELY;INTERVAL=30", None, HOURS, [0, 30], [0], True),
    ("rrule DTSTART=19690101T000000;FREQ=SECONDLY;INTERVAL=900;BYHOUR=1,2", None, [1, 2], [0, 15, 30, 45], [0], True),
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


class ClockChanges(Calendars):
    def test_rules_keep_their_promises_at_changes_of_the_clock_in_all_zones(self):
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
