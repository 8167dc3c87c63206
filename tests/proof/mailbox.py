#!/usr/bin/env python3
"""usage: mailbox.py MAILBOX_MODEL [SEED]

The steps of threads on a mailbox in Python, for integers and for terms of Z3 alike. prove.py proves that no two steps
give a cell to two owners. As a program it compares itself with the library: each atomic operation that the program
MAILBOX_MODEL traces must be one of these steps, with the same words."""

import os
import random
import subprocess
import sys
from collections import Counter, deque
from types import SimpleNamespace

from translation import END, Word, both, choose, negated

PHASE, VACANT, PENDING, CANCELLED, RUNNING, QUEUED, MOVING, AWAITED, OFFERED, SHIFT = 3, 0, 1, 2, 3, 4, 8, 16, 32, 6
INDEX, TAG = (1 << 24) - 1, 1 << 24  # of the head of the free list


def all_of(first, *others):
    for other in others:
        first = both(first, other)
    return first


def any_of(*conditions):
    return negated(all_of(*map(negated, conditions)))


def implies(a, b):
    return any_of(negated(a), b)


def phase(s):
    return s.word & PHASE


def bit(s, which):
    return (s.word & which) != 0


def one_if(condition):
    return choose(condition, lambda: 1, lambda: 0)


def vacated(s):
    return s.word >> SHIFT << SHIFT


def with_phase(s, to):
    return s.word & ~Word(PHASE) | to


FIRST = (0, 1, *[0] * 10)  # of a cell: it is free


class Mailbox:
    """Steps on one cell. Each says when it may happen, and what it changes. Beside the state word there are counts:
    entries of the free list; threads that hold the cell vacant, or `lost` it after the end; senders that have not
    pushed it, and other threads that set `queued` and have not; entries of the queue; threads that write the deadline;
    and the owner's calls that drop or end its function. `ended` is the generation of the last function that ended."""

    fields = "word free held lost sending pushing listed moving dropping calling closed ended".split()
    by = {"free list": ["take", "give_back"], "queue": ["push_sent", "push_again"], "close": ["close"],
          "store": ["publish", "withdraw"], "exchange": ["release"], "fetch_and": ["look", "accept"],
          "fetch_or": ["drop", "drop_at_the_end"], "nothing": ["push_refused"],
          "compare_exchange": ["cancel", "move", "moved", "wait", "begin", "take_out"]}
    steps = sum(by.values(), [])

    def __init__(self, shape=None):
        pass

    def cell(self, values):
        return SimpleNamespace(**dict(zip(self.fields, map(Word, values))))

    def after(self, s, changes):
        return self.cell(changes.get(f, getattr(s, f)) for f in self.fields)

    # --- the free list, the queue -----------------------------------------------------------------------------------

    def head_taken(self, head, following):
        return head & ~Word(INDEX) | following

    def head_given(self, head, index):
        return (head & ~Word(INDEX)) + TAG | index

    def take(self, s):
        return s.free >= 1, dict(free=s.free - 1, held=s.held + 1)

    def give_back(self, s):
        return s.held >= 1, dict(held=s.held - 1, free=s.free + 1)

    def push_sent(self, s):
        return both(s.closed == 0, s.sending >= 1), dict(sending=s.sending - 1, listed=s.listed + 1)

    def push_again(self, s):
        return both(s.closed == 0, s.pushing >= 1), dict(pushing=s.pushing - 1, listed=s.listed + 1)

    def push_refused(self, s):
        return both(s.closed == 1, s.pushing >= 1), dict(pushing=s.pushing - 1)

    def close(self, s):
        return s.closed == 0, dict(closed=1)

    # --- any thread: it knows the handle once the sender has pushed the cell ----------------------------------------

    def publish(self, s):
        word = (s.word >> SHIFT) + 1 << SHIFT | PENDING | QUEUED | OFFERED
        return s.held >= 1, dict(word=word, held=s.held - 1, sending=s.sending + 1)

    def withdraw(self, s):
        return both(s.closed == 1, s.sending >= 1), dict(word=vacated(s), sending=s.sending - 1, lost=s.lost + 1)

    def cancel(self, s):
        may = both(s.sending == 0, phase(s) == PENDING)
        return may, dict(word=with_phase(s, CANCELLED) | QUEUED, pushing=s.pushing + one_if(negated(bit(s, QUEUED))))

    def move(self, s):
        may = all_of(s.sending == 0, phase(s) == PENDING, negated(bit(s, MOVING)))
        return may, dict(word=s.word | MOVING, moving=s.moving + 1)

    def moved(self, s):
        return s.moving >= 1, dict(word=s.word & ~Word(MOVING) | QUEUED, moving=s.moving - 1,
                                   pushing=s.pushing + one_if(negated(bit(s, QUEUED))))

    def wait(self, s):
        return all_of(s.sending == 0, phase(s) != VACANT, negated(bit(s, AWAITED))), dict(word=s.word | AWAITED)

    # --- the owner --------------------------------------------------------------------------------------------------

    def look(self, s):
        is_dropped = both(negated(bit(s, MOVING)), phase(s) == CANCELLED)
        return both(s.closed == 0, s.listed >= 1), dict(word=s.word & ~Word(QUEUED | OFFERED), listed=s.listed - 1,
                                                       dropping=s.dropping + one_if(is_dropped))

    def drop(self, s):
        return s.dropping >= 1, dict(word=s.word | RUNNING, dropping=s.dropping - 1, calling=s.calling + 1)

    def begin(self, s):
        may = both(phase(s) == PENDING, (s.word & (QUEUED | MOVING)) == 0)
        return may, dict(word=with_phase(s, RUNNING), calling=s.calling + 1)

    def release(self, s):
        return s.calling >= 1, dict(word=vacated(s), calling=s.calling - 1, held=s.held + one_if(s.closed == 0),
                                    lost=s.lost + one_if(s.closed == 1), ended=s.word >> SHIFT)

    def accept(self, s):
        return both(s.closed == 1, s.listed >= 1), dict(word=s.word & ~Word(OFFERED), listed=s.listed - 1)

    def take_out(self, s):
        may = all_of(s.closed == 1, phase(s) == PENDING, negated(bit(s, OFFERED)))
        return may, dict(word=with_phase(s, RUNNING), calling=s.calling + 1)

    def drop_at_the_end(self, s):
        may = all_of(s.closed == 1, s.dropping == 0, phase(s) == CANCELLED)
        return may, dict(word=s.word | RUNNING, calling=s.calling + 1)


