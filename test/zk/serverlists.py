"""Clients whose list of servers changes, as servers_test.go runs them: serverlists.py c|kazoo SERVERS SERVERS ...

The first list is the one to begin with. For each other one it asks for the end of the server that it is at, prints the
port of its next server, and ends with 1 when the session is lost.
"""

import ctypes
import sys
import time

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


class ClientId(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int64), ("password", ctypes.c_char * 16)]


def c(lists):
    lib = ctypes.CDLL("libzookeeper_mt.so.2")
    watcher = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    lib.zoo_set_debug_level(1)
    lib.zookeeper_init.restype = ctypes.c_void_p
    lib.zookeeper_init.argtypes = [
        ctypes.c_char_p, watcher, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
    ]
    lib.zoo_client_id.restype = ctypes.POINTER(ClientId)
    lib.zoo_get_current_server.restype = ctypes.c_char_p
    for call in (lib.zoo_state, lib.zoo_client_id, lib.zoo_get_current_server, lib.zookeeper_close):
        call.argtypes = [ctypes.c_void_p]
    lib.zoo_set_servers.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.zoo_exists.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p]
    states = []
    heard = watcher(lambda zh, kind, state, path, context: states.append(state))
    zh = lib.zookeeper_init(lists[0].encode(), heard, 6000, None, None, 0)
    connected = ctypes.c_int.in_dll(lib, "ZOO_CONNECTED_STATE").value
    expired = ctypes.c_int.in_dll(lib, "ZOO_EXPIRED_SESSION_STATE").value

    def at():
        return (lib.zoo_get_current_server(zh) or b"").decode().rsplit(":", 1)[-1]

    until("connected", lambda: lib.zoo_state(zh) == connected)
    session = lib.zoo_client_id(zh).contents.id
    stat = ctypes.create_string_buffer(128)
    for servers in lists[1:]:
        if lib.zoo_set_servers(zh, servers.encode()) != 0:
            raise SystemExit("refused: " + servers)
        server = at()
        kill(server)
        until("at one of " + servers, lambda: lib.zoo_state(zh) == connected and at() in ports(servers) and at() != server)
        if lib.zoo_exists(zh, b"/", 0, stat) != 0 or lib.zoo_client_id(zh).contents.id != session or expired in states:
            raise SystemExit("the session is another one")
        say(at())
    lib.zookeeper_close(zh)


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


{"c": c, "kazoo": kazoo}[sys.argv[1]](sys.argv[2:])
