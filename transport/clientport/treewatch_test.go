package clientport

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// watchCall opens a Watch of /a.
func watchCall(t *testing.T, network *porttest.Pipes, since uint64,
) interface {
	Recv() (*holdfastv1.WatchResponse, error)
} {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	stream, err := holdfastv1.NewTreeServiceClient(dialPipes(t, network)).Watch(ctx, &holdfastv1.WatchRequest{
		Watches: []*holdfastv1.WatchSpec{{Path: "/a", Kind: holdfastv1.WatchKind_WATCH_KIND_PERSISTENT}}, Since: since,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// Started comes first, then everything in the order of the node. The client's missed events may come before the node's
// answer: Started then has the client's own stamp.
func TestWatchSendsInOrder(t *testing.T) {
	event := func(stamp tree.Stamp) session.TreeMessage {
		return session.TreeMessage{Delivered: stamp, Events: []tree.Event{{Stamp: stamp, Kind: tree.DataChanged, Path: "/a"}}}
	}
	answer := session.TreeMessage{Answer: &session.TreeAnswer{Key: 1, Stamp: 50, Lost: true}, Delivered: 50}
	for name, tt := range map[string]struct {
		since uint64
		told  []session.TreeMessage
		want  []string
	}{
		"from now on": {0, []session.TreeMessage{answer, event(51), {Delivered: 60}}, []string{"started 50", "event 51", "told 60"}},
		"coming back": {
			20,
			[]session.TreeMessage{event(30), event(40), answer, event(51)},
			[]string{"started 20", "event 30", "event 40", "event 51"},
		},
		"nothing owed": {20, []session.TreeMessage{answer}, []string{"started 50"}},
		"too late": {
			20,
			[]session.TreeMessage{{Lost: true, Delivered: 50}, answer, event(51)},
			[]string{"started 20", "lost 50", "event 51"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{state: func() session.NodeState { return porttest.StateOf(3) }}
				withTree(service, func(f *fakeTree, asked any) error {
					a := asked.(session.TreeAddition).Addition
					if a.Since != tree.Stamp(tt.since) || a.Watches[0].Kind != tree.WatchPersistent {
						t.Errorf("asked %+v", a)
					}
					f.tell(tt.told...)
					return nil
				})
				_, network, stop := clientPort(t, Config{}, service)
				defer stop()
				stream := watchCall(t, network, tt.since)
				for _, want := range tt.want {
					m, err := stream.Recv()
					if err != nil {
						t.Fatal(err)
					}
					if got := watchText(m); got != want || m.GetState().GetIndex() != 3 {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			})
		})
	}
}

func watchText(m *holdfastv1.WatchResponse) string {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.WatchResponse_Started:
		return "started " + stampText(m.Started.GetStamp())
	case *holdfastv1.WatchResponse_Events:
		return "event " + stampText(m.Events.GetEvents()[0].GetStamp())
	case *holdfastv1.WatchResponse_Lost:
		return "lost " + stampText(m.Lost.GetStamp())
	case *holdfastv1.WatchResponse_Progress:
		return "told " + stampText(m.Progress.GetStamp())
	default:
		return "nothing"
	}
}

// A Watch ends with the node's refusal, with the node, and when its client reads nothing.
func TestHowAWatchEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		told session.TreeMessage
		end  func(*Server)
		want codes.Code
	}{
		"refused": {
			session.TreeMessage{Answer: &session.TreeAnswer{Err: &session.LimitError{Name: "watch_bytes_per_node"}}},
			nil,
			codes.ResourceExhausted,
		},
		"streams end": {session.TreeMessage{Delivered: 1}, (*Server).EndStreams, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, func(f *fakeTree, _ any) error { f.tell(tt.told); return nil })
				s, network, stop := clientPort(t, Config{}, service)
				defer stop()
				stream := watchCall(t, network, 0)
				if tt.end != nil {
					if _, err := stream.Recv(); err != nil {
						t.Fatal(err)
					}
					if _, err := stream.Recv(); err != nil {
						t.Fatal(err)
					}
					tt.end(s)
				}
				if _, err := stream.Recv(); status.Code(err) != tt.want {
					t.Errorf("ended with %v, want %v", err, tt.want)
				}
				synctest.Wait()
				if !newest().isClosed() {
					t.Error("the connection was left open")
				}
			})
		})
	}
}

