#!/usr/bin/env python3
"""usage: translation.py ANSWERS [SEED]

The arithmetic of the library's headers in Python, for integers and for terms of Z3 alike. prove.py proves lemmas about
it on terms. As a program it compares itself on integers with the library: with all that the program ANSWERS prints."""

import random
import subprocess
import sys

try:
    import z3
except ImportError:  # the comparison needs none
    z3 = None

END, END32 = 1 << 64, 1 << 32  # of a word, and of a half
NEVER = (1 << 63) - 1
LARGE, SMALL, TINY = (8, 6, 5, 4, 64, 8), (8, 5, 5, 4, 64, 1), (5, 5, 3, 2, 16, 1)
SHAPES = LARGE, SMALL, TINY  # that are proved


class Word:
    """An unsigned number of 64 bits: an integer, a term of bits, or a term of integers. The first two wrap as in C++.
    The third collects what keeps it from wrapping in `claims`, which are proved too, and definitions in `facts`."""
    wraps = True  # terms are of bits
    path, claims, facts, factors = [], [], [], []

    def __init__(self, value):
        self.value = value.value if isinstance(value, Word) else value

    @property
    def term(self):
        if not isinstance(self.value, int):
            return self.value
        return z3.BitVecVal(self.value, 64) if Word.wraps else z3.IntVal(self.value)

    @staticmethod
    def claimed(term):
        Word.claims.append(z3.Implies(z3.And(*Word.path, True), z3.And(0 <= term, term < END)))
        return Word(term)

    def divided(self, by):
        """Quotient and rest of integer terms. A division by a variable is defined by a multiplication. The definition
        is also given multiplied by each of `factors`, as Z3 does not think of that."""
        if isinstance(by.value, int):
            return Word(self.term / by.value), Word(self.term % by.value)
        name = f"{self.term.get_id()}/{by.term.get_id()}!"
        quotient, rest = z3.Int("q" + name), z3.Int("r" + name)
        whole = quotient * by.term + rest
        Word.facts.append(z3.Implies(by.term > 0, z3.And(self.term == whole, 0 <= rest, rest < by.term, quotient >= 0,
                                                         *(self.term * f == whole * f for f in Word.factors))))
        return Word(quotient), Word(rest)


def operation(on_integers, on_bits, on_numbers):
    def operate(a, b):
        a, b = Word(a), Word(b)
        if isinstance(a.value, int) and isinstance(b.value, int):
            return Word(on_integers(a.value, b.value) % END)
        return Word(on_bits(a.term, b.term)) if Word.wraps else on_numbers(a, b)
    return operate, lambda a, b: operate(b, a)


def comparison(on_integers, on_bits):
    def compare(a, b):
        a, b = Word(a), Word(b)
        if isinstance(a.value, int) and isinstance(b.value, int):
            return on_integers(a.value, b.value)
        return (on_bits if Word.wraps else on_integers)(a.term, b.term)
    return compare


