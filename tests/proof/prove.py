#!/usr/bin/python3
"""usage: prove.py [-v] [NAME...]

Proves the lemmas of docs/testing.md ("Proofs"), or those that are named, for all values of 64 bits and all shapes of
the wheel. Each has controls: wrong variants of the library for which Z3 must find a counterexample. -v shows these."""

import sys
import time

import z3
from translation import END, END32, LARGE, NEVER, SHAPES, SMALL, TINY, Library, Word, both, choose, is_less_signed, negated

LEMMAS = []


def lemma(*controls, shapes=SHAPES, wraps=True):
    """A lemma is a function: for a library it yields cases of a name, premises and a conclusion. A control is a
    dictionary of wrong functions."""
    def add(cases):
        LEMMAS.append((cases, controls, shapes, wraps))
        return cases
    return add


def variables(names):
    make = (lambda name: z3.BitVec(name, 64)) if Word.wraps else z3.Int
    return [Word(make(name)) for name in names.split()]


def refutation(premises, conclusion, once_true):
    """The counterexample, in ticks and counts, or None. If `once_true`, the premises must be possible."""
    bits = z3.Then("simplify", "propagate-values", "solve-eqs", "bit-blast", "sat")
    for goal in (z3.BoolVal(not once_true), z3.And(conclusion, *Word.claims)):
        solver = bits.solver() if Word.wraps else z3.Solver()
        solver.set("rlimit", 1_000_000_000)  # steps: the same on a busy machine
        solver.add(*(p for p in premises if p is not True), *Word.facts, z3.Not(goal))
        result = solver.check()
        if z3.is_false(goal):
            if result == z3.unsat:
                return "nothing fulfils the premises"
        elif result == z3.sat:
            model = solver.model()
            return ", ".join(sorted(f"{v} = {model[v]}" for v in model.decls()
                                    if v.arity() == 0 and "!" not in str(v) and not z3.is_array(model[v])))
        elif result == z3.unknown:
            return "neither proved nor refuted in so many steps"
    return None


def refute(cases, library, once_true=False):
    """The first case with a counterexample, and their number."""
    number = 0
    Word.facts, Word.claims, Word.factors = [], [], []
    for name, premises, conclusion in cases(library):
        number += 1
        found = refutation(premises, conclusion, once_true)
        if found is not None:
            return f"{name}: {found}", number
        Word.facts, Word.claims = [], []
    return None, number


def prove(cases, controls, shapes, wraps, shown):
    """Returns whether the lemma holds, and whether each control is refuted."""
    Word.wraps = wraps
    begin, number, good = time.process_time(), 0, True
    for shape in shapes:
        found, n = refute(cases, Library(shape), once_true=shape == shapes[0])
        number += n
        if found is not None:
            wheels = {SMALL: " with small wheels", LARGE: " with large wheels", TINY: " with tiny wheels"}[shape]
            print(f"{cases.__name__}: REFUTED{wheels}, {found}")
            good = False
    for i, control in enumerate(controls):
        found, _ = refute(cases, type("Wrong", (Library,), control)(shapes[0]))
        if found is None or "=" not in found:
            print(f"{cases.__name__}: control {i + 1} is not refuted: {found}")
            good = False
        elif shown:
            print(f"  control {i + 1} ({', '.join(control)}): {found}")
    print(f"{cases.__name__}: {'proved' if good else 'FAILED'}, {number} cases, {len(controls)} controls,"
          f" {time.process_time() - begin:.1f} s", flush=True)
    return good


# --- placement: a timer armed for `at` at tick `now` ---------------------------------------------------------------


def ticks_to(at, now):
    return [now <= at, at < NEVER]


def on_level(lib, level, at, now):
    """That a delay goes to this level."""
    delay = at - now
    least = lib.reach_of(level - 1) if level else 0
    return [*ticks_to(at, now), delay >= least, *([delay < lib.reach_of(level)] if level < lib.overflow else [])]


def is_free(bit, lap):
    """Whether the slot of that bit of the overflow may hold timers in that lap, and is not emptied in it."""
    return ((lap >> bit) & 1) == 0


def visit_in_overflow(lib, bit, now):
    """When that bit of the lap has become 1, and the lower ones 0, at the end of the lap."""
    return (((lib.lap_at(now) >> bit | 1) << bit) + 1) * lib.width_of(lib.overflow)


