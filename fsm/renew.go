package fsm

import (
	"fmt"
	"io"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

const (
	// IndexLeap is the distance of the index of a renewed state from the former index. Stamps follow from indexes, so
	// no stamp that the former cluster gave out after the backup comes again: at ten thousand entries a second, the
	// former cluster reaches the new indexes after 318 days. Stamps suffice for 510 restores in a row.
	IndexLeap = 1 << 38
	// AttachmentLeap is the same for attachments.
	AttachmentLeap = 1 << 40
	// MarkLeap is the distance of the marks of a renewed state from the wall clock, and from the former marks (I7 ids
	// are never reused). Ids follow the wall clock. The former cluster's ids run ahead of the wall clock by less than
	// MarkLeap, unless clients have claimed 86 million full blocks since the backup.
	MarkLeap = 24 * time.Hour
)

// Renewal describes the cluster that continues with the state of a backup.
type Renewal struct {
	// Key is the key of the new cluster.
	Key session.Key
	// Now is the wall clock.
	Now time.Time
	// Nodes are the node numbers of the new cluster.
	Nodes []session.Node
}

// Renew reads a backup to its end and writes the state of a new cluster to a snapshot. Ids, stamps and attachments of
// the new cluster begin far above those of the backup, so nothing that the former cluster may have given out since
// comes again. The new key refuses the credentials of the former cluster, so the sessions end when their timeouts have
// passed. Renew refuses a node whose number has no free id. It returns the contents of the snapshot; Contents.Term is
// the term of the former cluster.
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
		return fmt.Errorf("index %d is too high: at most %d leaves stamps for another cluster", v.index,
			tree.MaxIndex-2*IndexLeap)
	}
	v.index += IndexLeap
	t.attachment += AttachmentLeap
	t.key = r.Key
	for node := session.Node(1); node <= session.MaxNode; node++ {
		t.setMark(leap(t.marks[node], node, session.MS(r.Now)))
	}
	for _, node := range r.Nodes {
		if t.usedUp.has(node) {
			return fmt.Errorf("node %d: no ids of this number are left, because the former cluster removed a node with "+
				"this number: take the node out of --peers, or give it an unused number; numbers without ids: %v",
				node, t.usedUp.all())
		}
	}
	t.shown = t.treeState.freeze(v.index)
	return nil
}

// leap returns the mark of a node number in a renewed state: the highest id of the number if too few ids are left.
func leap(mark session.ID, node session.Node, ms uint64) session.ID {
	ahead := session.ID(MarkLeap.Milliseconds()) * session.MaxClaim
	next, err := session.NextID(mark, node, ms)
	if err != nil || (next+ahead).Node() != node {
		return session.ID(node+1)<<56 - 1
	}
	return next + ahead
}
