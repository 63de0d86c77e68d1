package system

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
	"holdfast/tree"
)

// streamsEach is the number of watching streams on one connection: a node accepts 64 by default.
const streamsEach = 50

// OpenWriter opens a session with this stream's instance, so that it may write at once (X5 the opener's instance).
func (s *Stream) OpenWriter(timeout time.Duration, done func(Session, error)) {
	s.open(timeout, s.instance, func(held Session, err error) {
		if err == nil {
			h := held.(*Held) //nolint:errcheck // this system's own
			h.writing = &writing{session: h.ID, ask: s.write}
		}
		done(held, err)
	})
}

// write sends a write once.
func (s *Stream) write(w *holdfastv1.Write, answered func(*holdfastv1.Written, error)) {
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		w.Seq = seq
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{Write: w}}
	}, func(m *holdfastv1.ServerMessage, err error) { answered(m.GetWritten(), err) })
}

// Create makes an entry with a numbered write.
func (s *Stream) Create(held Session, path string, data []byte, kind tree.Kind, done func(error)) {
	wanted := holdfastv1.EntryKind_ENTRY_KIND_PERSISTENT
	if kind == tree.Ephemeral {
		wanted = holdfastv1.EntryKind_ENTRY_KIND_EPHEMERAL
	}
	s.change(held, &holdfastv1.Op{Op: &holdfastv1.Op_Create{
		Create: &holdfastv1.Create{Path: path, Data: data, Kind: wanted},
	}}, done)
}

// Set sets an entry's data with a numbered write.
func (s *Stream) Set(held Session, path string, data []byte, done func(error)) {
	s.change(held, &holdfastv1.Op{Op: &holdfastv1.Op_Set{Set: &holdfastv1.Set{Path: path, Data: data}}}, done)
}

func (s *Stream) change(held Session, op *holdfastv1.Op, done func(error)) {
	w := held.(*Held).writing //nolint:errcheck // this system's own
	if w == nil {
		done(errors.New("session that was not opened to write"))
		return
	}
	w.do(&holdfastv1.Transaction{Then: []*holdfastv1.Op{op}}, done)
}

// Read reads without an order.
func (s *Stream) Read(_ Session, path string, done func([]byte, error)) { s.read(path, nil, done) }

// ReadNewest reads through the leader.
func (s *Stream) ReadNewest(_ Session, path string, done func([]byte, error)) {
	s.read(path, &holdfastv1.ReadOptions{Linearizable: true}, done)
}

func (s *Stream) read(path string, o *holdfastv1.ReadOptions, done func([]byte, error)) {
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{
			Read: &holdfastv1.TreeRead{Seq: seq, Options: o, Read: &holdfastv1.TreeRead_Get{Get: path}},
		}}
	}, func(m *holdfastv1.ServerMessage, err error) { done(m.GetRead().GetGet().GetData(), err) })
}

// Watch adds a watch to the stream. The newest onEvent receives the events of all watches.
func (s *Stream) Watch(path string, kind tree.WatchKind, onEvent, done func(error)) {
	wanted := holdfastv1.WatchKind_WATCH_KIND_DATA
	if kind == tree.WatchRecursive {
		wanted = holdfastv1.WatchKind_WATCH_KIND_RECURSIVE
	}
	s.mu.Lock()
	s.onEvent = onEvent
	s.mu.Unlock()
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{AddWatches: &holdfastv1.AddWatches{
			Seq: seq, Watches: []*holdfastv1.WatchSpec{{Path: path, Kind: wanted}},
		}}}
	}, func(_ *holdfastv1.ServerMessage, err error) { done(err) })
}

// EventMessages returns in how many messages events have come.
func (s *Stream) EventMessages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eventsCame
}

// deliverEvents passes the events of a message to onEvent; false if the message has none.
func (s *Stream) deliverEvents(m *holdfastv1.ServerMessage) bool {
	events, lost := m.GetEvents().GetEvents(), m.GetLost()
	if events == nil && lost == nil {
		return m.GetProgress() != nil
	}
	s.mu.Lock()
	onEvent := s.onEvent
	s.eventsCame++
	s.mu.Unlock()
	if onEvent == nil {
		return true
	}
	for range events {
		onEvent(nil)
	}
	if lost != nil {
		onEvent(fmt.Errorf("events up to %d are lost", lost.GetStamp()))
	}
	return true
}

// Watchers opens n streams to a node. The client of each has a session, as those of ZooKeeper have: a node takes a
// connection without one for idle, and ends it when others need its streams.
func (n *nodes) Watchers(ctx context.Context, server, count int) ([]Watcher, error) {
	var all []Watcher
	for len(all) < count {
		some, err := n.watchers(ctx, server, min(streamsEach, count-len(all)))
		for _, s := range some {
			all = append(all, s)
		}
		if err != nil {
			endWatchers(all)
			return nil, err
		}
	}
	return all, nil
}

// watchers opens streams on one connection, and returns those that it has opened.
func (n *nodes) watchers(ctx context.Context, server, count int) (all []*Stream, err error) {
	conn, err := dial.Client(n.address(server, clients), dial.Options{})
	if err != nil {
		return nil, err
	}
	leave := shared(conn, count)
	opened := make(chan error, 1)
	joined := join(count, func(err error) { opened <- err })
	for i := range count {
		s, err := connect(ctx, conn, leave)
		if err != nil {
			for range count - i - 1 {
				leave()
			}
			return all, err
		}
		all = append(all, s)
		s.Open(watcherTimeout, func(_ Session, err error) { joined(err) })
	}
	return all, <-opened
}

// shared returns what closes a connection when it was called by all its users.
func shared(conn *grpc.ClientConn, users int) func() {
	var left atomic.Int64
	left.Store(int64(users))
	return func() {
		if left.Add(-1) == 0 {
			_ = conn.Close()
		}
	}
}

func endWatchers(all []Watcher) {
	for _, w := range all {
		w.End()
	}
}