def in_overflow(lib):
    """Yields each slot of the overflow, and its visit, with a timer that goes there."""
    for bit in range(lib.ring_of(lib.overflow)):
        at, now = variables("at now")
        s = lib.first_slots[lib.overflow] + bit
        there = on_level(lib, lib.overflow, at, now) + [lib.overflow_slot_for(at, now) == s]
        yield bit, s, visit_in_overflow(lib, bit, now), at, now, there


@lemma({"level_of": lambda lib, delta, level=0: Library.level_of(lib, delta >> 1, level)})
def delays_go_to_the_lowest_sufficient_level(lib):
    for level in range(lib.levels + 1):
        at, now = variables("at now")
        s = lib.slot_for(at, now)
        where = s == (lib.beyond if level == lib.overflow else lib.slot_at(level, at))
        yield (f"level {level}", on_level(lib, level, at, now),
               z3.And((lib.level_of(at - now) == level), lib.level_for(at, now) == level, where))


@lemma({"level_of": lambda lib, delta, level=0: Library.level_of(lib, delta >> 1, level)},
       {"slot_at": lambda lib, level, tick: Library.slot_at(lib, level, tick + 1)})
def visits_come_at_their_slots_first_tick(lib):
    for level in range(lib.levels):
        at, now = variables("at now")
        s = lib.slot_for(at, now)
        visit, first = lib.visit_of(level, s, now), lib.first_slots[level]
        yield (f"level {level}", on_level(lib, level, at, now),
               z3.And(visit == lib.entry_of(level, at), visit <= at, z3.Or(visit > now, at == now), s >= first,
                      s < first + lib.ring_of(level), first + lib.ring_of(level) <= lib.first_slots[level + 1]))


@lemma({"level_of": lambda lib, delta, level=0: Library.level_of(lib, delta << 1, level)})
def no_timer_joins_a_slot_being_emptied(lib):
    for level in range(1, lib.levels):
        at, now = variables("at now")
        ahead = (at >> lib.shift_of(level)) - (now >> lib.shift_of(level))
        yield (f"level {level}", ticks_to(at, now) + [lib.level_of(at - now) == level],
               z3.And(ahead >= 2, ahead <= lib.ring_of(level),
                      z3.Or(ahead < lib.ring_of(level), lib.entry_of(level, now) != now)))


@lemma({"visit_of": lambda lib, level, s, now: lib.entry_of(level, now) + (
    (s - lib.slot_at(level, now)) & (lib.ring_of(level) - 1)) * lib.width_of(level)})
def the_visit_of_a_slot_never_changes(lib):
    for level in range(lib.levels):
        at, now, t = variables("at now t")
        s = lib.slot_for(at, now)
        visit = lib.entry_of(level, at)
        yield (f"level {level}", on_level(lib, level, at, now) + [now <= t, t <= visit],
               lib.visit_of(level, s, t) == visit)


@lemma({"last_lap_of": lambda lib, at: at >> lib.shift_of(lib.overflow)},
       {"overflow_slot_for": lambda lib, at, now: Library.overflow_slot_for(lib, at, now >> 40 << 40)})
def far_timers_join_free_slots_visited_in_time(lib):
    at, now = variables("at now")
    s, first = lib.overflow_slot_for(at, now), lib.first_slots[lib.overflow]
    yield ("all slots", on_level(lib, lib.overflow, at, now),
           z3.And(lib.last_lap_of(at) > lib.lap_at(now), s >= first, s < lib.beyond))
    for bit, s, visit, at, now, there in in_overflow(lib):
        yield (f"overflow slot {bit}", there,
               z3.And(is_free(bit, lib.lap_at(now)), visit > now, visit <= lib.entry_of(lib.overflow, at)))


@lemma({"visit_of": lambda lib, level, s, now: Library.visit_of(lib, level, s, now) + lib.width_of(level)},
       {"slot_before": lambda lib, level, entry: Library.slot_before(lib, level, entry + lib.width_of(level))})
def a_visit_of_the_overflow_never_changes(lib):
    for bit in range(lib.ring_of(lib.overflow)):
        now, t = variables("now t")
        visit = visit_in_overflow(lib, bit, now)
        yield (f"overflow slot {bit}", [t < NEVER, is_free(bit, lib.lap_at(now)), now <= t, t <= visit],
               lib.visit_of(lib.overflow, Word(lib.first_slots[lib.overflow] + bit), t) == visit)


