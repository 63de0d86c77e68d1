package sim

import (
	"strings"

	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// veiledBeds are the entries whose lists change.
func veiledBeds() []string {
	return []string{check.VeiledPath + "/a", check.VeiledPath + "/b", check.VeiledPath + "/a/deep"}
}

// known is a tenant with a password, so that lists can name it.
func (w *world) known(name string) *tenant {
	x := w.absent(name)
	x.digests = []string{password(name)}
	x.start(w.Host(name))
	return x
}

// hiding draws a list: none of its own, open to read, for the gardener alone, or for the gardener and a watcher. The
// gardener may always do everything.
func (x *gardener) hiding() tree.ACL {
	list := tree.ACL{{Permissions: tree.All, Scheme: tree.Digest, ID: principal(x.name).ID}}
	switch x.draw(4) {
	case 0:
		return nil
	case 1:
		return append(list, tree.Grant{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone})
	case 2:
		return append(list, tree.Grant{Permissions: tree.Read, Scheme: tree.Digest, ID: principal(knownWatcher).ID})
	default:
		return list
	}
}

// veil draws operations on entries that are hidden from some watchers. Lists change together with the hidden data, and
// also between two changes of one transaction.
func (x *gardener) veil(data []byte) []tree.Op {
	all := veiledBeds()
	bed := all[x.draw(len(all))]
	create := tree.Create{Path: bed, Kind: tree.Persistent, Parents: true, Data: data, ACL: x.hiding()}
	set := tree.Set{Path: bed, Version: tree.Any, Data: data}
	list := func() tree.Op { return tree.SetACL{Path: bed, Version: tree.Any, ACL: x.hiding()} }
	switch x.draw(11) {
	case 0, 1, 2:
		return []tree.Op{create}
	case 3:
		return []tree.Op{tree.Delete{Path: bed, Version: tree.Any}}
	case 4:
		return []tree.Op{set, list(), set}
	case 5:
		return []tree.Op{tree.SetACL{Path: check.VeiledPath, Version: tree.Any, ACL: x.hiding()}}
	case 6:
		return []tree.Op{list(), set}
	case 7:
		return []tree.Op{list(), set, tree.Delete{Path: bed, Version: tree.Any}, create}
	case 8:
		return []tree.Op{list()}
	default:
		return []tree.Op{set}
	}
}

// strays records log lines, of a watcher's SDK and of Raft, about events that end a connection's watches. Only these
// lines report the events.
func (w *world) strays(name, text string) {
	who, isClient := strings.CutSuffix(name, ".client")
	switch text {
	case "connected", "connected to a read-only node", "connection lost", "looking for another node":
		if isClient && (who == knownWatcher || who == otherWatcher) {
			w.record.Add(history.Event{Kind: history.ConnectionChanged, Who: who, Text: text})
		}
	case "Installed remote snapshot":
		w.record.Add(history.Event{Kind: history.ConnectionChanged, Text: name + ": " + text})
	}
}
