"""Compares the windows of calendars with what Python's zoneinfo says of the same tz database.

windows.py PROGRAM ZONES INSTANTS SEED: PROGRAM is print_windows; of so many zones, by chance, or of all
(0), at each transition from 1970 to 2037, and at so many instants more. Prints what differs.
"""

import bisect
import datetime
import random
import struct
import subprocess
import sys
import zoneinfo

EPOCH = datetime.date(1970, 1, 1).toordinal()
DAY = 86400
FIRST = 0
LAST = 2145916800  # 2038-01-01
CALENDARS = [("day", 1), ("week", 1)] + [(unit, starts) for unit in ("month", "quarter", "year") for starts in (1, 15, 28)]
# What is rare elsewhere: days that are skipped or doubled, two midnights, odd minutes, other centuries' offsets.
ALWAYS = ["UTC", "Europe/Berlin", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kanton", "America/Havana", "Atlantic/Azores",
          "America/St_Johns", "America/Sao_Paulo", "Africa/Cairo", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia",
          "America/Nuuk", "Africa/Casablanca", "Asia/Gaza", "Antarctica/Troll", "Europe/Dublin", "Asia/Pyongyang", "America/Caracas"]


def transitions_of(name):
    """The instants of a zone's file, of its second part, which has 64 bits."""
    for folder in zoneinfo.TZPATH:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                data = file.read()
            break
        except FileNotFoundError:
            continue

    def counts(at):
        return struct.unpack(">6l", data[at + 20:at + 44])

    is_utc, is_standard, leaps, times, types, letters = counts(0)
    second = 44 + times * 5 + types * 6 + letters + leaps * 8 + is_standard + is_utc
    times = counts(second)[3]
    return list(struct.unpack(f">{times}q", data[second + 44:second + 44 + 8 * times]))


class Zone:
    def __init__(self, name):
        self.name = name
        self.zone = zoneinfo.ZoneInfo(name)
        self.transitions = transitions_of(name)
        self.begins = {}

    def offset(self, time):
        return int(datetime.datetime.fromtimestamp(time, self.zone).utcoffset().total_seconds())

    def day(self, time):
        return (time + self.offset(time)) // DAY

    def begin_of(self, day):
        """The first instant at which the zone's clocks show that day's midnight, or a later time."""
        if day not in self.begins:
            midnight = day * DAY
            low, high = midnight - 30 * 3600, midnight + 30 * 3600
            at = bisect.bisect_right(self.transitions, low)
            begin = low
            while True:
                end = self.transitions[at] if at < len(self.transitions) else high
                time = max(begin, midnight - self.offset(begin))
                if time < end or end >= high:
                    self.begins[day] = time
                    break
                begin, at = end, at + 1
        return self.begins[day]


def first_days(unit, starts, day):
    """First days of windows around a day, more than enough of them."""
    date = datetime.date.fromordinal(day + EPOCH)
    if unit == "day":
        return range(day - 4, day + 5)
    if unit == "week":
        monday = day - date.weekday()
        return range(monday - 21, monday + 22, 7)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    of_year = (date.year * 12 + date.month - 1) // months * months
    days = []
    for month in range(of_year - 3 * months, of_year + 4 * months, months):
        days.append(datetime.date(month // 12, month % 12 + 1, starts).toordinal() - EPOCH)
    return days


def boundaries(zone, unit, starts, time):
    begins = sorted({zone.begin_of(day) for day in first_days(unit, starts, zone.day(time))})
    at = bisect.bisect_right(begins, time)
    return begins[at - 2:at + 2]


def main():
    program, count, instants, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    names = sorted(name for name in zoneinfo.available_timezones() if name not in ("localtime", "posixrules", "Factory"))
    if count > 0:
        names = sorted(set(ALWAYS) | set(chance.sample(names, count)))
    compared = differences = 0
    for name in names:
        zone = Zone(name)
        times = [time + step for time in zone.transitions for step in (-1, 0) if FIRST <= time < LAST]
        times += [chance.randrange(FIRST, LAST) for _ in range(instants)]
        text = "".join(f"{name} {unit} {starts}\n" + "".join(f"{time}\n" for time in times) for unit, starts in CALENDARS)
        said = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
        lines = said.stdout.splitlines()
        if said.returncode != 0 or len(lines) != len(times) * len(CALENDARS):
            print(f"{name}: {program} says {said.stdout[:200]}{said.stderr[:200]}")
            differences += 1
            continue
        line = iter(lines)
        for unit, starts in CALENDARS:
            for time in times:
                expected = " ".join(map(str, boundaries(zone, unit, starts, time)))
                found = next(line)
                compared += 1
                if found != expected:
                    differences += 1
                    if differences <= 20:
                        print(f"{name} {unit} starts={starts} at {time}: {found}, expected {expected}")
    print(f"{len(names)} zones, {compared} instants, {differences} differences")
    return 1 if differences else 0


sys.exit(main())