@lemma({"overflow_slot_for": lambda lib, at, now: Library.overflow_slot_for(lib, at, now >> 40 << 40)})
def each_move_sinks_far_timers_lower(lib):
    for bit, s, visit, at, now, there in in_overflow(lib):
        t, = variables("t")
        in_lap_before = [now <= t, t <= visit, visit - t < lib.width_of(lib.overflow)]
        yield (f"overflow slot {bit}", there + in_lap_before,
               z3.Or(at - t < lib.reach_of(lib.levels - 1), lib.overflow_slot_for(at, t) < s))


@lemma({"lap_at": lambda lib, now: now >> lib.shift_of(lib.overflow)})
def free_overflow_slots_are_not_being_emptied(lib):
    for bit in range(lib.ring_of(lib.overflow)):
        now, = variables("now")
        s, entry = lib.first_slots[lib.overflow] + bit, lib.entry_of(lib.overflow, now)
        following = entry + lib.width_of(lib.overflow)
        yield (f"overflow slot {bit}", [now < NEVER, is_free(bit, lib.lap_at(now))],
               z3.And(z3.Or(entry == now, lib.slot_before(lib.overflow, following) != s),
                      z3.Or(entry != now, lib.slot_before(lib.overflow, now) != s)))


@lemma({"visit_of": lambda lib, level, s, now: Library.visit_of(lib, level, lib.beyond - 1 - s + lib.first_slots[level],
                                                                now)})
def the_overflow_visits_emptying_slots_then_lowest_ones(lib):
    level = lib.overflow
    for bit in range(lib.ring_of(level) - 1):
        now, other = variables("now other")
        following = lib.entry_of(level, now) + lib.width_of(level)
        free = [is_free(b, lap) for b in (bit, other) for lap in (lib.lap_at(now), lib.lap_at(following))]
        lowest = lib.visit_of(level, Word(lib.first_slots[level] + bit), now)
        yield (f"overflow slot {bit}", [following < NEVER, other > bit, other < lib.ring_of(level), *free],
               z3.And(lib.visit_of(level, lib.slot_before(level, following), now) < lowest,
                      lowest < visit_in_overflow(lib, other, now)))


@lemma({"overflow_slot_for": lambda lib, at, now: Library.overflow_slot_for(lib, at, now) + 1},
       {"later": lambda lib, base, delay: base + delay})
def timers_for_never_and_beyond_are_unvisited(lib):
    at, now, delay = variables("at now delay")
    far = lib.level_of(at - now) == lib.overflow
    s = Word(z3.If(far, lib.overflow_slot_for(at, now).term, lib.slot_for(at, now).term))
    yield "slots", ticks_to(at, now), z3.And(s < lib.beyond, lib.beyond < lib.never_slot, lib.never_slot < lib.slots)
    yield "ticks", [now < NEVER], Word(lib.later(now, delay)) == z3.If(
        z3.And(now + delay >= now, now + delay < NEVER), (now + delay).term, NEVER)


@lemma({"level_of": lambda lib, delta, level=0: Library.level_of(lib, delta << 1, level)})
def each_wakeup_sinks_a_lone_timer_one_level(lib):
    for level in range(1, lib.levels):
        at, now = variables("at now")
        yield (f"level {level}", ticks_to(at, now) + [lib.level_of(at - now) == level],
               lib.level_of(at - lib.entry_of(level, at)) < level)


@lemma({"last_lap_of": lambda lib, at: (at >> lib.shift_of(lib.overflow)) + 1})
def each_overflow_wakeup_halves_a_lone_timers_laps(lib):
    """From the second visit on. Its slots fall, so the lower bits of the lap stay 0."""
    def left_at(at, now):
        return lib.last_lap_of(at) - lib.lap_at(now)

    for bit, _, visit, at, now, there in in_overflow(lib):
        left, then, below = left_at(at, now), left_at(at, visit), (1 << bit) - 1
        visited_before = (lib.lap_at(now) & below) == 0
        yield (f"overflow slot {bit}", there, z3.And(
            then < left, (lib.lap_at(visit) & below) == 0, z3.Or(at - visit < lib.reach_of(lib.levels - 1), then >= 2),
            z3.Or(negated(visited_before), then + then < left)))