// A Watch ends at a node that is cut off, so that its client can continue elsewhere. It outlasts an election, and one
// whose client allows old answers stays.
func TestAWatchLeavesANodeThatIsCutOff(t *testing.T) {
	for mode, want := range map[session.Mode]error{
		session.ModeNoLeader: session.ErrNoLeader, session.ModeReadOnly: session.ErrReadOnly,
	} {
		bubble.Test(t, func(t *testing.T) {
			var is atomic.Uint32
			becomes := func(m session.Mode) { is.Store(uint32(m)) }
			becomes(session.ModeReadWrite)
			service := &fakeService{state: func() session.NodeState { return session.NodeState{Mode: session.Mode(is.Load())} }}
			withTree(service, func(f *fakeTree, _ any) error { f.answer(session.TreeAnswer{Key: 1, Stamp: 5}); return nil })
			_, network, stop := clientPort(t, Config{}, service)
			defer stop()
			ended := make(chan error, 2)
			for _, stale := range []bool{false, true} {
				stream, err := holdfastv1.NewTreeServiceClient(dialPipes(t, network)).Watch(t.Context(), &holdfastv1.WatchRequest{
					Watches:    []*holdfastv1.WatchSpec{{Path: "/a", Kind: holdfastv1.WatchKind_WATCH_KIND_PERSISTENT}},
					AllowStale: stale,
				})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					for err == nil {
						_, err = stream.Recv()
					}
					ended <- err
				}()
			}
			time.Sleep(cutOffInterval / 2)
			for range 3 { // elections, each of which one look meets
				becomes(mode)
				time.Sleep(cutOffInterval)
				becomes(session.ModeReadWrite)
				time.Sleep(cutOffInterval)
			}
			if len(ended) > 0 {
				t.Fatalf("ended with %v after an election", <-ended)
			}
			becomes(mode)
			time.Sleep(2 * cutOffInterval)
			synctest.Wait()
			if len(ended) != 1 {
				t.Fatalf("%d of two watches ended, want that which takes nothing old", len(ended))
			}
			if err := <-ended; !errors.Is(wire.Domain(err), want) {
				t.Errorf("ended with %v, want %v", err, want)
			}
		})
	}
}

// A client that reads none of its events loses the call, and costs no more than the messages of gRPC's window.
func TestAWatchThatIsNotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		path := "/" + string(slices.Repeat([]byte("a"), 4000))
		event := session.TreeMessage{Delivered: 9, Events: []tree.Event{{Stamp: 9, Kind: tree.DataChanged, Path: path}}}
		newest := withTree(service, func(f *fakeTree, _ any) error {
			f.answer(session.TreeAnswer{Key: 1, Stamp: 5})
			f.tell(slices.Repeat([]session.TreeMessage{event}, 1000)...)
			return nil
		})
		s, network, stop := clientPort(t, Config{ReadTimeout: 10 * time.Second}, service)
		defer stop()
		stream := watchCall(t, network, 0)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := s.Stats(); got.SlowReaders != 1 || got.TreeEvents > 500 || got.Calls != 0 || !newest().isClosed() {
			t.Errorf("after 20 s: %+v", got)
		}
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		if limit, ok := errors.AsType[*session.LimitError](wire.Domain(err)); !ok || limit.Name != "outgoing_timeout" {
			t.Errorf("ended with %v, want the limit outgoing_timeout", err)
		}
	})
}

// WatchSessions sends the node's changes, one a message, and ends with the node's error.
func TestWatchSessionsSendsChanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		grant, certificate := porttest.Grant(7).Session, porttest.Certificate(7)
		ended := grant
		ended.ID = 8 // what is told of an end is its certificate
		service := &fakeService{watch: func(_ context.Context, w session.SessionWatch,
			tell func([]session.SessionEvent) error,
		) error {
			if w.Since != 4 || !w.Options.AllowStale || w.Options.Seen != 3 {
				t.Errorf("asked for %+v", w)
			}
			for _, batch := range [][]session.SessionEvent{
				{{Stamp: 9, Lost: true}},
				{
					{Stamp: 10, Change: &session.Change{Kind: session.Opened, Session: grant}},
					{Stamp: 11, Change: &session.Change{Kind: session.Moved, Session: grant}},
					{Stamp: 12, Change: &session.Change{Kind: session.Ended, Session: ended, Certificate: &certificate}},
					{Stamp: 13},
				},
			} {
				if err := tell(batch); err != nil {
					return err
				}
			}
			return session.ErrStopping
		}}
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream, err := holdfastv1.NewSessionServiceClient(dialPipes(t, network)).WatchSessions(t.Context(),
			&holdfastv1.WatchSessionsRequest{Since: 4, Seen: 3, AllowStale: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []session.Event
		for range 5 {
			m, recvErr := stream.Recv()
			if recvErr != nil {
				t.Fatal(recvErr)
			}
			e, fromErr := wire.SessionEventFrom(m)
			if fromErr != nil || m.GetState() == nil {
				t.Fatalf("%v: %v", m, fromErr)
			}
			got = append(got, e)
		}
		if !got[0].Lost || got[0].Stamp != 9 || got[1].Opened == nil || got[1].Opened.ID != 7 || got[2].Moved == nil ||
			got[3].Ended == nil || got[3].Ended.ID != 7 || got[4] != (session.Event{Stamp: 13}) {
			t.Errorf("told %+v", got)
		}
		if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrStopping) {
			t.Errorf("ended with %v", err)
		}
	})
}
