package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"

	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// WatchSessions yields opens, moves and ends of global sessions, in the order of their stamps, until ctx ends or the
// loop that ranges over it does (V8 events need READ). Events that are unread when ctx ends are left out. The first
// event has only a stamp: every later change is reported. The watch survives lost nodes: it reports each event once, or
// reports with Lost that events may be missing. When the cluster starts anew or is restored, an event with Lost and the
// Reason [session.ErrClusterChanged] reports this, and stamps start anew. The watch leaves a node that knows no leader,
// unless [Config].ReadOnly allows the node. An error is yielded last; it wraps the cause of ctx when ctx has ended, and
// the last obstacle if the watch was not in place then. Safe for concurrent use.
func (c *Client) WatchSessions(ctx context.Context) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		watching, cancel := context.WithCancel(ctx)
		w := sessionWatch{client: c, yield: yield}
		defer w.learning.Wait()
		defer cancel()
		err := c.nodes.Any(watching, func(attempt context.Context, cc *grpc.ClientConn) error {
			return w.receive(watching, attempt, cc)
		})
		switch {
		case err == nil: // yield has returned false
			return
		case w.placed && ctx.Err() != nil: // no obstacle besides ctx
			err = context.Cause(ctx)
		}
		yield(session.Event{}, fmt.Errorf("watch sessions: %w", err))
	}
}

// sessionWatch is a running watch of sessions.
type sessionWatch struct {
	client   *Client
	yield    func(session.Event, error) bool
	progress sessionProgress
	// cluster is the identity of the present cluster, 0 until a node has reported one.
	cluster uint64
	// clusterChanged: the next event must report another cluster than before.
	clusterChanged bool
	// placed: a node is streaming events.
	placed bool
	// learning is the goroutine that learns of the members, which learns says is there.
	learning sync.WaitGroup
	learns   bool
}

// receive yields the events of one node, until yield returns false, which is no error, or the stream ends. attempt
// bounds only the wait for the first message. The starting stamp means nothing to a node of another cluster than
// before, so receive asks such a node a second time.
func (w *sessionWatch) receive(ctx, attempt context.Context, cc *grpc.ClientConn) error {
	err := w.receiveOnce(ctx, attempt, cc)
	if errors.Is(err, session.ErrClusterChanged) {
		err = w.receiveOnce(ctx, attempt, cc)
	}
	return err
}

// receiveOnce is receive, until the node reports another cluster than before.
func (w *sessionWatch) receiveOnce(ctx, attempt context.Context, cc *grpc.ClientConn) error {
	c := w.client
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	tooLate := context.AfterFunc(attempt, cancel)
	defer tooLate()
	w.placed = false
	stream, err := holdfastv1.NewSessionServiceClient(cc).WatchSessions(streaming,
		wire.WatchingProto(session.Watching{
			Since:   w.progress.again(),
			Options: tree.ReadOptions{Seen: c.seen.stamp(), AllowStale: c.cfg.ReadOnly},
		}))
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			if unary.Over(ctx) {
				<-ctx.Done() // a node may report the deadline before the timer of ctx fires
			}
			w.placed = w.placed && ctx.Err() != nil
			if w.isAnother(wire.StateOf(err)) {
				return session.ErrClusterChanged
			}
			return err
		}
		state := wire.StateFrom(m.GetState())
		if w.isAnother(state) {
			return session.ErrClusterChanged
		}
		tooLate()
		w.placed = true
		w.learn(ctx)
		if ctx.Err() != nil {
			continue // gRPC delivers everything that it has read before it reports the end of ctx
		}
		e, err := wire.SessionEventFrom(m)
		if err != nil {
			return err
		}
		c.seen.note(nodeReport{cluster: state.Cluster, stamp: e.Stamp})
		if !w.progress.accept(e) {
			continue
		}
		if w.clusterChanged {
			e.Lost, e.Reason, w.clusterChanged = true, session.ErrClusterChanged, false
		}
		if !w.yield(e, nil) {
			return nil
		}
	}
}

// isAnother records the state of a node, and reports whether earlier events came from another cluster; it then discards
// the former position.
func (w *sessionWatch) isAnother(now session.NodeState) bool {
	another := now.Cluster != 0 && w.cluster != 0 && now.Cluster != w.cluster
	if another {
		w.client.seen.note(nodeReport{cluster: now.Cluster, index: now.Index})
		w.clusterChanged = w.clusterChanged || w.progress != sessionProgress{}
		w.progress = sessionProgress{}
	}
	w.cluster = cmp.Or(now.Cluster, w.cluster)
	return another
}

// learn has the client know the members of the cluster as long as the watch lasts: the first time before anything is
// yielded, so that no later loss of a node ends in the endpoints alone. The connection for sessions learns on its own.
func (w *sessionWatch) learn(ctx context.Context) {
	if w.learns || w.client.cfg.OnlyEndpoints {
		return
	}
	w.learns = true
	after := w.client.learnMembers(ctx)
	w.learning.Go(func() {
		for session.Sleep(ctx, after) == nil {
			after = w.client.learnMembers(ctx)
		}
	})
}

// learnMembers asks a node for the members, unless the connection for sessions does so. It returns the wait before the
// next call. A failure is ignored: the client continues with the members that it knows.
func (c *Client) learnMembers(ctx context.Context) (again time.Duration) {
	if c.occupancy.at() == "" {
		asking, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
		defer cancel()
		members, err := c.nodes.Members(asking)
		if err != nil {
			return conn.AskMembersAgain + c.jitter.Within(conn.AskMembersAgain)
		}
		if l, err := c.begin(ctx); err == nil && len(members) > 0 {
			l.do(core.KnownMembers{Addresses: members})
		}
	}
	return conn.AskMembersEvery + c.jitter.Within(conn.AskMembersEvery)
}

// sessionProgress is how far a watch of sessions has come, over several nodes (V4 resumed watches).
type sessionProgress struct {
	// delivered is the stamp up to which all events were yielded: 0 at first. newest is the stamp of the newest event
	// above delivered, and count is the number of yielded events with this stamp: one change may move many sessions.
	delivered, newest tree.Stamp
	count             int
	// repeats is how many events of newest the present node still repeats.
	repeats int
}

// again returns the stamp with which the watch starts at another node. The node repeats the events above this stamp.
func (h *sessionProgress) again() tree.Stamp {
	h.repeats = h.count
	return h.delivered
}

// accept reports whether an event is new to the application.
func (h *sessionProgress) accept(e session.Event) bool {
	isChange := e.Opened != nil || e.Moved != nil || e.Ended != nil
	switch {
	case isChange && e.Stamp == h.newest && h.repeats > 0:
		h.repeats--
		return false
	case isChange && e.Stamp <= h.delivered:
		return false
	case isChange && e.Stamp != h.newest:
		if h.newest > h.delivered {
			h.delivered = h.newest
		}
		h.newest, h.count, h.repeats = e.Stamp, 1, 0
		return true
	case isChange:
		h.count++
		return true
	}
	first := h.delivered == 0
	h.delivered, h.newest, h.count, h.repeats = max(h.delivered, e.Stamp), 0, 0, 0
	return first || e.Lost
}
