package history

import (
	"holdfast/session"
	"holdfast/tree"
)

// Entry is a client's write or read of an entry of the tree.
type Entry struct {
	Path string
	// Data is the written or shown data. Each write of a run has different data.
	Data string
	// Expected is the version that a set names; [tree.Any] for other writes.
	Expected int64
	// Refused is why the state refused the write, 0 if it took effect.
	Refused tree.Code
	// Exists reports that a read found the entry. Stat is the entry's, as shown, or after the write.
	Exists bool
	Stat   tree.Stat
	// Stamp is the write's own, or that of the state that was read.
	Stamp tree.Stamp
	// Sequential: the state has given the entry its number.
	Sequential bool
	// Linearizable reports that the read must show all that was committed when it began (G5 linearizable reads).
	Linearizable bool
	// Lists reports that the read listed the children of Path: Names are all of them, and Stat is that of Path.
	Lists bool
	Names []string
	// Owner, of a read that listed the ephemerals of a session, is the session; Names are their paths then.
	Owner session.ID
	// As are the principals of the reading client, besides anyone. Denied: the read was refused.
	As     []tree.Principal
	Denied bool
	// Handle says through which handle of a session of its client the read was; 0 for none. See [Call].
	Handle uint64
}
