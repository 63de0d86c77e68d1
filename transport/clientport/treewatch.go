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

// Watch sends events until the call ends. A client that reads slowly gets LOST instead of events (V6 LOST), and a
// client that reads nothing for Config.ReadTimeout loses the call. At a node that is cut off, a client that does not
// accept old answers loses the call too.
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
	return s.node.push(stream.Context(), holdfastv1.TreeService_Watch_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, deliver func(proto.Message) error) error {
			w := watching{server: s.node, since: addition.Since, allowsOld: addition.Options.AllowStale, deliver: deliver}
			ticker := time.NewTicker(cutOffInterval)
			defer ticker.Stop()
			for {
				message, err := c.nextUntil(ctx, ticker.C)
				switch {
				case errors.Is(err, errTick):
					err = w.readError()
				case err == nil:
					err = w.forward(message)
				}
				if err != nil {
					return err
				}
			}
		})
}

// cutOffInterval is the interval at which a Watch checks whether its node is cut off. Two such findings in a row end
// the Watch: a single one may fall into an election.
const cutOffInterval = 5 * time.Second

// watching is a Watch in progress.
type watching struct {
	server *sessionServer
	since  tree.Stamp
	// allowsOld says that the client accepts old answers. fell says that the last check found the node cut off.
	allowsOld, fell bool
	deliver         func(proto.Message) error
	// started says that the first message is sent.
	started bool
}

// readError returns why the watch ends: the node is cut off, and may miss all changes (G6 stale nodes refuse). Its
// client can continue at another node.
func (w *watching) readError() error {
	var why error
	switch w.server.service.State().Mode {
	case session.ModeNoLeader:
		why = session.ErrNoLeader
	case session.ModeReadOnly:
		why = session.ErrReadOnly
	case session.ModeReadWrite:
	}
	again := w.fell
	if w.fell = why != nil && !w.allowsOld; w.fell && again {
		return why
	}
	return nil
}

// forward sends one message of the node. Started is the first message of the call. Missed events since the client's
// stamp come before the node's answer (V4 resumed watches): Started then has the client's own stamp, because every
// later change is sent.
func (w *watching) forward(message session.TreeMessage) error {
	stamp := w.since
	if a := message.Answer; a != nil {
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
	case message.Answer != nil:
		return nil
	case len(message.Events) > 0:
		w.server.stats.tree.events.Add(uint64(len(message.Events)))
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Events{
			Events: wire.EventsProto(message.Events),
		}})
	case message.Lost:
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Lost{
			Lost: &holdfastv1.Lost{Stamp: uint64(message.Delivered)},
		}})
	default:
		return w.send(&holdfastv1.WatchResponse{Message: &holdfastv1.WatchResponse_Progress{
			Progress: &holdfastv1.Progress{Stamp: uint64(message.Delivered)},
		}})
	}
}

// send sends a message with the node's state, which is read after the contents (N4 seen index).
func (w *watching) send(m *holdfastv1.WatchResponse) error {
	m.State = w.server.state()
	return w.deliver(m)
}

// WatchSessions sends the opens, moves and ends of global sessions.
func (s *sessionServer) WatchSessions(req *holdfastv1.WatchSessionsRequest,
	stream grpc.ServerStreamingServer[holdfastv1.WatchSessionsResponse],
) error {
	return s.push(stream.Context(), holdfastv1.SessionService_WatchSessions_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, deliver func(proto.Message) error) error {
			watch := session.SessionWatch(wire.WatchingFrom(req))
			return s.service.WatchSessions(ctx, watch, func(batch []session.SessionEvent) error {
				state := s.state() // one state serves the whole batch, which was made before (N4)
				for i := range batch {
					m := wire.SessionEventProto(sessionEvent(&batch[i]))
					m.State = state
					if err := deliver(m); err != nil {
						return err
					}
				}
				return nil
			})
		})
}

// sessionEvent returns an event for a watcher of sessions.
func sessionEvent(t *session.SessionEvent) session.Event {
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
		e.Ended = t.Change.Certificate
	}
	return e
}
