package segments

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/hashicorp/raft-wal/types"
)

// listKey is the key of the list of segments, next to Raft's own values.
const listKey = "holdfast.segments"

// list is the list of a log's segments on disk. raft-wal commits a list before it makes or after it has deleted a file:
//
//   - A file that the list does not name is left over from a deletion, or replaced, if its number is below
//     NextSegmentID.
//   - A segment that the list names has a file. Only the newest one may lack it, after a crash, until Made counts it.
//
// One goroutine at a time uses a list: raft-wal holds its own lock.
type list struct {
	types.PersistentState
	// Made is one more than the number of the newest segment whose file was made.
	Made uint64

	stable   raft.StableStore
	readOnly bool
	// failed, if set, is called with the error of a write.
	failed func(error)
}

// readList reads the list. A new log has none.
func readList(stable raft.StableStore) (*list, error) {
	l := &list{stable: stable}
	b, err := stable.Get([]byte(listKey))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return l, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, l); err != nil {
			return nil, &FileError{"", fmt.Sprintf("is damaged: its list of segments: %v", err)}
		}
	}
	return l, err
}

// write makes next the list on disk.
func (l *list) write(next types.PersistentState, made uint64) error {
	if !l.readOnly {
		b, err := json.Marshal(&list{PersistentState: next, Made: made})
		if err == nil {
			err = l.stable.Set([]byte(listKey), b)
		}
		if err != nil {
			if l.failed != nil {
				l.failed(err)
			}
			return err
		}
	}
	l.PersistentState, l.Made = next, made
	return nil
}

// made records that the file of a segment was made.
func (l *list) made(number uint64) error { return l.write(l.PersistentState, max(l.Made, number+1)) }

// Load implements types.MetaStore.
func (l *list) Load(string) (types.PersistentState, error) { return l.PersistentState, nil }

// CommitState implements types.MetaStore.
func (l *list) CommitState(next types.PersistentState) error { return l.write(next, l.Made) }

// GetStable implements types.MetaStore. Raft's stable store is another one.
func (l *list) GetStable([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// SetStable implements types.MetaStore.
func (l *list) SetStable([]byte, []byte) error { return errors.ErrUnsupported }

// Close implements types.MetaStore. The owner of the stable store closes it.
func (l *list) Close() error { return nil }