# --- what holds at all times ----------------------------------------------------------------------------------------


def one_owner(s):
    """Promises, by name."""
    is_open, is_sent, is_reusable = s.closed == 0, phase(s) != VACANT, s.free + s.held >= 1
    links = s.sending + s.pushing + s.listed
    return {
        "a cell is in one place": s.free + s.held + s.lost + one_if(is_sent) == 1,
        "one call ends a function": s.calling + s.dropping <= 1,
        "one thread links a cell": implies(is_open, links <= 1),
        "one thread writes a deadline": s.moving + s.held <= 1,
        "a cell is reused when all threads have left it": implies(is_reusable, s.moving + links + s.calling == 0),
        "a function ends once its sender knows that it was sent":
            implies(s.sending >= 1, both(s.calling + s.dropping == 0, phase(s) == PENDING)),
        "the owner hears of each cancel":
            implies(both(is_open, phase(s) == CANCELLED),
                    any_of(links >= 1, s.moving >= 1, s.dropping >= 1)),
        "no function has the handle of another": implies(is_sent, (s.word >> SHIFT) > s.ended),
    }


def invariant(s):
    """What each step keeps, and from which follows what was promised."""
    is_open, is_sent = s.closed == 0, phase(s) != VACANT
    flags = s.word & (QUEUED | MOVING | AWAITED | OFFERED)
    generation, links = s.word >> SHIFT, s.sending + s.pushing + s.listed
    counts = [s.free <= 1, s.held <= 1, s.lost <= 1, s.sending <= 1, s.pushing <= 2, s.listed <= 1, s.moving <= 1,
              s.dropping <= 1, s.calling <= 1, s.closed <= 1]
    is_queued, is_moving = (one_if(bit(s, b)) for b in (QUEUED, MOVING))
    return all_of(
        *one_owner(s).values(), *counts,
        s.calling == one_if(phase(s) == RUNNING),
        implies(is_open, all_of(links == is_queued, s.moving == is_moving, s.lost == 0)),
        s.moving >= is_moving, s.sending + s.listed <= 1,
        implies(s.moving > is_moving, s.lost == 1), s.pushing + s.moving <= 2,
        implies(is_sent, s.pushing + s.sending + s.listed <= is_queued),
        implies(both(is_open, phase(s) == RUNNING), (s.word & (QUEUED | MOVING | OFFERED)) == 0),
        implies(s.free + s.held >= 1, both(flags == 0, generation == s.ended)),
        implies(is_sent, generation == s.ended + 1),
        implies(bit(s, OFFERED), all_of(bit(s, QUEUED), s.sending + s.listed == 1, s.pushing == 0, is_sent)),
        implies(s.sending >= 1, all_of(flags == (QUEUED | OFFERED), phase(s) == PENDING, s.moving == 0)),
        implies(s.dropping >= 1, all_of(phase(s) == CANCELLED, s.calling == 0)),
        implies(both(is_open, s.dropping >= 1), (s.word & (QUEUED | MOVING)) == 0))


