#!/usr/bin/env python3
"""Kills a service that places orders and their timers in the same transactions, and looks into its file.

Runs orders_in_transactions again and again on one file, and ends it with SIGKILL after a random time. Each time a
waiting order has a timer, and a timer has an order. In the end one process more closes what is left.
"""

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from children import PATIENCE

UNTIMED = "select count(*) from orders where state = 'waiting' and not exists(select 1 from timer where timer.id = orders.id)"
ORPHANS = "select count(*) from timer where not exists(select 1 from orders where orders.id = timer.id)"


def number(file, sql):
    db = sqlite3.connect(file)
    try:
        return db.execute(sql).fetchone()[0]
    finally:
        db.close()


def audit(file):
    for sql in (UNTIMED, ORPHANS):
        if (n := number(file, sql)) != 0:
            sys.exit(f"transactions: {n} are the answer to: {sql}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="orders_in_transactions")
    parser.add_argument("--rounds", type=int, default=8, help="how often (8)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = folder + "/orders.db"
        for _ in range(options.rounds):
            process = subprocess.Popen([options.program, "--store", file, "--seconds", "60"], stdout=subprocess.DEVNULL)
            try:
                time.sleep(random.uniform(0.3, 1.2))
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
                if process.wait() != -signal.SIGKILL:
                    sys.exit("transactions: the service ended by itself")
            audit(file)
        subprocess.run([options.program, "--store", file, "--seconds", "60", "--finish"], check=True, timeout=2 * PATIENCE,
                       stdout=subprocess.DEVNULL)
        audit(file)
        closed, all_of = number(file, "select count(*) from orders where state = 'closed'"), number(file, "select count(*) from orders")
        if closed == 0 or number(file, "select count(*) from orders where state = 'waiting'") != 0:
            sys.exit(f"transactions: {closed} orders were closed, of {all_of}")
        print(f"{all_of} orders, {closed} closed, {options.rounds} kills")


if __name__ == "__main__":
    main()
