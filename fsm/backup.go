package fsm

import (
	"errors"
	"fmt"
	"io"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// Backup is a frozen state on its way out of the cluster. It is a snapshot without all that proves who a client is: the
// cluster key, from which credentials follow, and the request ids of opens, whose repeat is answered with a credential.
// Safe for concurrent use.
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
	return &Backup{view: v.nameless(), verify: func() error { return s.verify(v, live, nil) }}, nil
}

// nameless returns v without the cluster key and the request ids.
func (v *View) nameless() *View {
	t := v.tables
	t.requests.all(func(q request) bool {
		t.remove(q.canonical(t.scratch))
		t.bytes -= session.RequestBytes
		return true
	})
	t.requests, t.key, t.scratch = newRequests(), session.Key{}, nil
	return &View{index: v.index, term: v.term, tables: t}
}

// Verify returns an error when the state in memory is damaged: then no backup may be made of it.
func (b *Backup) Verify() error { return b.verify() }

// Write writes the backup. The same backup always gives the same bytes.
func (b *Backup) Write(w io.Writer) error { return writeSnapshot(w, b.view) }

// Contents returns what the backup holds, without the entries by their kinds.
func (b *Backup) Contents() Contents { return b.view.contents() }

// UsedUp returns the node numbers of which no ids are left, as of nodes that were removed: no node of a cluster that goes
// on with the state can have one.
func (b *Backup) UsedUp() []session.Node { return b.view.tables.usedUp.all() }

// Contents describe a state.
type Contents struct {
	// Index is that of the newest entry, Term that of the newest command.
	Index, Term uint64
	Digest      [16]byte
	// Level is the feature level. Clock is the log clock.
	Level uint32
	Clock time.Duration
	// Attachment is the newest one. Marks counts the node numbers that ids were given out of.
	Attachment uint64
	Marks      int
	Sessions   uint64
	// Certificates counts those that are there, Ended all sessions that ever ended.
	Certificates, Ended uint64
	// Writers counts the sessions that wrote, Wills those of them that have a will.
	Writers, Wills int
	// Entries counts the entries of the tree, Ephemerals the ephemeral ones, and Bytes is their data. Kinds counts the
	// entries of each kind.
	Entries, Ephemerals, Bytes uint64
	Kinds                      map[tree.Kind]uint64
}

func (v *View) contents() Contents {
	t := &v.tables
	c := Contents{
		Index: v.index, Term: v.term, Digest: t.digest(), Attachment: t.attachment, Sessions: uint64(t.sessions.size()),
		Certificates: uint64(len(t.certificates.items)), Ended: t.issued,
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

// CheckBackup reads a backup to its end, and returns what it holds. Its error says what is wrong with which record.
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

// readBackup reads a backup to its end. The view's tables can be written to.
func readBackup(from io.Reader) (*View, error) {
	v, err := readSnapshot(from)
	switch {
	case err != nil:
		return nil, err
	case v.tables.key != (session.Key{}):
		return nil, errors.New("it has a cluster key, which no backup has")
	case v.tables.requests.size() > 0:
		return nil, errors.New("it has request ids of opens, which no backup has")
	default:
		return v, nil
	}
}

const (
	// IndexLeap is how far the index of a renewed state is above the former one. Stamps follow from indexes, so none that
	// the former cluster gave out after the backup comes again: ten thousand entries a second reach it after 318 days.
	// 511 restores in a row fit into a stamp.
	IndexLeap = 1 << 38
	// AttachmentLeap is the same for attachments.
	AttachmentLeap = 1 << 40
	// MarkLeap is how far the marks of a renewed state are above the wall clock, and above what they were (I7). Ids of
	// the former cluster follow the wall clock. They ran ahead of it by less, unless clients claimed 86 million full
	// blocks since the backup.
	MarkLeap = 24 * time.Hour
)

// Renewal is what makes a state that of another cluster.
type Renewal struct {
	// Key is the other cluster's.
	Key session.Key
	// Now is the wall clock.
	Now time.Time
	// Nodes are the numbers of its nodes.
	Nodes []session.Node
}

// Renew reads a backup to its end and writes the state of another cluster to a snapshot. Nothing that the former
// cluster may have given out since comes again: ids, stamps and attachments go on far above those of the backup.
// Credentials of the former cluster are none of the new key's, so that its sessions end when their timeouts have
// passed. A number of which no ids are left is refused for a node of the other cluster. Renew returns what the snapshot
// holds; Contents.Term is the former cluster's.
func Renew(from io.Reader, to io.Writer, r Renewal) (Contents, error) {
	v, err := readBackup(from)
	if err != nil {
		return Contents{}, err
	}
	if err := v.renew(r); err != nil {
		return Contents{}, err
	}
	return v.contents(), writeSnapshot(to, v)
}

func (v *View) renew(r Renewal) error {
	t := &v.tables
	if v.index > tree.MaxIndex-2*IndexLeap {
		return fmt.Errorf("its index is %d: stamps have no room for another cluster above it", v.index)
	}
	v.index += IndexLeap
	t.attachment += AttachmentLeap
	t.key = r.Key
	for node := session.Node(1); node <= session.MaxNode; node++ {
		t.setMark(leap(t.marks[node], node, session.MS(r.Now)))
	}
	for _, node := range r.Nodes {
		if t.usedUp.has(node) {
			return fmt.Errorf("node %d: no ids of this number are left, as of a node that was removed from the former "+
				"cluster: take the node out of --peers, or give it a number that no node has had; numbers without ids: %v",
				node, t.usedUp.all())
		}
	}
	t.shown = t.space.freeze(v.index)
	return nil
}

// leap returns the mark of a node number in a renewed state: its highest id if too few are left.
func leap(mark session.ID, node session.Node, ms uint64) session.ID {
	ahead := session.ID(MarkLeap.Milliseconds()) * session.MaxClaim
	next, err := session.NextID(mark, node, ms)
	if err != nil || (next+ahead).Node() != node {
		return session.ID(node+1)<<56 - 1
	}
	return next + ahead
}