def shortest_run(begin, steps, broken):
    """Searches all runs. Returns what `broken` says of the first state of which it says anything, with the steps to it;
    or None, and which steps were taken."""
    before, queue, taken = {begin: None}, deque([begin]), set()
    while queue:
        state = queue.popleft()
        for step, then in steps(state):
            taken.add(step.split()[0])
            if then in before:
                continue
            before[then] = state, step
            if found := broken(then):
                run = []
                while before[then]:
                    then, step = before[then]
                    run.insert(0, step)
                return f"not {found}: steps = {', '.join(run)}", taken
            queue.append(then)
    return None, taken


def run_of_a_cell(box, most_sent=2):
    """All runs of any number of threads in which the cell is sent so often."""
    def steps(state):
        s = box.cell(state)
        for name in box.steps:
            may, changes = getattr(box, name)(s)
            if may and (name != "publish" or s.word >> SHIFT < most_sent):
                yield name, tuple(Word(changes.get(f, getattr(s, f))).value for f in box.fields)

    def broken(state):
        return ", ".join(promise for promise, kept in one_owner(box.cell(state)).items() if not kept)

    return shortest_run(FIRST, steps, broken)


def run_of_the_free_list(box, most_given=2):
    """All runs of two threads on a free list of two cells. A thread has what it read last, and the cells it holds."""
    def steps(state):
        head, following, threads = state
        for i, (doing, seen, value, held) in enumerate(threads):
            def then(step, *thread, head=head, following=following):
                return f"{step} {i}", (head, following, threads[:i] + (thread,) + threads[i + 1:])

            top = head & INDEX
            if doing == "idle":
                if top != INDEX:
                    yield then("load", "loaded", head, 0, held)
                for cell in held:
                    yield then("prepare", "giving", head, cell, held)
            elif doing == "loaded":
                yield then("read", "read", seen, following[seen & INDEX], held)
            elif doing == "giving":
                linked = following[:value] + (seen & INDEX,) + following[value + 1:]
                yield then("link", "linked", seen, value, held, following=linked)
            elif seen != head:
                yield then("fail", "idle", 0, 0, held)
            elif doing == "read":
                taken = box.head_taken(Word(head), Word(value)).value
                yield then("take", "idle", 0, 0, (*held, top), head=taken)
            elif head >> 24 < most_given:
                given = box.head_given(Word(head), Word(value)).value
                yield then("give", "idle", 0, 0, tuple(c for c in held if c != value), head=given)

    def broken(state):
        head, following, threads = state
        held, top = sum((thread[3] for thread in threads), ()), head & INDEX
        while top != INDEX and top not in held:
            held, top = held + (top,), following[top]
        return "a cell has one owner" if top != INDEX or len(held) != 2 else None

    return shortest_run((0, (1, INDEX), (("idle", 0, 0, ()),) * 2), steps, broken)


