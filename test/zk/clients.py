"""Clients of C and kazoo, as clients_test.go runs them: clients.py c|kazoo PART SERVERS.

The test tells the program by lines when to go on, and the program says what it has reached. It ends with 1 when a client
is not as it should be.
"""

import sys

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
        self.client = KazooClient(hosts=servers, timeout=timeout, read_only=read_only)
        self.state = lambda: names.get(self.client.client_state, "connecting")
        self.heard = []
        self.states = lambda: self.heard
        self.client.add_listener(lambda state: self.heard.append(self.state()))
        self.client.start_async()

    def session(self):
        return self.client.client_id[0]

    def create(self, path, sequence=False):
        self.client.create(path, b"", ephemeral=True, sequence=sequence)

    def set(self, path, data):
        self.client.set(path, data)

    def get(self, path):
        return self.client.get(path)[0]

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
    late = make(all_servers, 6, read_only=True)
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


if __name__ == "__main__":
    client, part, servers = sys.argv[1:]
    {"readonly": readonly}[part]({"c": C, "kazoo": Kazoo}[client], client, servers)
