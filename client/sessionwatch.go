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
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// WatchSessions yields which global sessions are opened, moved and ended, in the order of their stamps, until ctx ends
// or the loop that ranges over it does (V8). What is unread when ctx ends is left out. It begins with an event that has
// a stamp alone: every change above it is told. The watch survives lost nodes: no event is left out, or an event with
// Lost says so, and none comes twice. When the cluster is begun anew or restored, an event with Lost and the Reason
// [session.ErrClusterChanged] says so, and stamps begin anew. The watch leaves a node that hears of no leader, unless
// [Config].ReadOnly allows it. An error is yielded last; it wraps the cause of ctx when that has ended, and the last
// obstacle if the watch has not been in place then. Safe for concurrent use.
func (c *Client) WatchSessions(ctx context.Context) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		watching, cancel := context.WithCancel(ctx)
		w := sessionWatch{client: c, yield: yield}
		defer w.learning.Wait()
		defer cancel()
		err := c.nodes.Any(watching, func(attempt context.Context, cc *grpc.ClientConn) error {
			return w.hear(watching, attempt, cc)
		})
		switch {
		case err == nil: // yield has returned false
			return
		case w.placed && ctx.Err() != nil: // nothing stands in its way but that
			err = context.Cause(ctx)
		}
		yield(session.Event{}, fmt.Errorf("watch sessions: %w", err))
	}
}

// sessionWatch is a watch of sessions under way.
type sessionWatch struct {
	client *Client
	yield  func(session.Event, error) bool
	heard  sessionsHeard
	// cluster is the identity of the cluster that was heard, 0 until a node has told one.
	cluster uint64
	// anew: the application is to be told that this is another cluster than before.
	anew bool
	// placed says that a node tells what happens.
	placed bool
	// learning is the goroutine that learns of the members, which learns says is there.
	learning sync.WaitGroup
	learns   bool
}

// hear yields what one node tells, until yield returns false, which is no error, or the stream ends. attempt bounds
// the wait for the first message alone. A node of another cluster than before was asked for what has happened since a
// stamp that means nothing to it, and is asked again.
func (w *sessionWatch) hear(ctx, attempt context.Context, cc *grpc.ClientConn) error {
	err := w.hearOnce(ctx, attempt, cc)
	if errors.Is(err, session.ErrClusterChanged) {
		err = w.hearOnce(ctx, attempt, cc)
	}
	return err
}

// hearOnce is hear, until the node tells that it is of another cluster than before.
func (w *sessionWatch) hearOnce(ctx, attempt context.Context, cc *grpc.ClientConn) error {
	c := w.client
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	tooLate := context.AfterFunc(attempt, cancel)
	defer tooLate()
	w.placed = false
	stream, err := holdfastv1.NewSessionServiceClient(cc).WatchSessions(streaming,
		wire.WatchingProto(session.Watching{
			Since:   w.heard.again(),
			Options: tree.ReadOptions{Seen: c.seen.stamp(), AllowStale: c.cfg.ReadOnly},
		}))
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
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
			continue // gRPC hands out all that it has read before it says that ctx has ended
		}
		e, err := wire.SessionEventFrom(m)
		if err != nil {
			return err
		}
		c.seen.note(told{cluster: state.Cluster, stamp: e.Stamp})
		if !w.heard.take(e) {
			continue
		}
		if w.anew {
			e.Lost, e.Reason, w.anew = true, session.ErrClusterChanged, false
		}
		if !w.yield(e, nil) {
			return nil
		}
	}
}

// isAnother takes the state of a node, and reports whether what was heard before is of another cluster. It is forgotten
// then.
func (w *sessionWatch) isAnother(now session.NodeState) bool {
	another := now.Cluster != 0 && w.cluster != 0 && now.Cluster != w.cluster
	if another {
		w.client.seen.note(told{cluster: now.Cluster, index: now.Index})
		w.anew = w.anew || w.heard != sessionsHeard{}
		w.heard = sessionsHeard{}
	}
	w.cluster = cmp.Or(now.Cluster, w.cluster)
	return another
}

// learn has the client know the members of the cluster as long as the watch lasts: the first time before anything is
// yielded, so that no later loss of a node ends in the endpoints alone. The connection for sessions learns by itself.
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

// learnMembers asks a node for the members, unless the connection for sessions is there to do so. It returns how long
// to wait before the next time. That no node answers is no failure: the client goes on with what it knows.
func (c *Client) learnMembers(ctx context.Context) (again time.Duration) {
	if c.occupancy.at() == "" {
		asking, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
		defer cancel()
		members, err := c.nodes.Members(asking)
		if err != nil {
			return core.LearnAgain + c.jitter.Within(core.LearnAgain)
		}
		if l, err := c.begin(ctx); err == nil && len(members) > 0 {
			l.do(core.KnownMembers{Addresses: members})
		}
	}
	return core.LearnEvery + c.jitter.Within(core.LearnEvery)
}

// sessionsHeard is how far a watch of sessions has come, over several nodes (V4).
type sessionsHeard struct {
	// told is the stamp up to which all was told: 0 at first. newest is the stamp of the newest event above it, and
	// count how many events of this stamp were yielded: one change may move many sessions.
	told, newest tree.Stamp
	count        int
	// repeats is how many events of newest the present node still repeats.
	repeats int
}

// again returns the stamp that a watch at another node begins with. The node repeats the events above it.
func (h *sessionsHeard) again() tree.Stamp {
	h.repeats = h.count
	return h.told
}

// take reports whether an event is new to the application.
func (h *sessionsHeard) take(e session.Event) bool {
	isChange := e.Opened != nil || e.Moved != nil || e.Ended != nil
	switch {
	case isChange && e.Stamp == h.newest && h.repeats > 0:
		h.repeats--
		return false
	case isChange && e.Stamp <= h.told:
		return false
	case isChange && e.Stamp != h.newest:
		if h.newest > h.told {
			h.told = h.newest
		}
		h.newest, h.count, h.repeats = e.Stamp, 1, 0
		return true
	case isChange:
		h.count++
		return true
	}
	first := h.told == 0
	h.told, h.newest, h.count, h.repeats = max(h.told, e.Stamp), 0, 0, 0
	return first || e.Lost
}