# --- emptying: a slot that has to be empty at `entry`, with `there` timers -----------------------------------------


def crowds(lib):
    """Yields each level above the root with a number of timers in its slot, as a count holds it, and `n` at least."""
    for level in range(1, lib.overflow + 1):
        entry, there, now, n = variables("entry there now n")
        width = lib.width_of(level)
        yield f"level {level}", level, width, entry, there, now, n, [
            there >= 1, there < lib.most, entry >= width, entry < NEVER, now >= 0, now < entry, n >= there, n < lib.most]


def crowd(lib):
    """A slot of any level in the lap before its visit, and rates of which there is known what the first lemma says."""
    entry, there, now, rate, gentle = variables("entry there now rate gentle")
    return entry, there, now, rate, gentle, [
        there >= 1, there < lib.most, entry < NEVER, now >= 0, now < entry, entry - now <= 1 << 32,
        rate >= lib.chunk, rate <= 1 << 24, gentle >= 1, gentle <= rate]


@lemma({"plan": lambda lib, level, there: Library.plan(lib, level, there - there // 2)}, wraps=False)
def a_lap_is_enough_to_empty_a_slot(lib):
    for name, level, width, entry, there, now, n, counted in crowds(lib):
        rate, gentle = lib.plan(level, there)
        even_share = z3.And(rate * width >= there, z3.Or(rate == lib.chunk, (rate - 1) * width < there))
        yield name, counted, z3.And(even_share, gentle * width >= there, rate >= lib.chunk,
                                    rate <= 1 << 24, gentle >= 1, gentle <= rate)


@lemma({"due": lambda lib, entry, rate, gentle, there, now: there}, wraps=False)
def no_timer_moves_a_lap_before_its_visit(lib):
    for name, level, width, entry, there, now, n, counted in crowds(lib):
        rate, gentle = lib.plan(level, n)  # for more timers than are left
        yield name, counted, lib.due(entry, rate, gentle, there, entry - width) == 0


@lemma({"due": lambda lib, entry, rate, gentle, there, now: Library.due(lib, entry, rate, gentle, there, now - 1)},
       shapes=[LARGE, TINY], wraps=False)
def a_call_leaves_what_can_leave_in_time(lib):
    entry, there, now, rate, gentle, crowded = crowd(lib)
    due = lib.due(entry, rate, gentle, there, now)
    yield "any slot", crowded, z3.And(due <= there, there - due <= (entry - now) * rate)


@lemma({"due": lambda lib, entry, rate, gentle, there, now: there}, shapes=[LARGE, TINY], wraps=False)
def a_call_moves_the_rate_per_tick_passed(lib):
    entry, there, now, rate, gentle, crowded = crowd(lib)
    before, = variables("before")
    left = [before >= 0, before < now, entry - before <= 1 << 32, there <= (entry - before) * rate]
    yield "any slot", crowded + left, lib.due(entry, rate, gentle, there, now) <= (now - before) * rate
    visit, = variables("visit")  # of a slot that was not emptied ahead since
    yield "at the visit", crowded + left + [visit >= entry, visit - before <= 1 << 33], there <= (visit - before) * rate


@lemma({"due": lambda lib, entry, rate, gentle, there, now: there}, shapes=[LARGE, TINY], wraps=False)
def a_loop_of_few_ticks_stays_gentle(lib):
    entry, there, now, rate, gentle, crowded = crowd(lib)
    before, = variables("before")
    left = [before >= 0, before < now, entry - before <= 1 << 32, there <= (entry - before) * gentle]
    few = [(now - before) * gentle <= lib.chunk]
    due = lib.due(entry, rate, gentle, there, now)
    yield "any slot", crowded + left + few, z3.And(due <= lib.chunk, there - due <= (entry - now) * gentle)


@lemma({"start": lambda lib, entry, there, a_tick: entry - there // (2 * a_tick)}, shapes=[LARGE, TINY], wraps=False)
def a_slot_is_in_time_until_its_wakeup(lib):
    entry, there, now, rate, gentle, crowded = crowd(lib)
    crowded = crowded + [there <= entry]
    yield "before", crowded + [now < lib.start(entry, there, rate)], there <= (entry - now) * rate
    yield ("then", crowded + [now <= lib.start(entry, there, rate)],
           lib.due(entry, rate, gentle, there, now) <= rate)
    yield ("before it may be emptied",
           crowded + [now < lib.start(entry, there, rate), now < lib.start(entry, there, gentle)],
           lib.due(entry, rate, gentle, there, now) == 0)


@lemma({"most_before_next_look": lambda lib, level, entry, there, now: there + lib.chunk}, wraps=False)
def a_slot_keeps_its_rate_until_noted_again(lib):
    for name, level, width, entry, there, now, n, counted in crowds(lib):
        noted = [n <= lib.most_before_next_look(level, entry, there, now)]
        yield name, counted + noted, lib.plan(level, n)[0] == lib.plan(level, there)[0]
    full = (there + lib.chunk - 1) // lib.chunk * lib.chunk
    yield "overflow", counted + [n <= full], lib.plan(lib.overflow, n)[0] == lib.chunk


@lemma({"most_before_next_look": lambda lib, level, entry, there, now: there}, wraps=False)
def a_slot_that_grows_is_noted_in_time(lib):
    for name, level, width, entry, there, now, n, counted in crowds(lib):
        rate, = variables("rate")
        full = (there + lib.chunk - 1) // lib.chunk * lib.chunk
        yield name, counted + [now + width < entry], lib.most_before_next_look(level, entry, there, now) == full
        for few in (there, full):
            yield (name + ", in the lap before", counted + [rate >= lib.chunk, rate <= 1 << 24, rate * width >= few],
                   lib.start(entry, few, rate) + width > entry)
    yield ("any slot", counted + [rate >= lib.chunk, rate <= 1 << 24, n <= full, (full - 1) // rate <= entry],
           lib.start(entry, full, rate) <= lib.start(entry, n, rate))
    yield ("overflow", counted + [n <= (there + lib.chunk - 1) // lib.chunk * lib.chunk],
           lib.start(entry, there, lib.chunk) == lib.start(entry, n, lib.chunk))


@lemma({"note": lambda lib, level, entry, there, now: Library.note(lib, level, entry, there + 1 + lib.chunk, now)},
       wraps=False)
def a_lone_timers_wakeup_is_its_visit(lib):
    for name, level, width, entry, there, now, n, counted in crowds(lib):
        may, must = lib.note(level, entry, there, now)
        yield name, counted + [there == 1], z3.And(may + width >= entry, may <= entry, must == entry)


@lemma({"due": lambda lib, entry, rate, gentle, there, now: Library.due(lib, entry, rate, gentle, there, now - 1)},
       {"start": lambda lib, entry, there, a_tick: entry - there // a_tick}, shapes=[LARGE, TINY], wraps=False)
def a_slot_wakes_the_loop_once_per_rate(lib):
    """The last time at its visit. One more timer, cancelled or not, costs one more at most."""
    entry, there, now, rate, gentle, crowded = crowd(lib)

    def wakeups(n):
        return (n - 1) // rate + 1

    left = there - lib.due(entry, rate, gentle, there, now)
    waking = crowded + [there <= entry, now == lib.start(entry, there, rate)]
    yield "ahead", waking + [left >= 1], z3.And(wakeups(left) < wakeups(there), lib.start(entry, left, rate) > now)
    yield "at the visit", crowded + [there <= rate], z3.And(wakeups(there) == 1, lib.start(entry, there, rate) == entry)
    yield "one more", crowded, wakeups(there + 1) <= wakeups(there) + 1


# --- time: counts in units of a clock, as ticks by the ratio num / den ---------------------------------------------


def is_scaled(result, count, num, den, up, limit):
    """That `result` is count * num / den, rounded, at most `limit`."""
    exact = z3.And((result - 1) * den < count * num, count * num <= result * den) if up else \
        z3.And(result * den <= count * num, count * num < (result + 1) * den)
    beyond = count * num > (limit - 1) * den if up else count * num >= limit * den
    return z3.And(result <= limit, z3.If(result == limit, beyond, exact))


def of_time(names):
    """Numbers of 64 bits without their wrapping, and any ratio."""
    *values, num, den = z3.Ints(names + " num den")
    return [*values, num, den, [num >= 1, den >= 1, *(z3.And(v >= 0, v < END) for v in values)]]


@lemma({"scale": lambda lib, count, num, den, up, limit: Library.scale(lib, count, num, den, False, limit)},
       {"scale_whole": lambda lib, count, den, up, limit: Library.scale_whole(lib, count + 1, den, up, limit)},
       {"accepts": lambda lib, num, den: num * den < END}, shapes=[LARGE], wraps=False)
def conversions_are_exact_and_saturate(lib):
    for up in (True, False):
        count, limit, num, den, _ = of_time("count limit")
        given = [den >= 1, lib.accepts(num, den), *(z3.And(v >= 0, v < END) for v in (count, limit, num, den))]
        Word.factors = [num]
        result = lib.scale(Word(count), Word(num), Word(den), up, Word(limit))
        yield f"up: {up}", given, is_scaled(result.term, count, num, den, up, limit)
        result = lib.scale_whole(Word(count), Word(den), up, Word(limit))
        yield f"by 1/den, up: {up}", given + [num == 1], is_scaled(result.term, count, 1, den, up, limit)


@lemma({"ticks_over": lambda lib, since, units: since // units}, shapes=[LARGE], wraps=False)
def conversions_to_run_time_ticks_are_exact(lib):
    make = {True: lib.run_time_ceil, False: lib.run_time_floor}
    for up in make:
        count, num, den, given = of_time("count")
        yield (f"up: {up}", given + [num == 1],
               is_scaled(make[up](Word(count), Word(den)).term, count, 1, den, up, NEVER))
    tick, units, last = z3.Ints("tick units last")
    result, product = lib.run_time_start(Word(tick), Word(units), Word(last)).term, tick * units
    yield ("start", [tick >= 0, units >= 1, last >= 0, last < END],
           z3.And(result <= last, z3.If(result == last, product >= last, product == result)))


def is_tick_ceil(armed, deadline, num, den, lib):
    """That `armed` is the tick of a deadline that many units after the origin."""
    after_the_last = is_scaled(armed - 1, deadline - lib.looks_back, num, den, False, NEVER - 1)
    return z3.If(deadline == 0, armed == 0, after_the_last)


@lemma({"looks_back": 2}, shapes=[LARGE], wraps=False)
def no_timer_is_early_or_a_tick_late(lib):
    """`armed` is the tick of a deadline, `run` that of a reading."""
    deadline, reading, armed, run, num, den, given = of_time("deadline reading armed run")
    scaled = given + [is_tick_ceil(armed, deadline, num, den, lib),
                      is_scaled(run, reading, num, den, lib.rounds_up["floor"], NEVER), armed < NEVER]
    yield "early", scaled + [run >= armed], reading >= deadline
    yield "late", scaled + [(reading - deadline) * num >= den], run >= armed


@lemma({"rounds_up": {"floor": False, "start_of": False}}, shapes=[LARGE], wraps=False)
def a_tick_starts_at_its_first_reading(lib):
    tick, last, start, before, run, num, den, given = of_time("tick last start before run")
    starts = given + [is_scaled(start, tick, den, num, lib.rounds_up["start_of"], last), start < last, tick < NEVER]
    yield "it", starts + [is_scaled(run, start, num, den, lib.rounds_up["floor"], NEVER)], run >= tick
    yield ("the one before",
           starts + [start >= 1, is_scaled(before, start - 1, num, den, lib.rounds_up["floor"], NEVER)],
           before < tick)


@lemma({"looks_back": 0}, {"looks_back": 2}, shapes=[LARGE], wraps=False)
def a_deadline_means_the_first_tick_from_then(lib):
    deadline, armed, last, start, before, num, den, given = of_time("deadline armed last start before")
    armed_for = given + [is_tick_ceil(armed, deadline, num, den, lib), deadline >= 1, armed < NEVER]
    up = lib.rounds_up["start_of"]
    yield "begins", armed_for + [is_scaled(start, armed, den, num, up, last), start < last], start >= deadline
    yield "first", armed_for + [is_scaled(before, armed - 1, den, num, up, last), before < last], before < deadline


@lemma({"looks_back": 2, "rounds_up": {"floor": True}}, shapes=[LARGE], wraps=False)
def conversions_keep_deadlines_and_readings_in_order(lib):
    """A tick lasts a unit at least, for the reading."""
    a, b, of_a, of_b, num, den, given = of_time("a b of_a of_b")
    ordered = given + [a <= b, a * num <= b * num]

    def floor(result, count):
        return is_scaled(result, count, num, den, lib.rounds_up["floor"], NEVER)

    def ceil(result, count):
        return is_tick_ceil(result, count, num, den, lib)

    yield "ceil, ceil", ordered + [ceil(of_a, a), ceil(of_b, b)], of_a <= of_b
    yield "floor, floor", ordered + [floor(of_a, a), floor(of_b, b)], of_a <= of_b
    yield "floor, ceil", ordered + [num <= den, floor(of_a, a), ceil(of_b, b)], of_a <= of_b


@lemma({"until": lambda lib, begin, t: t - begin},
       {"add": lambda lib, base, d: base + d},
       {"time_left": lambda lib, now, then: then - now}, shapes=[LARGE])
def distances_between_points_of_a_clock_are_exact(lib):
    def exact(point):
        return z3.SignExt(8, point.term)

    def limited(exact, low):
        return z3.If(exact < low, z3.BitVecVal(low, 72), z3.If(exact > NEVER, z3.BitVecVal(NEVER, 72), exact))

    begin, t = variables("begin t")
    apart = exact(t) - exact(begin)
    yield "until", [], z3.ZeroExt(8, lib.until(begin, t).term) == z3.If(apart < 0, 0, apart)
    yield "after", [is_less_signed(begin, t)], lib.after(begin, lib.until(begin, t)) == t
    yield "time_left", [], exact(lib.time_left(begin, t)) == limited(apart, 0)
    yield "add", [t <= NEVER], exact(lib.add(begin, t)) == limited(exact(begin) + exact(t), -1 << 63)


# --- periods -------------------------------------------------------------------------------------------------------


def periods():
    due, reached, period = variables("due reached period")
    return due, reached, period, [due >= 0, due <= NEVER, reached >= 0, reached <= NEVER, period >= 1, period < END]


def no_later_than_never(exact):
    return z3.If(exact < NEVER, exact, NEVER)


@lemma({"later": lambda lib, base, delay: base + delay},
       {"missed_by": lambda lib, reached, due, period: Library.missed_by(lib, reached, due, period) + 1},
       {"missed": lambda lib, due, period, policy, reached: lib.missed_by(reached, due, period)},
       {"missed_by": lambda lib, reached, due, period: reached // period}, shapes=[LARGE], wraps=False)
def the_next_beat_follows_its_policy(lib):
    """A burst makes up for each beat, a delay starts anew, and a skip goes to the first beat that was not reached."""
    due, reached, period, given = periods()
    for policy, name in enumerate(("burst", "delay", "skip")):
        n = lib.missed_by(reached, due, period)
        on_phase = due.term + n.term * period.term
        base = due.term, z3.If(reached.term > due.term, reached.term, due.term), on_phase
        then = lib.beat_after(due, period, policy, reached)
        yield name, given, z3.And(
            then == no_later_than_never(base[policy] + period.term),
            lib.missed(due, period, policy, reached) == (0 if name == "burst" else n.term),
            z3.If(reached < due, n == 0, z3.And(on_phase <= reached.term, reached.term < on_phase + period.term)))


@lemma({"begun_before": lambda lib, since, soonest, period: lib.later(soonest, period)},
       {"begun_before": lambda lib, since, soonest, period: lib.later(soonest, since % period)},
       {"begin_at": lambda lib, start, soonest, period: (start, Library.begin_at(lib, start, soonest, period)[1])},
       shapes=[LARGE], wraps=False)
def a_past_start_calls_soonest_and_keeps_phase(lib):
    start, soonest, period, given = periods()

    def is_next(due, since):
        exact = soonest.term - since.term + (since // period).term * period.term + period.term
        return z3.And(due == no_later_than_never(exact), exact > soonest.term, exact <= soonest.term + period.term)

    first, due = lib.begin_at(start, soonest, period)
    yield "to come", given + [start >= soonest], z3.And(first == start, due == start)
    first, due = lib.begin_at(start, soonest, period)
    yield "past", given + [start < soonest], z3.And(first == soonest, is_next(due, soonest - start))
    since, = variables("since")
    yield ("before the origin", given + [since >= 0, since < END],
           is_next(lib.begun_before(since, soonest, period), since))


# --- the speed of a game_clock, of the bits of a double -----------------------------------------------------------


@lemma({"carried": lambda lib, rounded, shift: (rounded & END32 - 1, shift)},
       {"carried": lambda lib, rounded, shift: (choose(rounded >> 32 == 0, lambda: rounded, lambda: rounded >> 1),
                                                choose(rounded >> 32 == 0, lambda: shift, lambda: shift - 1))},
       {"carried": lambda lib, rounded, shift: Library.carried(lib, rounded - 1, shift)}, shapes=[LARGE])
def any_speed_is_near_a_32_bit_fraction(lib):
    bits, faster = variables("bits faster")
    below_2_to_the_32, given = bits < 1055 << 52, [bits <= NEVER]
    (numerator, shift), (other, other_shift) = lib.nearest_fraction(bits), lib.nearest_fraction(faster)
    largest = z3.And(numerator == END32 - 1, shift == 0)
    yield "range", given, z3.And(numerator < END32, shift <= 31)
    yield "too high", [*given, negated(below_2_to_the_32)], largest
    yield "order", [*given, bits <= faster, faster <= NEVER], numerator << 31 - shift <= other << 31 - other_shift
    yield "zero", given, (numerator == 0) == (bits < 991 << 52)

    def is_near(unit, behind):
        """The speed is `digits`, and the fraction numerator * unit, with `behind` bits behind the last of 32."""
        digits, value, half = bits & (1 << 52) - 1 | 1 << 52, numerator * unit, Word(1) << behind - 1
        return both(value <= digits + half, digits <= value + half)

    exponent = bits >> 52
    of_one = 1054 - exponent  # the shift at which a numerator has 32 bits
    yield ("from 1 on", [bits >= 1023 << 52, below_2_to_the_32],
           z3.Or(is_near(Word(1) << 21 + of_one - shift, Word(21)), z3.And(largest, bits >= (1055 << 52) - (1 << 21))))
    yield ("below 1", [bits >= 991 << 52, bits < 1023 << 52],
           z3.And(shift == 31, is_near(Word(1) << 1044 - exponent, 1044 - exponent)))


# --- the word of a link --------------------------------------------------------------------------------------------


def widths_of_numbers(lib):
    for bits in (16, 8):  # 8 with tagged addresses: these may have a top byte
        lib.id_bits = bits
        yield f"{bits} bits", z3.BitVecVal((1 << bits) - 1, 64)


@lemma({"hang": lambda lib, address, number: address | number << 47}, shapes=[LARGE])
def addresses_and_wheel_numbers_are_kept_apart(lib):
    for name, shared in widths_of_numbers(lib):
        address, number = variables("address number")
        back = lib.hang(address, number)
        given = [(address & Word(shared << 48)) == 0, number <= Word(shared)]
        yield name, given, z3.And(lib.address_of(back) == address, lib.number_of(back) == number)


@lemma({"in_place": lambda lib, number: number},
       {"idle_bit": 0}, shapes=[LARGE])
def a_store_suffices_for_later_ticks_linked_here(lib):
    """A wheel that shares its number never stores. An idle timer is due at no tick."""
    for name, shared in widths_of_numbers(lib):
        address, other, number, now, was, expires, idle = variables("address other number now was expires idle")
        given = [address != 0, (address & Word(shared << 48)) == 0, number >= 1, number <= Word(shared),
                 number != Word(shared) - 1, other >= 1, other <= Word(shared), other != Word(shared) - 1, now < NEVER,
                 was <= NEVER, idle <= 1]
        word, until = was | idle << 63, Word(z3.If(expires > NEVER, z3.BitVecVal(NEVER, 64), expires.term))
        here = z3.And(other == number, number != Word(shared))
        stored = lib.is_stored(now, lib.hang(address, other), word, number, expires)
        yield name, given, stored == z3.And(here, expires > now, until >= was, until > now)
        yield name + ", unlinked", given, z3.Not(lib.is_stored(now, Word(0), word, number, expires))
        yield name + ", idle", given + [idle == 1], word > NEVER


def main(words):
    names = [word for word in words if word != "-v"]
    chosen = [entry for entry in LEMMAS if not names or entry[0].__name__ in names]
    results = [prove(*entry, shown="-v" in words) for entry in chosen]
    print(f"{sum(results)} of {len(results)} lemmas proved")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
