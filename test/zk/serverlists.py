"""Clients whose list of servers changes, as servers_test.go runs them: serverlists.py c|kazoo SERVERS SERVERS ...

The first list is the one to begin with. For each other one it asks for the end of the server that it is at, prints the
port of its next server, and ends with 1 when the session is lost.
"""

import sys
import time

sys.dont_write_bytecode = True
WAIT = 60


def until(what, met):
    end = time.monotonic() + WAIT
    while not met():
        if time.monotonic() > end:
            raise SystemExit("not " + what)
        time.sleep(0.02)


def say(text):
    print("= " + text, flush=True)


def kill(port):
    say("kill " + port)
    if sys.stdin.readline().strip() != "killed":
        raise SystemExit("nobody ended the server")


def ports(servers):
    return [server.rsplit(":", 1)[1] for server in servers.split(",")]


def c(lists):
    import cclient

    client = cclient.Client(lists[0], 6000)
    until("connected", lambda: client.state() == cclient.CONNECTED)
    session = client.session()
    for servers in lists[1:]:
        if client.set_servers(servers) != 0:
            raise SystemExit("refused: " + servers)
        server = client.server()
        kill(server)

        def moved():
            return client.state() == cclient.CONNECTED and client.server() in ports(servers) and client.server() != server

        until("at one of " + servers, moved)
        if client.exists("/")[0] != 0 or client.session() != session or cclient.EXPIRED in client.states:
            raise SystemExit("the session is another one")
        say(client.server())
    client.close()


def kazoo(lists):
    from kazoo.client import KazooClient

    client = KazooClient(hosts=lists[0], timeout=20)
    client.start(timeout=WAIT)
    session = client.client_id[0]
    client.create("/of-kazoo", b"", ephemeral=True)

    def at():
        sock = client._connection._socket
        try:
            return str(sock.getpeername()[1]) if client.connected else ""
        except (AttributeError, OSError):
            return ""

    for servers in lists[1:]:
        client.set_hosts(servers)
        server = at()
        kill(server)
        until("at one of " + servers, lambda: at() in ports(servers) and at() != server)
        owner = client.retry(client.exists, "/of-kazoo").ephemeralOwner
        if client.client_id[0] != session or owner != session:
            raise SystemExit("the session is another one")
        say(at())
    client.stop()


if __name__ == "__main__":
    {"c": c, "kazoo": kazoo}[sys.argv[1]](sys.argv[2:])
