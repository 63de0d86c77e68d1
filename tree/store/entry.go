package store

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"holdfast/tree"
)

// payload is the content of an entry. sum is the hash of large data. The digest uses sum, so that a change of another
// field of the entry does not hash the data again.
type payload struct {
	data string
	sum  *[sha256.Size]byte
	null bool
}

// entry is one entry of the tree. It is immutable: a change of the tree replaces the entry (D1 tree layout).
type entry struct {
	payload

	created, modified, childrenModified tree.Stamp
	// createdMS and modifiedMS are wall-clock times in Unix milliseconds; for people only.
	createdMS, modifiedMS int64
	// owner is the session of an ephemeral, or 0.
	owner uint64
	// creates counts all children that the entry has ever had (D4 sequence numbers).
	creates             uint64
	version, aclVersion int64
	// lifeMS is the TTL of an expiring entry, or the lock-delay of an ephemeral.
	lifeMS int64
	// dueMS is the time on the log clock, in milliseconds, when the entry ends by itself; 0 for never. An entry with
	// children does not end (D5 TTLs and containers).
	dueMS int64
	// acl is the entry's own access list; nil for an inherited list.
	acl      *interned
	children uint32
	kind     tree.Kind
}

// mayHaveChildren reports whether e may have children (W-20).
func (e *entry) mayHaveChildren() bool { return e.kind != tree.Ephemeral && e.kind != tree.InLockDelay }

// ends reports whether e will end by itself unless it changes.
func (e *entry) ends() bool { return e.dueMS != 0 && e.children == 0 }

// The turns of the entries that end by themselves (D5). A client may wait for the end of a lock-delay, and no client
// waits for the end of a container. Due times are smaller than the distance between two turns.
const (
	lockDelayTurn = iota << 62
	expiringTurn
	containerTurn
)

// turn is the position of e in the order of the entries that end by themselves: the turn of its kind plus its due time
// in milliseconds.
func (e *entry) turn() uint64 {
	due := uint64(e.dueMS) //nolint:gosec // a time is not negative
	if e.kind == tree.InLockDelay {
		return lockDelayTurn + due
	}
	if e.kind == tree.Container {
		return containerTurn + due
	}
	return expiringTurn + due
}

func (e *entry) bytes() []byte {
	if e.null {
		return nil
	}
	return []byte(e.data)
}

func (e *entry) stat() tree.Stat {
	stat := tree.Stat{
		Created: e.created, Modified: e.modified, ChildrenModified: e.childrenModified,
		CreatedAt: time.UnixMilli(e.createdMS), ModifiedAt: time.UnixMilli(e.modifiedMS),
		Version: e.version, ACLVersion: e.aclVersion, ChildrenVersion: 2*int64(e.creates) - int64(e.children),
		Owner: e.owner, Bytes: len(e.data), Children: int(e.children), Kind: e.kind,
	}
	if e.ends() {
		stat.Due = time.Duration(e.dueMS) * time.Millisecond
	}
	return stat
}

// canonical appends the bytes of the entry with a key for the digest (D6 tree digest): every field, so that replicas
// with a difference in any field have different digests.
func (e *entry) canonical(b []byte, key string) []byte {
	b = appendString(append(b, 't'), key)
	for _, n := range [...]uint64{
		uint64(e.created), uint64(e.modified), uint64(e.childrenModified), uint64(e.createdMS), uint64(e.modifiedMS),
		e.owner, e.creates, uint64(e.version), uint64(e.aclVersion), uint64(e.lifeMS), uint64(e.dueMS),
		uint64(e.children), uint64(e.kind),
	} {
		b = binary.AppendUvarint(b, n)
	}
	if e.acl == nil {
		b = append(b, 0)
	} else {
		b = appendHashed(b, e.acl.content, e.acl.sum)
	}
	if e.null {
		return append(b, 0)
	}
	return appendHashed(b, e.data, e.sum)
}

// appendHashed appends a text; if the text has a hash, its length and hash instead.
func appendHashed(b []byte, text string, sum *[sha256.Size]byte) []byte {
	if sum == nil {
		return appendString(append(b, 1), text)
	}
	return append(binary.AppendUvarint(append(b, 2), uint64(len(text))), sum[:]...)
}

// largeData is the smallest length of data that the digest replaces by a hash.
const largeData = 256

// set replaces the data; nil is null.
func (p *payload) set(data []byte) {
	p.data, p.null, p.sum = string(data), data == nil, sumOf(data)
}

func sumOf(data []byte) *[sha256.Size]byte {
	if len(data) < largeData {
		return nil
	}
	sum := sha256.Sum256(data)
	return &sum
}

// afresh returns the entry with its hashes recomputed.
func (e *entry) afresh() *entry {
	if e.sum == nil && (e.acl == nil || e.acl.sum == nil) {
		return e
	}
	again := *e
	again.sum = sumOf([]byte(e.data))
	if e.acl != nil {
		list := *e.acl
		list.sum = sumOf([]byte(list.content))
		again.acl = &list
	}
	return &again
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
