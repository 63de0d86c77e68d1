"""Runs kazoo's own tests against nodes that they may stop and start.

A plugin of pytest. NODES is a list in JSON: the address for clients, the folder and the command of each node.
"""
import json
import os
import signal
import socket
import subprocess
import time

from kazoo.client import KazooClient
from kazoo.testing import harness

STOP_WAIT = 20
SERVE_WAIT = 60


class Server:
    """One node, as the tests see a server."""

    def __init__(self, spec):
        self.address = spec["address"]
        self._spec = spec
        self._process = None

    @property
    def running(self):
        return self._process is not None

    def start(self):
        """Starts the node, and does not wait until it serves."""
        if self._process is None:
            with open(os.path.join(self._spec["dir"], "node.log"), "ab") as log:
                self._process = subprocess.Popen(self._spec["args"], stdout=log, stderr=log)

    def serves(self):
        """Returns once the node says that it is no read-only one. Until it has heard of a leader, it takes connections
        for the clients of read-only servers alone."""
        host, port = self.address.rsplit(":", 1)
        until = time.monotonic() + SERVE_WAIT
        while True:
            try:
                with socket.create_connection((host, int(port)), 1) as connection:
                    connection.sendall(b"isro")
                    said = connection.recv(16)
            except OSError as error:
                said = error
            if said == b"rw":
                return
            if time.monotonic() > until:
                raise TimeoutError("%s: %s" % (self.address, said))
            time.sleep(0.05)

    def run(self):
        self.start()
        self.serves()

    def stop(self):
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


class Cluster(list):
    def start(self):
        for server in self:
            server.start()
        for server in self:
            server.serves()

    def terminate(self):
        for server in self:
            server.stop()


CLUSTER = Cluster(Server(spec) for spec in json.loads(os.environ["NODES"]))


def pytest_configure():
    CLUSTER.start()
    harness.get_global_cluster = lambda: CLUSTER
    harness.KazooTestHarness.servers = property(lambda _: ",".join(s.address for s in TURN))
    KazooClient.__init__ = in_order


# TURN has the servers in the order in which the clients of a test try them. It is the same for all clients of one test:
# several read what another one has written, which no server promises to those of other servers.
TURN = list(CLUSTER)


def pytest_runtest_setup():
    TURN.append(TURN.pop(0))


def in_order(self, *args, of_kazoo=KazooClient.__init__, **kwargs):
    kwargs.setdefault("randomize_hosts", False)
    of_kazoo(self, *args, **kwargs)


def pytest_unconfigure():
    CLUSTER.terminate()
