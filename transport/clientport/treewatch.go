package clientport

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// Watch tells of changes until the call ends. A client that reads slowly is told LOST in place of events (V6), and one
// that reads nothing for Config.Patience loses the call. So does one that takes no old answers at a node that is cut
// off.
func (s *treeServer) Watch(req *holdfastv1.WatchRequest, stream grpc.ServerStreamingServer[holdfastv1.WatchResponse],
) error {
	addition, err := wire.AdditionFrom(req)
	if err != nil {
		return err
	}
	c, err := s.node.newTreeCall(stream.Context())
	if err != nil {
		return err
	}
	defer c.end()
	if err := c.tree.AddWatches(session.TreeAddition{Key: 1, Addition: addition, Bytes: queuedBytes(req)}); err != nil {
		return err
	}
	s.node.stats.tree.watches.Add(1)
	return s.node.tell(stream.Context(), holdfastv1.TreeService_Watch_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, say func(proto.Message) error) error {
			w := watching{server: s.node, since: addition.Since, takesOld: addition.Options.AllowStale, say: say}
			look := time.NewTicker(cutOffLook)
			defer look.Stop()
			for {
				told, err := c.nextUntil(ctx, look.C)
				switch {
				case errors.Is(err, errLook):
					err = w.stands()
				case err == nil:
					err = w.tell(told)
				}
				if err != nil {
					return err
				}
			}
		})
}

// cutOffLook is how often a Watch looks whether its node is cut off. A second look in a row that finds it so ends the
// Watch: a single one may meet an election.
const cutOffLook = 5 * time.Second

// watching is a Watch under way.
type watching struct {
	server *sessionServer
	since  tree.Stamp
	// takesOld says that the client takes old answers. fell says that the last look found the node cut off.
	takesOld, fell bool
	say            func(proto.Message) error
	// started says that the first message is sent.
	started bool
}

// stands returns why the watch ends: the node is cut off, and may know of nothing that happens (G6). Its client can
// go on at another node.
func (w *watching) stands() error {
	var why error
	switch w.server.service.State().Mode {
	case session.ModeNoLeader:
		why = session.ErrNoLeader
	case session.ModeReadOnly:
		why = session.ErrReadOnly
	case session.ModeReadWrite:
	}
	again := w.fell
	if w.fell = why != nil && !w.takesOld; w.fell && again {
		return why
	}
	return nil
}

// tell sends what there is to tell. Started is the first message of all. What the client is owed since its stamp comes
// before the node's answer (V4): then Started has the client's own stamp, since every change above that is told.
func (w *watching) tell(told session.TreeTold) error {
	stamp := w.since
	if a := told.Answer; a != nil {
		if a.Err != nil {
			return a.Err
		}
		stamp = a.Stamp
	}
	if !w.started {
		w.started = true
		if err := w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Started{
			Started: &holdfastv1.WatchStarted{Stamp: uint64(stamp)},
		}}); err != nil {
			return err
		}
	}
	switch {
	case told.Answer != nil:
		return nil
	case len(told.Events) > 0:
		w.server.stats.tree.events.Add(uint64(len(told.Events)))
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Events{
			Events: wire.EventsProto(told.Events),
		}})
	case told.Lost:
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Lost{
			Lost: &holdfastv1.Lost{Stamp: uint64(told.Told)},
		}})
	default:
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Told{
			Told: &holdfastv1.Told{Stamp: uint64(told.Told)},
		}})
	}
}

// send sends a message with the node's state, which is read after its contents (N4).
func (w *watching) send(m *holdfastv1.WatchResponse) error {
	m.State = w.server.state()
	return w.say(m)
}

// WatchSessions tells of global sessions that are opened, moved and ended.
func (s *sessionServer) WatchSessions(req *holdfastv1.WatchSessionsRequest,
	stream grpc.ServerStreamingServer[holdfastv1.WatchSessionsResponse],
) error {
	return s.tell(stream.Context(), holdfastv1.SessionService_WatchSessions_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, say func(proto.Message) error) error {
			asked := session.SessionWatch(wire.WatchingFrom(req))
			return s.service.WatchSessions(ctx, asked, func(batch []session.SessionTold) error {
				state := s.state() // one reading serves all of the batch, which was made before it (N4)
				for i := range batch {
					m := wire.SessionEventProto(sessionEvent(&batch[i]))
					m.State = state
					if err := say(m); err != nil {
						return err
					}
				}
				return nil
			})
		})
}

// sessionEvent returns one thing that a watcher of sessions is told.
func sessionEvent(t *session.SessionTold) session.Event {
	e := session.Event{Stamp: t.Stamp, Lost: t.Lost}
	if t.Change == nil {
		return e
	}
	switch t.Change.Kind {
	case session.Opened:
		e.Opened = &t.Change.Session
	case session.Moved:
		e.Moved = &t.Change.Session
	case session.Ended:
		e.Ended = &t.Change.Certificate
	}
	return e
}
