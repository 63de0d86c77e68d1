package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/fsm"
	"holdfast/node/metrics"
	"holdfast/session"
)

const (
	// scrubInterval is the time between two scrubs of the state. A scrub pauses for scrubPause after every few thousand
	// items, so that it takes about a twentieth of a processor.
	scrubInterval = 10 * time.Minute
	scrubPause    = 20 * time.Millisecond
)

// replica knows how this node's state compares with the states of the others (C2 a quorum decides), and looks for
// damage of its own state (C1 digest comparison). Safe for concurrent use.
type replica struct {
	logger hclog.Logger
	state  *fsm.State
	// stepOut takes the node out of its cluster for good.
	stepOut func(why error)
	// complaints bounds the log lines while nodes differ and no quorum agrees. Only the relay's reader uses it.
	complaints rate.Sometimes

	mu sync.Mutex
	// equal is the newest index at which this node's digest was a quorum's. apart is the newest index at which nodes
	// differed and no quorum had the same digest, 0 when a quorum has agreed since. guarded by mu
	equal, apart uint64
	// differs is set once this node's digest was not the quorum's. guarded by mu
	differs error
	// damages counts the scrubs that found the state damaged. guarded by mu
	damages uint64
}

// differsError says that this node's state is not the state of a quorum.
type differsError struct {
	own    session.StateDigest
	quorum [16]byte
}

func (e *differsError) Error() string {
	return fmt.Sprintf("this node's state is not that of the others: at index %d its digest is %x, and a quorum of "+
		"the nodes has %x: it has stepped out for good; stop it, keep a copy of its data directory for analysis, empty "+
		"the directory, and start it while the others run and have a leader, which takes it in anew; do this for only one "+
		"node at a time", e.own.Index, e.own.Digest, e.quorum)
}

// apartError says that nodes have different states, and that nobody knows which state is right.
type apartError struct{ index uint64 }

func (e *apartError) Error() string {
	return fmt.Sprintf("nodes have different states at index %d, and no quorum has the same state: no node steps out, "+
		"because nobody knows which state is right; compare the digests in the status of each node, and do not replace "+
		"a node before you know which nodes agree",
		e.index)
}

// recordComparison notes the result of a comparison, and the digest that this node had reported for it. news says that
// the nodes differ at a new index, or agree again. differs is a [differsError] when this node has to step out.
func (r *replica) recordComparison(reported session.StateDigest, found session.Comparison) (news bool, differs error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found.Index == 0 || r.differs != nil {
		return false, nil
	}
	if !found.Agreed {
		news = r.apart != found.Index
		r.apart = found.Index
		return news, nil
	}
	news, r.apart = r.apart != 0, 0
	switch {
	case reported.Index != found.Index: // no digest of this node was compared
	case reported.Digest == found.Digest:
		r.equal = found.Index
	default:
		r.differs = &differsError{reported, found.Digest}
	}
	return news, r.differs
}

// warning says that nodes differ and nobody knows which state is right; empty when this node has stepped out.
func (r *replica) warning() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.apart == 0 || r.differs != nil {
		return ""
	}
	return (&apartError{r.apart}).Error()
}

// damaged counts a scrub that found damage.
func (r *replica) damaged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.damages++
}

// stats describes the comparison for metrics.
func (r *replica) stats() metrics.Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return metrics.Replica{
		ComparedIndex: r.equal, Corruptions: r.damages, Differs: r.differs != nil, WithoutQuorum: r.apart != 0,
	}
}

// heed acts on a comparison: the node steps out when its state is not the quorum's (C2).
func (r *replica) heed(reported session.StateDigest, found session.Comparison) {
	news, differs := r.recordComparison(reported, found)
	switch {
	case differs != nil:
		r.logger.Error("the node steps out for good", "reason", differs)
		r.stepOut(differs)
	case news && found.Agreed:
		r.logger.Warn("a quorum of the nodes has the same state again", "index", found.Index)
	case news:
		r.complaints.Do(func() { r.logger.Error("nodes differ", "reason", &apartError{found.Index}) })
	}
}

// scrub looks for damage of the state in memory at intervals, until ctx ends. A damaged state gets another digest, so
// that the next comparison finds that this node differs from a quorum. A node without a quorum to compare with goes on,
// and logs the damage.
func (r *replica) scrub(ctx context.Context) error {
	ticker := time.NewTicker(scrubInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if err := r.state.Scrub(func() error { return rest(ctx) }); err != nil && ctx.Err() == nil {
			r.damaged()
			r.logger.Error("the state is damaged", "reason", err)
		}
	}
}

// rest waits for scrubPause, or until ctx ends.
func rest(ctx context.Context) error {
	timer := time.NewTimer(scrubPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
