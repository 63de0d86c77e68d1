package client

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// WatchSessions yields which global sessions are opened, moved and ended, in the order of their stamps, until ctx ends
// or the loop that ranges over it does (V8). It begins with an event that has a stamp alone: every change above it is
// told. The watch survives lost nodes: no event is left out, or an event with Lost says so, and none comes twice. An
// error is yielded last; it wraps the cause of ctx when that has ended. Safe for concurrent use.
func (c *Client) WatchSessions(ctx context.Context) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		var heard sessionsHeard
		stopped := false
		err := c.nodes.Any(watching, func(attempt context.Context, cc *grpc.ClientConn) error {
			return c.hearSessions(watching, attempt, cc, &heard, func(e session.Event) bool {
				stopped = !yield(e, nil)
				return !stopped
			})
		})
		if err != nil && !stopped {
			yield(session.Event{}, fmt.Errorf("watch sessions: %w", err))
		}
	}
}

// hearSessions yields what one node tells, until yield returns false, which is no error, or the stream ends. attempt
// bounds the wait for the first message alone.
func (c *Client) hearSessions(ctx, attempt context.Context, cc *grpc.ClientConn, heard *sessionsHeard,
	yield func(session.Event) bool,
) error {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	tooLate := context.AfterFunc(attempt, cancel)
	defer tooLate()
	stream, err := holdfastv1.NewSessionServiceClient(cc).WatchSessions(streaming,
		wire.WatchingProto(session.Watching{
			Since:   heard.again(),
			Options: tree.ReadOptions{Seen: c.seen.stamp(), AllowStale: c.cfg.ReadOnly},
		}))
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		tooLate()
		e, err := wire.SessionEventFrom(m)
		if err != nil {
			return err
		}
		c.seen.noteStamp(e.Stamp)
		if heard.take(e) && !yield(e) {
			return nil
		}
	}
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
