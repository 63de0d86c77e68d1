package fsm

import (
	"errors"
	"fmt"
	"io"
	"time"

	"holdfast/fsm/requests"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// Backup is a frozen state for use outside the cluster. It is a snapshot without the secrets that prove who a client
// is: the cluster key, from which credentials follow, and the request ids of opens, whose repeat is answered with a
// credential. Safe for concurrent use.
type Backup struct {
	view   *View
	verify func() error
}

// Backup freezes the present state. It returns at once.
func (s *State) Backup() (*Backup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != nil {
		return nil, fmt.Errorf("no backup of a halted state: %w", s.halted)
	}
	live, v := s.tables, s.frozen()
	return &Backup{view: v.withoutSecrets(), verify: func() error { return s.verify(v, live, nil) }}, nil
}

// withoutSecrets returns v without the cluster key and the request ids.
func (v *View) withoutSecrets() *View {
	t := v.tables
	t.requests.All(func(q requests.Request) bool {
		t.remove(q.Canonical(t.scratch))
		t.bytes -= session.RequestBytes
		return true
	})
	t.requests, t.key, t.scratch = requests.New(), session.Key{}, nil
	return &View{index: v.index, term: v.term, tables: t}
}

// Verify returns an error when the state in memory is damaged: such a state must not be backed up.
func (b *Backup) Verify() error { return b.verify() }

// Write writes the backup. The same backup always gives the same bytes.
func (b *Backup) Write(w io.Writer) error { return writeSnapshot(w, b.view) }

// Contents returns the contents of the backup, without Kinds.
func (b *Backup) Contents() Contents { return b.view.contents() }

// UsedUp returns the node numbers without free ids, as of removed nodes. A cluster that continues with the state cannot
// use these numbers.
func (b *Backup) UsedUp() []session.Node { return b.view.tables.usedUp.all() }

// Contents describes a state.
type Contents struct {
	// Index is the index of the newest entry, Term the term of the newest command.
	Index, Term uint64
	Digest      [16]byte
	// Level is the feature level. Clock is the log clock.
	Level uint32
	Clock time.Duration
	// Attachment is the newest attachment. Marks counts the node numbers of which ids were used.
	Attachment uint64
	Marks      int
	Sessions   uint64
	// Certificates counts the kept certificates, Ended all sessions that ever ended.
	Certificates, Ended uint64
	// Writers counts the sessions that have written, Wills the sessions among them that have a will.
	Writers, Wills int
	// Entries counts the entries of the tree, Ephemerals the ephemeral entries, and Bytes the bytes of their data.
	// Kinds counts the entries of each kind.
	Entries, Ephemerals, Bytes uint64
	Kinds                      map[tree.Kind]uint64
}

func (v *View) contents() Contents {
	t := &v.tables
	c := Contents{
		Index: v.index, Term: v.term, Digest: t.digest(), Attachment: t.attachment, Sessions: uint64(t.sessions.Len()),
		Certificates: uint64(len(t.certificates.Items)), Ended: t.issued,
	}
	for _, mark := range t.marks {
		if mark != 0 {
			c.Marks++
		}
	}
	now := t.shown
	ephemerals, bytes := now.Root.Sizes()
	c.Level, c.Clock = now.Level, now.Clock
	c.Entries, c.Ephemerals, c.Bytes = uint64(now.Root.Len()), uint64(ephemerals), uint64(bytes)
	return c
}

// CheckBackup reads a backup to its end, and returns its contents. The error says what is wrong with which record.
func CheckBackup(from io.Reader) (Contents, error) {
	v, err := readBackup(from)
	if err != nil {
		return Contents{}, err
	}
	c := v.contents()
	now := v.tables.shown
	c.Kinds = map[tree.Kind]uint64{}
	now.Root.Records(func(one store.Record) bool {
		c.Kinds[one.Kind]++
		return true
	})
	c.Writers = now.Writers.Len()
	now.Writers.Records(func(one writers.Record) bool {
		if one.Will != nil {
			c.Wills++
		}
		return true
	})
	return c, nil
}

// readBackup reads a backup to its end. The caller may change the tables of the view.
func readBackup(from io.Reader) (*View, error) {
	v, err := readSnapshot(from)
	switch {
	case err != nil:
		return nil, err
	case v.tables.key != (session.Key{}):
		return nil, errors.New("has a cluster key: this is a snapshot, not a backup")
	case v.tables.requests.Len() > 0:
		return nil, errors.New("has request ids of opens: this is a snapshot, not a backup")
	default:
		return v, nil
	}
}
