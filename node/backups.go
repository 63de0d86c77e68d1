package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/backup"
	"holdfast/fsm"
	"holdfast/session"
	"holdfast/transport/clientport"
)

const (
	// maxBackups bounds the frozen copies of the state. While a copy is kept, the node holds what has changed since
	// twice.
	maxBackups = 2
	// backupKept is how long a copy is kept for a client whose stream was cut off.
	backupKept = 2 * time.Minute
	// backupAge bounds the life of a copy, however slowly its client reads.
	backupAge = time.Hour
)

// backups are the frozen copies of the state that clients read. Safe for concurrent use.
type backups struct {
	logger hclog.Logger
	// freeze freezes the state, and describe says what it is frozen of.
	freeze   func() (*fsm.Backup, error)
	describe func() backup.Header
	// sync returns once the node has applied everything that was committed when the call began (R4 leadership needs a good
	// round).
	sync func(context.Context) error

	mu sync.Mutex
	// copies are those that are being made, read and kept. guarded by mu
	copies map[[backup.IDSize]byte]*frozen
}

// frozen is a copy of the state. backups.mu guards users and ends; the rest does not change once the copy is made.
type frozen struct {
	*backups
	id     [backup.IDSize]byte
	header backup.Header
	state  *fsm.Backup
	made   time.Time
	users  int
	// ends drops the copy when nobody has come back for it; nil while it has users.
	ends *time.Timer
}

func (n *Node) newBackups() *backups {
	return &backups{
		logger: n.options.Logger, freeze: n.view.Backup, describe: n.origin, sync: n.server.Sync,
		copies: map[[backup.IDSize]byte]*frozen{},
	}
}

// Freeze freezes the state: unless local, one that shows all that was acknowledged before the call. The caller releases
// it.
//
//nolint:revive // flag-parameter: it is the request's
func (b *backups) Freeze(ctx context.Context, local bool) (clientport.Frozen, error) {
	if !local {
		if err := b.sync(ctx); err != nil {
			return nil, err
		}
	}
	f := &frozen{backups: b, made: time.Now(), users: 1}
	_, _ = rand.Read(f.id[:]) // never fails: crypto/rand ends the process instead
	if err := b.reserve(f); err != nil {
		return nil, err
	}
	if err := f.make(!local); err != nil {
		b.drop(f)
		return nil, err
	}
	b.logger.Info("state frozen for a backup", "index", f.header.Index, "bytes", f.header.Bytes)
	return f, nil
}

// reserve notes a copy before it is made. It drops an older one that nobody reads, if there are too many.
func (b *backups) reserve(f *frozen) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.copies) >= maxBackups {
		var idle *frozen
		for _, one := range b.copies {
			if one.users == 0 && (idle == nil || one.made.Before(idle.made)) {
				idle = one
			}
		}
		if idle == nil {
			return &session.LimitError{
				Name: "max_snapshots", Limit: fmt.Sprintf("%d backups of a node at a time", maxBackups),
				RetryAfter: time.Second,
			}
		}
		idle.ends.Stop()
		delete(b.copies, idle.id)
	}
	b.copies[f.id] = f
	return nil
}

// make freezes the state, checks it, and measures what Write will write.
func (f *frozen) make(confirmed bool) error {
	state, err := f.freeze()
	if err != nil {
		return err
	}
	if err := state.Verify(); err != nil {
		return err
	}
	sum, size := sha256.New(), byteCount(0)
	if err := state.Write(io.MultiWriter(sum, &size)); err != nil {
		return err
	}
	c := state.Contents()
	if c.Index == 0 {
		return session.ErrLagging
	}
	f.state, f.header = state, f.describe()
	h := &f.header
	h.TakenAt, h.Confirmed, h.Index, h.FeatureLevel = time.Now(), confirmed, c.Index, c.Level
	h.Term = max(h.Term, c.Term)
	h.Sessions, h.Certificates, h.Entries, h.Ephemerals = c.Sessions, c.Certificates, c.Entries, c.Ephemerals
	h.Bytes, h.SHA256, h.StateDigest = uint64(size), [sha256.Size]byte(sum.Sum(nil)), c.Digest
	return nil
}

// byteCount counts the bytes that are written to it.
type byteCount uint64

func (c *byteCount) Write(b []byte) (int, error) {
	*c += byteCount(len(b))
	return len(b), nil
}

// Again returns a copy that is still there. The caller releases it.
func (b *backups) Again(id [backup.IDSize]byte) (clientport.Frozen, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.copies[id]
	if !ok || f.state == nil {
		return nil, &session.FieldError{Field: "resume", Limit: "a backup that this node still keeps"}
	}
	if f.users++; f.ends != nil {
		f.ends.Stop()
		f.ends = nil
	}
	return f, nil
}

// Release ends one use of the copy. The copy stays for a while, for a client whose stream was cut off.
func (f *frozen) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 || f.copies[f.id] != f {
		return
	}
	f.ends = time.AfterFunc(backupKept, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.users == 0 {
			delete(f.copies, f.id)
		}
	})
}

// drop forgets a copy.
func (b *backups) drop(f *frozen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.copies, f.id)
}

// close forgets all copies that nobody reads.
func (b *backups) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, f := range b.copies {
		if f.ends != nil {
			f.ends.Stop()
			delete(b.copies, id)
		}
	}
}

// ID names the copy to a client that comes back.
func (f *frozen) ID() [backup.IDSize]byte { return f.id }

// Header describes the copy.
func (f *frozen) Header() backup.Header { return f.header }

// Write writes the records. It always writes the same bytes. It fails with a LimitError when the copy is too old.
func (f *frozen) Write(w io.Writer) error { return f.state.Write(&aging{w, f.made}) }

// aging ends the writing of a copy that is too old.
type aging struct {
	io.Writer
	made time.Time
}

func (a *aging) Write(b []byte) (int, error) {
	if time.Since(a.made) > backupAge {
		return 0, &session.LimitError{Name: "snapshot_age", Limit: backupAge.String() + " for reading one backup"}
	}
	return a.Writer.Write(b)
}

// origin says what a backup of this node is of.
func (n *Node) origin() backup.Header {
	return backup.Header{
		Cluster: n.cfg.ClusterID, Node: n.cfg.Node, Version: n.options.Version, Term: n.consensus.Raft.CurrentTerm(),
	}
}
