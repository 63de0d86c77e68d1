"""Clients of kazoo that contend for one lock: see program.go for their commands and answers."""

import json
import sys
import threading
import time

from kazoo.client import KazooClient

TIMEOUT, PAUSE = 40.0, 0.150  # seconds: as lockTimeout and passPause in locks.go


def now():
    return time.monotonic_ns()


class Contest:
    def __init__(self, addresses, path):
        self.path = path
        self.clients = [KazooClient(hosts=a, timeout=TIMEOUT) for a in addresses]
        for starting in [c.start_async() for c in self.clients]:
            starting.wait(60)
        self.locks = [c.Lock(path) for c in self.clients]
        self.failed = []
        self.waiting = []

    def wait_queued(self, number):
        while len(self.clients[0].get_children(self.path)) != number:
            time.sleep(0.001)

    def alone(self, client, rounds):
        lock, took = self.locks[int(client)], []
        for _ in range(int(rounds)):
            begin = now()
            lock.acquire()
            lock.release()
            took.append(now() - begin)
        return took

    def handed(self, holder, waiter):
        got = []

        def wait():
            waiter.acquire()
            got.append(now())

        waiting = threading.Thread(target=wait)
        waiting.start()
        self.wait_queued(2)
        time.sleep(PAUSE)
        begin = now()
        holder.release()
        waiting.join()
        return got[0] - begin

    def pass_(self, rounds):
        holder, waiter = self.locks[:2]
        holder.acquire()
        took = []
        for _ in range(int(rounds)):
            took.append(self.handed(holder, waiter))
            holder, waiter = waiter, holder
        holder.release()
        return took

    def turn(self, lock):
        try:
            lock.acquire()
            lock.release()
        except Exception as e:
            self.failed.append(repr(e))

    def queue(self):
        self.locks[0].acquire()
        self.waiting = [threading.Thread(target=self.turn, args=(l,)) for l in self.locks[1:]]
        for w in self.waiting:
            w.start()
        self.wait_queued(len(self.locks))
        return []

    def drain(self):
        begin = now()
        self.locks[0].release()
        for w in self.waiting:
            w.join()
        took = now() - begin
        if self.failed:
            raise RuntimeError(self.failed[0])
        return [took]


def answer(**what):
    print(json.dumps(what), flush=True)


def main():
    threading.stack_size(256 << 10)
    contest = Contest(sys.argv[1].split(","), sys.argv[2])
    commands = {"alone": contest.alone, "pass": contest.pass_, "queue": contest.queue, "drain": contest.drain}
    answer(took=[])
    for line in sys.stdin:
        command, *args = line.split()
        try:
            answer(took=commands[command](*args))
        except Exception as e:
            answer(error=repr(e))


main()