# --- the comparison -------------------------------------------------------------------------------------------------


class Traced:
    """A mailbox of which each atomic operation is known. Atomics are known by the order in which they were made: state,
    deadline and successor in the free list for each cell, then the heads of the queue and of the free list."""

    def __init__(self, seen, made):
        self.box, self.seen = Mailbox(), seen
        *cells, self.queue, self.vacancies = [address for size, address in made]
        self.states, self.due, self.following = ({a: i for i, a in enumerate(cells[n::3])} for n in range(3))
        self.cells = [self.box.cell(FIRST) for _ in self.states]
        self.next = [0] * len(self.cells)

    def cell_at(self, link):
        """The index of the cell that begins there, or None if it is a mark of the queue."""
        return next((i for address, i in self.states.items() if 0 < address - link <= 64), None)

    def step(self, by, index, word=None):
        """Has a cell take the step that changes its word to this one. Returns its name, or ends the program."""
        before = self.cells[index]
        for name in self.box.by[by]:
            may, changes = getattr(self.box, name)(before)
            after = self.box.after(before, changes)
            if may and (word is None or after.word == word):
                if not invariant(after):
                    sys.exit(f"the lemmas are wrong: {name} breaks the invariant")
                self.cells[index] = after
                self.seen[name] += 1
                return name
        sys.exit(f"the library changes {before.word.value:#x} to {word or 0:#x} by {by}, which is no step of "
                 f"mailbox.py: the lemmas are of another library. { {f: w.value for f, w in vars(before).items()} }")

    def change(self, how, address, before, after):
        if address in self.states:
            self.step(how, self.states[address], after)
        elif address in self.following:
            self.next[self.following[address]] = after
        elif address == self.vacancies:
            self.change_head(before, after)
        elif address == self.queue and how == "compare_exchange":
            if (index := self.cell_at(after)) is not None:
                self.step("queue", index)
        elif address == self.queue and how == "exchange" and after != 0:
            for index in range(len(self.cells)):
                if self.cells[index].closed == 0:
                    self.step("close", index)

    def change_head(self, before, after):
        index = before & INDEX
        if before == 0 and self.next != [*range(1, len(self.next)), INDEX]:
            sys.exit(f"the library links the free list otherwise than proved: {self.next}")
        if index != INDEX and after == self.box.head_taken(Word(before), Word(self.next[index])):
            name = "take"
        else:
            name, index = "give_back", after & INDEX
            if self.next[index] != before & INDEX or after != self.box.head_given(Word(before), Word(index)):
                sys.exit(f"the library changes the head of the free list from {before:#x} to {after:#x}")
        if self.step("free list", index) != name:
            sys.exit(f"the library changes the head of the free list by no {name} of cell {index}")


def compare(lines):
    """Returns how often each step was seen."""
    seen, made, run = Counter(), [], None
    for line in lines:
        how, *numbers = line.split()
        if len(numbers) != 4 or not numbers[0].isdecimal():
            continue  # what the program says itself
        size, address, before, after = map(int, numbers)
        if how == "new":
            made, run = ([] if run else made) + [(size, address)], None
        else:
            run = run or Traced(seen, made)
            run.change(how, address, before, after)
    return seen


def main(model, seed=None):
    seed = seed or os.environ.get("TVEC_SEED") or str(random.randrange(1 << 32))
    print(f"TVEC_SEED={seed} {model}")
    known = {"TVEC_TRACE": "1", "TVEC_SEED": seed, "TVEC_STEPS": os.environ.get("TVEC_STEPS", "500000")}
    with subprocess.Popen([model], stdout=subprocess.PIPE, text=True, env={**os.environ, **known}) as program:
        seen = compare(program.stdout)
    unseen = set(Mailbox.steps) - set(seen) - {"push_refused"}  # that changes no atomic
    if program.returncode != 0 or unseen:
        sys.exit(f"{model} returned {program.returncode}, and does not show {unseen}")
    print(f"{seen.total()} steps agree: {dict(seen)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