for name, three in {
        "add": [lambda a, b: a + b] * 2 + [lambda a, b: Word.claimed(a.term + b.term)],
        "sub": [lambda a, b: a - b] * 2 + [lambda a, b: Word.claimed(a.term - b.term)],
        "mul": [lambda a, b: a * b] * 2 + [lambda a, b: Word.claimed(a.term * b.term)],
        "floordiv": [lambda a, b: a // b, lambda a, b: z3.UDiv(a, b), lambda a, b: a.divided(b)[0]],
        "mod": [lambda a, b: a % b, lambda a, b: z3.URem(a, b), lambda a, b: a.divided(b)[1]],
        "and": [lambda a, b: a & b] * 2 + [None],
        "or": [lambda a, b: a | b] * 2 + [None],
        "xor": [lambda a, b: a ^ b] * 2 + [None],
        "lshift": [lambda a, b: a << b] * 2 + [None],
        "rshift": [lambda a, b: a >> b, lambda a, b: z3.LShR(a, b), None]}.items():
    straight, turned = operation(*three)
    setattr(Word, f"__{name}__", straight)
    setattr(Word, f"__r{name}__", turned)
Word.__lt__ = comparison(lambda a, b: a < b, lambda a, b: z3.ULT(a, b))
Word.__le__ = comparison(lambda a, b: a <= b, lambda a, b: z3.ULE(a, b))
Word.__gt__ = comparison(lambda a, b: a > b, lambda a, b: z3.UGT(a, b))
Word.__ge__ = comparison(lambda a, b: a >= b, lambda a, b: z3.UGE(a, b))
Word.__eq__ = comparison(lambda a, b: a == b, lambda a, b: a == b)
Word.__ne__ = comparison(lambda a, b: a != b, lambda a, b: a != b)
Word.__invert__ = lambda a: a ^ (END - 1)


def both(a, b):
    return a and b if isinstance(a, bool) and isinstance(b, bool) else z3.And(a, b)


def negated(a):
    return not a if isinstance(a, bool) else z3.Not(a)


def choose(condition, then, otherwise):
    """C++'s condition ? then : otherwise, of two functions."""
    if isinstance(condition, bool):
        return Word(then() if condition else otherwise())
    sides = []
    for side, holds in ((then, condition), (otherwise, z3.Not(condition))):
        Word.path.append(holds)
        sides.append(Word(side()).term)
        Word.path.pop()
    return Word(z3.If(condition, *sides))


def smaller(a, b):
    return choose(Word(b) < a, lambda: b, lambda: a)


def larger(a, b):
    return choose(Word(a) < b, lambda: b, lambda: a)


def is_less_signed(a, b):
    return (Word(a) ^ 1 << 63) < (Word(b) ^ 1 << 63)


def bit_number(x, bits):
    """The last of these bits that is 1 in a term."""
    number = z3.BitVecVal(0, 64)
    for bit in bits:
        number = z3.If(z3.Extract(bit, bit, x.term) == 1, z3.BitVecVal(bit, 64), number)
    return Word(number)


def highest_bit(x):
    return Word(x.value.bit_length() - 1) if isinstance(x.value, int) else bit_number(x, range(64))


def countr_zero(x):
    return Word((x.value & -x.value).bit_length() - 1) if isinstance(x.value, int) else bit_number(x, range(63, -1, -1))


def lookup(table, index):
    if isinstance(index.value, int):
        return Word(table[index.value])
    found = z3.BitVecVal(table[-1], 64)
    for i in range(len(table) - 2, -1, -1):
        if table[i] != table[i + 1]:
            found = z3.If(z3.ULE(index.term, i), z3.BitVecVal(table[i], 64), found)
    return Word(found)


class Library:
    """The functions of the headers under their names, with wheels of one shape."""

    def __init__(self, shape):
        self.root_bits, self.level_bits, self.levels, self.level_1_laps, self.chunk, self.chains = shape
        self.overflow = self.levels
        self.most = min(END32, self.chunk << self.shift_of(self.overflow))  # timers in a slot: the overflow leaves a chunk a tick
        self.first_slots = [0]
        for level in range(self.levels):
            self.first_slots.append(self.first_slots[-1] + (self.ring_of(level) + 63) // 64 * 64)
        self.beyond = self.first_slots[self.overflow] + self.ring_of(self.overflow)
        self.never_slot = self.beyond + 1
        self.slots = self.never_slot + 1
        levels = [self.level_of(Word(1 << log2)).value for log2 in range(64)]
        ends = [level == self.overflow for level in levels]
        self.to_level = levels
        self.to_first = [self.beyond if end else self.first_slots[level] for level, end in zip(levels, ends)]
        self.to_mask = [0 if end else self.ring_of(level) - 1 for level, end in zip(levels, ends)]
        self.to_shift = [self.shift_of(level) for level in levels]

    # --- geometry.hpp: levels are integers --------------------------------------------------------------------------

    def shift_of(self, level):
        return 0 if level == 0 else self.root_bits + (level - 1) * self.level_bits

    def width_of(self, level):
        return 1 << self.shift_of(level)

    def ring_of(self, level):
        if level == self.overflow:
            return 63 - self.shift_of(level)
        return (self.level_1_laps if level == 1 else 2) << (self.root_bits if level == 0 else self.level_bits)

    def reach_of(self, level):
        """The ticks that a level reaches ahead: no function of the library."""
        return self.width_of(level) * self.ring_of(level)

    def slot_at(self, level, tick):
        return self.first_slots[level] + ((tick >> self.shift_of(level)) & (self.ring_of(level) - 1))

    def entry_of(self, level, tick):
        return tick >> self.shift_of(level) << self.shift_of(level)

    def log2_of(self, delta):
        return highest_bit(delta | 1)

    def level_of(self, delta, level=0):
        if level == self.overflow:
            return Word(level)
        ring_bits = self.ring_of(level).bit_length() - 1
        return choose(self.log2_of(delta) >= self.shift_of(level) + ring_bits,
                      lambda: self.level_of(delta, level + 1), lambda: level)

    def slot_for(self, at, now):
        log2 = self.log2_of(at - now)
        return ((at >> lookup(self.to_shift, log2)) & lookup(self.to_mask, log2)) + lookup(self.to_first, log2)

    def level_for(self, at, now):
        return lookup(self.to_level, self.log2_of(at - now))

    def lap_at(self, now):
        return (now - choose(now != 0, lambda: 1, lambda: 0)) >> self.shift_of(self.overflow)

    def last_lap_of(self, at):
        """A part of overflow_slot_for."""
        return (at >> self.shift_of(self.overflow)) - 1

    def overflow_slot_for(self, at, now):
        return self.first_slots[self.overflow] + self.log2_of(self.last_lap_of(at) ^ self.lap_at(now))

    def slot_before(self, level, entry):
        if level != self.overflow:
            return self.slot_at(level, entry)
        none = 1 << self.ring_of(self.overflow)
        return self.first_slots[level] + countr_zero(self.lap_at(entry) | none)

    def visit_of(self, level, s, now):
        entry, width = self.entry_of(level, now), self.width_of(level)

        def in_ring():
            ahead = (s - self.slot_at(level, now)) & (self.ring_of(level) - 1)
            return entry + choose(ahead == 0, lambda: self.ring_of(level), lambda: ahead) * width

        def in_overflow():
            bit, lap = s - self.first_slots[level], entry >> self.shift_of(level)
            return choose(s == self.slot_before(level, entry + width), lambda: entry + width,
                          lambda: ((((lap >> bit) | 1) << bit) + 1) * width)

        is_now = both(entry == now, s == self.slot_before(level, now))
        return choose(is_now, lambda: now, in_overflow if level == self.overflow else in_ring)

    # --- agenda.hpp, agenda.cpp -------------------------------------------------------------------------------------

    def plan(self, level, there):
        """The rate and the gentle rate for `there` timers."""
        width = self.width_of(level)
        rate = larger(self.chunk, (there - 1) // width + 1)
        gentle = larger((self.chunk + 7) // 8, (there - 1) * 8 // (3 * width) + 1)
        return rate, smaller(rate, gentle)

    def start(self, entry, there, a_tick):
        return entry - (there - 1) // a_tick

    def due(self, entry, rate, gentle, there, now):
        ticks = entry - now
        late = there - smaller(there, ticks * rate)
        soon = there - smaller(there, ticks * gentle)
        return larger(late, smaller(soon, self.chunk))

    def most_before_next_look(self, level, entry, there, now):
        return choose(now + self.width_of(level) < entry,
                      lambda: (there + self.chunk - 1) // self.chunk * self.chunk, lambda: there)

    def note(self, level, entry, there, now):
        """The ticks at which the slot may and must be emptied."""
        rate, gentle = self.plan(level, there)
        few = (self.chunk + 7) // 8
        must = choose(there > few, lambda: self.start(entry, self.most_before_next_look(level, entry, there, now), rate),
                      lambda: entry)
        together = entry if level == self.overflow else entry - self.width_of(level)
        may = choose(there > few, lambda: smaller(self.start(entry, there, gentle), must), lambda: together)
        return may, must

    # --- jiffies.hpp, beats.hpp -------------------------------------------------------------------------------------

    def later(self, base, delay):
        return choose(delay < NEVER - base, lambda: base + delay, lambda: NEVER)

    def missed_by(self, reached, due, period):
        return choose(reached < due, lambda: 0, lambda: (reached - due) // period)

    def missed(self, due, period, policy, reached):
        """The policy is 0 for burst, 1 for delay, 2 for skip."""
        return Word(0) if policy == 0 else self.missed_by(reached, due, period)

    def beat_after(self, due, period, policy, reached):
        missed = self.missed(due, period, policy, reached)
        return self.later(larger(reached, due) if policy == 1 else due + missed * period, period)

    def begun_before(self, since, soonest, period):
        return self.later(soonest, period - since % period)

    def begin_at(self, start, soonest, period):
        """The tick of the first call, and the first deadline."""
        due = choose(start >= soonest, lambda: start, lambda: self.begun_before(soonest - start, soonest, period))
        return larger(start, soonest), due

    # --- tick_clock.hpp: `floor` and `start_of` round; `ceil` is the tick after the last one that has begun before ----

    rounds_up = {"floor": False, "start_of": True}
    looks_back = 1

    def saturating(self, a, b, limit, proceed):
        """__builtin_mul_overflow, and what is done with the product."""
        if isinstance(a.value, int) and isinstance(b.value, int):
            product = a.value * b.value
        else:
            product = a.term * b.term
        return choose(product >= END, lambda: limit, lambda: proceed(Word(product)))

    def accepts(self, num, den):
        return (num + 1) * den < END

    def scale(self, count, num, den, up, limit):
        nearly_one = den - 1 if up else Word(0)
        rest = (count % den * num + nearly_one) // den

        def add(whole):
            return choose(whole < limit, lambda: choose(rest < limit - whole, lambda: whole + rest, lambda: limit),
                          lambda: limit)
        return self.saturating(count // den, num, limit, add)

    def scale_whole(self, count, den, up, limit):
        """`scale` by 1/den, the template's short way."""
        if up:
            return smaller(choose(count != 0, lambda: (count - 1) // den + 1, lambda: count // den), limit)
        return smaller(count // den, limit)

    def scale_by(self, count, num, den, up, limit):
        """`scale` by a ratio that is known."""
        if num.value == 1 != den.value:
            return self.scale_whole(count, den, up, limit)
        return self.scale(count, num, den, up, limit)

    def tick_ceil(self, since, num, den):
        return choose(since == 0, lambda: 0,
                      lambda: self.scale_by(since - self.looks_back, num, den, False, NEVER - 1) + 1)

    def until(self, begin, t):
        """Signed points of a clock as words."""
        return choose(is_less_signed(begin, t), lambda: t - begin, lambda: 0)

    def after(self, begin, since):
        return begin + since

    def add(self, base, d):
        """`d` is not negative."""
        total = base + d
        return choose(is_less_signed(total, base), lambda: NEVER, lambda: total)

    def time_left(self, now, then):
        d = then - now
        return choose(is_less_signed(now, then), lambda: choose(d > NEVER, lambda: NEVER, lambda: d), lambda: 0)

    def run_time_floor(self, since, units):
        return smaller(since // units, NEVER)

    def ticks_over(self, since, units):
        return since // units + choose(since % units != 0, lambda: 1, lambda: 0)

    def run_time_ceil(self, since, units):
        return smaller(self.ticks_over(since, units), NEVER)

    def run_time_start(self, tick, units, last):
        return self.saturating(tick, units, last, lambda product: smaller(product, last))

    # --- game_clock.hpp ---------------------------------------------------------------------------------------------

    def carried(self, rounded, shift):
        """The end of nearest_fraction: what was rounded up to 2^32."""
        up = choose(shift == 0, lambda: END32 - 1, lambda: 1 << 31)
        is_fine = rounded >> 32 == 0
        return (choose(is_fine, lambda: rounded & END32 - 1, lambda: up),
                choose(is_fine, lambda: shift, lambda: choose(shift == 0, lambda: 0, lambda: shift - 1)))

    def nearest_fraction(self, bits):
        """A numerator, and the power of two below it."""
        one, exponent = Word(1023), bits >> 52
        digits = bits & (1 << 52) - 1 | 1 << 52
        below = smaller(one - smaller(exponent, one), 40)
        numerator, shift = self.carried((digits >> 20 + below) + 1 >> 1, one + 31 - larger(exponent, one))
        is_high = exponent > one + 31
        return choose(is_high, lambda: END32 - 1, lambda: numerator), choose(is_high, lambda: 0, lambda: shift)

    # --- chain.hpp, timer.hpp, timer_wheel.hpp: an id has 16 bits, or 8 with tagged addresses -----------------------

    id_bits, idle_bit = 16, 1 << 63

    def hang(self, address, number):
        return address | number << 48

    def number_of(self, back):
        return (back >> 48) & ((1 << self.id_bits) - 1)

    def address_of(self, back):
        return back & ~Word(((1 << self.id_bits) - 1) << 48)

    def in_place(self, number):
        shared = (1 << self.id_bits) - 1
        return choose(number == shared, lambda: shared - 1, lambda: number)

    def is_stored(self, now, back, word, number, expires):
        """Whether arm_at stores a deadline in a timer with these words, and does nothing else."""
        expires = choose(Word(NEVER) < expires, lambda: NEVER, lambda: expires)  # in arm_past
        is_later = negated(is_less_signed(expires, word & ~Word(self.idle_bit)))
        here = both(back != 0, self.number_of(back) == self.in_place(number))
        return both(both(is_less_signed(now, expires), is_later), here)


# --- the comparison ------------------------------------------------------------------------------------------------


class Answers:
    """What the translation says of each line that the program `answers` prints."""

    def __init__(self, library):
        self.library = library

    def level(self, level):
        lib, level = self.library, level.value
        return lib.shift_of(level), lib.ring_of(level), lib.first_slots[level], level, level

    def ends(self):
        return self.library.beyond, self.library.never_slot, self.library.slots

    def link_words(self):
        shared = (1 << self.library.id_bits) - 1
        return shared, ~Word(shared << 48), shared, shared - 1

    def place(self, at, now, t):
        lib, level = self.library, self.library.level_for(at, now).value
        s = lib.slot_for(at, now)
        place = lib.overflow_slot_for(at, now) if level == lib.overflow else s
        return lib.level_of(at - now), level, s, place, lib.visit_of(level, place, now), lib.visit_of(level, place, t)

    def look(self, level, s, now):
        lib, level = self.library, level.value
        entry = lib.entry_of(level, now)
        return lib.lap_at(now), entry, lib.slot_before(level, entry), lib.visit_of(level, s, now)

    def note(self, level, entry, there, now):
        lib, level = self.library, level.value
        rate, gentle = lib.plan(level, there)
        return (rate, gentle, lib.start(entry, there, rate), lib.start(entry, there, gentle),
                *lib.note(level, entry, there, now))

    def due(self, *arguments):
        return self.library.due(*arguments),

    def repeat(self, due, reached, period):
        lib = self.library
        return (lib.later(due, period), lib.missed_by(reached, due, period),
                *(lib.beat_after(due, period, policy, reached) for policy in range(3)),
                *(lib.missed(due, period, policy, reached) for policy in range(3)),
                *lib.begin_at(due, reached, period), lib.begun_before(due + reached, reached, period))

    def scale(self, count, num, den, limit):
        return [self.library.scale(count, num, den, up, limit) for up in (False, True)]

    def read_ticks(self, begin, t, d, tick, num, den):
        lib = self.library
        since, last = lib.until(begin, t), lib.until(begin, Word(NEVER))
        return (lib.scale_by(since, num, den, lib.rounds_up["floor"], NEVER),
                lib.tick_ceil(since, num, den),
                lib.scale_by(lib.until(0, d), num, den, True, NEVER),
                lib.after(begin, lib.scale_by(tick, den, num, lib.rounds_up["start_of"], last)),
                lib.add(t, lib.scale_by(lib.until(0, d), den, num, True, NEVER)))

    def read_clock(self, begin, t, units, tick, d):
        lib = self.library
        since = lib.until(begin, t)
        last = lib.until(begin, Word(NEVER))
        return (since, lib.after(begin, since), lib.run_time_floor(since, units), lib.run_time_ceil(since, units),
                lib.run_time_ceil(lib.until(0, t), units),
                lib.after(begin, lib.run_time_start(tick, units, last)), lib.add(t, d), lib.time_left(begin, t))

    def nearest_fraction(self, bits):
        return self.library.nearest_fraction(bits)

    def hang(self, address, number):
        lib = self.library
        back = lib.hang(address, number)
        return back, lib.number_of(back), lib.address_of(back), 1

    def arm(self, now, back, word, number, expires):
        return self.library.is_stored(now, back, word, number, expires),


def compare(lines):
    """Returns how many answers agree. Ends at the first that does not."""
    known, number = None, 0
    for line in lines:
        question, _, told = line.partition(":")
        name, *arguments = question.split()
        told = tuple(map(int, told.split()))
        if name == "shape":
            if told not in SHAPES:
                sys.exit(f"the shape {told} is none of those that are proved: {SHAPES}")
            known = Answers(Library(told))
            continue
        if name == "link_words":
            known.library.id_bits = 8 if told[0] == 0xff else 16  # the lemmas are of both
        words = [Word(int(argument)) for argument in arguments]
        answers = tuple(int(Word(answer).value) for answer in getattr(known, name)(*words))
        if answers != told:
            sys.exit(f"{name}({', '.join(arguments)}): the library answers {told}, and the translation {answers}: "
                     "the lemmas are of another library; correct the translation, and see what prove.py says")
        number += len(told)
    return number


def main(answers, seed=None):
    seed = seed or str(random.randrange(END))
    print(f"{answers} {seed}")
    with subprocess.Popen([answers, seed], stdout=subprocess.PIPE, text=True) as program:
        number = compare(program.stdout)
    if program.returncode != 0 or number == 0:
        sys.exit(f"{answers} failed, with status {program.returncode}")
    print(f"{number} answers agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
