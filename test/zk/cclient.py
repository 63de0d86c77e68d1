"""The C client of ZooKeeper, through ctypes."""

import ctypes


class ClientId(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int64), ("password", ctypes.c_char * 16)]


class Stat(ctypes.Structure):
    _fields_ = [
        ("czxid", ctypes.c_int64), ("mzxid", ctypes.c_int64), ("ctime", ctypes.c_int64), ("mtime", ctypes.c_int64),
        ("version", ctypes.c_int32), ("cversion", ctypes.c_int32), ("aversion", ctypes.c_int32),
        ("owner", ctypes.c_int64), ("length", ctypes.c_int32), ("children", ctypes.c_int32), ("pzxid", ctypes.c_int64),
    ]


lib = ctypes.CDLL("libzookeeper_mt.so.2")
WATCHER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
lib.zoo_set_debug_level(1)
lib.zookeeper_init.restype = ctypes.c_void_p
lib.zookeeper_init.argtypes = [ctypes.c_char_p, WATCHER, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
lib.zoo_client_id.restype = ctypes.POINTER(ClientId)
lib.zoo_get_current_server.restype = ctypes.c_char_p
for call in (lib.zoo_state, lib.zoo_client_id, lib.zoo_get_current_server, lib.zookeeper_close):
    call.argtypes = [ctypes.c_void_p]
lib.zoo_set_servers.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
lib.zoo_exists.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
lib.zoo_get.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p,
]
lib.zoo_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
lib.zoo_create.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p,
    ctypes.c_int,
]


def constant(name):
    return ctypes.c_int.in_dll(lib, name).value


CONNECTED, READ_ONLY, EXPIRED = (
    constant("ZOO_" + state + "_STATE") for state in ("CONNECTED", "READONLY", "EXPIRED_SESSION")
)
SESSION_EVENT, CHANGED_EVENT = constant("ZOO_SESSION_EVENT"), constant("ZOO_CHANGED_EVENT")
EPHEMERAL, SEQUENCE = constant("ZOO_EPHEMERAL"), constant("ZOO_SEQUENCE")
OPEN_ACL = ctypes.addressof(ctypes.c_char.in_dll(lib, "ZOO_OPEN_ACL_UNSAFE"))
ALLOW_READ_ONLY = 1  # ZOO_READONLY, a macro
NOT_READ_ONLY = -119  # ZNOTREADONLY


class Client:
    """A client, the states that it was told, and how often it heard of a change."""

    def __init__(self, servers, timeout, flags=0):
        self.states, self.changes = [], 0
        self._watcher = WATCHER(self._hear)
        self.handle = lib.zookeeper_init(servers.encode(), self._watcher, timeout, None, None, flags)

    def _hear(self, handle, kind, state, path, context):
        if kind == SESSION_EVENT:
            self.states.append(state)
        elif kind == CHANGED_EVENT:
            self.changes += 1

    def state(self):
        return lib.zoo_state(self.handle)

    def session(self):
        return lib.zoo_client_id(self.handle).contents.id

    def server(self):
        return (lib.zoo_get_current_server(self.handle) or b"").decode().rsplit(":", 1)[-1]

    def set_servers(self, servers):
        return lib.zoo_set_servers(self.handle, servers.encode())

    def exists(self, path):
        """Returns the code, and the owner of an ephemeral."""
        stat = Stat()
        return lib.zoo_exists(self.handle, path.encode(), 0, ctypes.byref(stat)), stat.owner

    def get(self, path, watch=False):
        data, length, stat = ctypes.create_string_buffer(1024), ctypes.c_int(1024), Stat()
        code = lib.zoo_get(self.handle, path.encode(), watch, data, ctypes.byref(length), ctypes.byref(stat))
        return code, data.raw[:max(length.value, 0)]

    def set(self, path, data):
        return lib.zoo_set(self.handle, path.encode(), data, len(data), -1)

    def create(self, path, flags=0):
        return lib.zoo_create(self.handle, path.encode(), b"", 0, OPEN_ACL, flags, None, 0)

    def close(self):
        lib.zookeeper_close(self.handle)
