"""Clients of C and kazoo, as clients_test.go runs them: clients.py c|kazoo PART SERVERS.

The test tells the program by lines when to go on, and the program says what it has reached. It ends with 1 when a client
is not as it should be.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True

from serverlists import say, until  # noqa: E402: only now


def check(what, met):
    if not met:
        raise SystemExit("not " + what)


def wait(word):
    """Waits for a line of the test."""
    line = sys.stdin.readline().strip()
    check("told %s but %r" % (word, line), line == word)


class C:
    """A client of C. The methods are those of Kazoo too."""

    def __init__(self, servers, timeout, read_only=False):
        import cclient

        self.api = cclient
        flags = cclient.ALLOW_READ_ONLY if read_only else 0
        self.client = cclient.Client(servers, int(timeout * 1000), flags)
        names = {cclient.CONNECTED: "connected", cclient.READ_ONLY: "read-only", cclient.EXPIRED: "expired"}
        self.name = lambda state: names.get(state, "connecting")
        self.session = self.client.session

    def state(self):
        return self.name(self.client.state())

    def states(self):
        return [self.name(state) for state in self.client.states]

    def create(self, path, sequence=False):
        self.ok(self.client.create(path, self.api.EPHEMERAL | (self.api.SEQUENCE if sequence else 0)))

    def set(self, path, data):
        self.ok(self.client.set(path, data))

    def get(self, path):
        code, data = self.client.get(path)
        self.ok(code)
        return data

    def watch(self, path):
        code, _ = self.client.get(path, watch=True)
        self.ok(code)

    def heard(self):
        """Returns how often its watches were told of a change."""
        return self.client.changes

    def owner(self, path):
        code, owner = self.client.exists(path)
        self.ok(code)
        return owner

    def refused(self, write):
        """Reports whether the code of a write is that of a read-only server."""
        try:
            write()
        except OSError as error:
            return error.errno == self.api.NOT_READ_ONLY
        return False

    def close(self):
        self.client.close()

    @staticmethod
    def ok(code):
        if code != 0:
            raise OSError(code, "refused")


class Kazoo:
    """A client of kazoo."""

    def __init__(self, servers, timeout, read_only=False):
        from kazoo.client import KazooClient
        from kazoo.protocol.states import KeeperState

        names = {
            KeeperState.CONNECTED: "connected", KeeperState.CONNECTED_RO: "read-only",
            KeeperState.EXPIRED_SESSION: "expired",
        }
        self.client = KazooClient(hosts=servers, timeout=timeout, read_only=read_only, randomize_hosts=not read_only)
        self.state = lambda: names.get(self.client.client_state, "connecting")
        self.told, self.changes = [], []
        self.states = lambda: self.told
        self.client.add_listener(lambda state: self.told.append(self.state()))
        self.client.start_async()

    def session(self):
        return self.client.client_id[0]

    def create(self, path, sequence=False):
        self.client.create(path, b"", ephemeral=True, sequence=sequence)

    def set(self, path, data):
        self.client.set(path, data)

    def get(self, path):
        return self.client.get(path)[0]

    def watch(self, path):
        self.client.get(path, watch=self.changes.append)

    def heard(self):
        return sum(event.type == "CHANGED" for event in self.changes)

    def owner(self, path):
        return self.client.exists(path).ephemeralOwner

    @staticmethod
    def refused(write):
        from kazoo.exceptions import NotReadOnlyCallError

        try:
            write()
        except NotReadOnlyCallError:
            return True
        return False

    def close(self):
        self.client.stop()
        self.client.close()


def readonly(make, name, all_servers):
    """Two clients allow a read-only server: of a session of the cluster, and of none until there is no quorum."""
    last = all_servers.split(",")[-1]
    former = make(last, 30, read_only=True)
    until("connected", lambda: former.state() == "connected")
    session = former.session()
    former.create("/former-" + name)
    say("begun")
    wait("alone")
    # The node is the first of the list: kazoo asks that one alone whether it is read-write.
    late = make(",".join(reversed(all_servers.split(","))), 6, read_only=True)
    until("read-only", lambda: late.state() == "read-only")
    of_node = late.session()
    check("what was written", late.get("/kept") == b"before")
    check("refused", late.refused(lambda: late.set("/kept", b"never")))
    check("refused", late.refused(lambda: late.create("/late-" + name)))
    check("read-only after that", late.state() == "read-only" and late.session() == of_node)
    until("cut off", lambda: former.state() == "connecting")
    say("read-only")
    wait("back")
    until("read-write", lambda: late.state() == "connected")
    if name == "kazoo":  # it resumes the session of the node, of which other nodes know nothing
        same, told = late.session() == of_node, "expired" in late.states()
        check("the same session, unless told otherwise: %s" % late.states(), same != told)
    else:
        check("a session of the cluster", late.session() != of_node)
    late.create("/late-" + name)
    late.set("/of-" + name, b"after")
    until("connected again", lambda: former.state() == "connected")
    check("the same session", former.session() == session and former.owner("/former-" + name) == session)
    check("never read-only or expired", not {"read-only", "expired"} & set(former.states()))
    say("read-write %d %d" % (session, late.session()))
    wait("end")
    late.close()
    former.close()


def expiry(make, name, servers):
    """Two clients in a process that is stopped: for longer than the timeout of one, and for less than the other's."""
    brief, long = make(servers, 8), make(servers, 300)
    sessions = []
    for which, client in (("brief", brief), ("long", long)):
        until("connected", lambda: client.state() == "connected")
        sessions.append(client.session())
        client.create("/%s-%s" % (which, name))
    check("expired already", "expired" not in brief.states())
    before = len(brief.states())
    say("begun")
    wait("awake")
    until("told of the expiry", lambda: "expired" in brief.states())
    told = brief.states()[before:]
    check("without a connection: %s" % told, "connected" not in told[:told.index("expired")])
    until("connected again", lambda: "connecting" in long.states() and long.state() == "connected")
    check("the same session", long.session() == sessions[1] and long.owner("/long-" + name) == sessions[1])
    check("without an expiry: %s" % long.states(), "expired" not in long.states())
    if name == "kazoo":  # it begins anew by itself
        until("a new session", lambda: brief.state() == "connected" and brief.session() not in (None, sessions[0]))
    else:
        check("expired for good", brief.state() == "expired")
    say("expired " + " ".join(told))
    wait("end")
    brief.close()
    long.close()


def crowd(make, name, servers):
    """Many clients at once, whose watches hear of one write."""
    count = 1000
    with ThreadPoolExecutor(32) as pool:
        clients = list(pool.map(lambda _: make(servers, 300), range(count)))
        until("all connected", lambda: all(client.state() == "connected" for client in clients))

        def begin(client):
            client.create("/crowd-%s/c-" % name, sequence=True)
            client.watch("/crowd-" + name)

        list(pool.map(begin, clients))
        check("all connected still", all(client.states() == ["connected"] for client in clients))
        say("all %d" % count)
        wait("rung")
        until("told of the write", lambda: all(client.heard() == 1 for client in clients))
        check("all connected still", all(client.states() == ["connected"] for client in clients))
        say("heard")
        wait("close")
        list(pool.map(lambda client: client.close(), clients))
    say("closed")


if __name__ == "__main__":
    client, part, servers = sys.argv[1:]
    parts = {"readonly": readonly, "expiry": expiry, "crowd": crowd}
    parts[part]({"c": C, "kazoo": Kazoo}[client], client, servers)
