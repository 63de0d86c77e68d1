package clientport

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// begun opens a stream that has the tree's part; with a session of 4 s, or without one.
func begun(t *testing.T, network *porttest.Pipes, sessions int) holdfastv1.SessionService_ConnectClient {
	t.Helper()
	stream := connected(t, network)
	if sessions > 0 {
		send(t, stream, resumeMessage(1, 7))
		receive(t, stream)
	}
	send(t, stream, addMessage(1, 0))
	receive(t, stream)
	return stream
}

// A reader stops while the node is full, and notes the touches of its message first. If that lasts for a sixth of the
// smallest timeout, the stream ends (G8 request bounds).
func TestAReaderThatStands(t *testing.T) {
	for name, tt := range map[string]struct {
		sessions int
		limit    time.Duration
	}{"with a session": {1, 4 * time.Second / readerStopPart}, "without one": {0, readerStopNoSession}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, answeringTree)
				s, network, stop := clientPort(t, Config{}, service)
				defer stop()
				stream := begun(t, network, tt.sessions)
				f := newest()
				room, asked := f.fill(), len(f.requests())
				send(t, stream, batchMessage(touchMessage(2), writeMessage(3, 7, 1), readMessage(4, 7), touchMessage(5)))
				wantTexts(t, stream, "touched 2, told 72", "touched 5, told 72")
				time.Sleep(tt.limit - time.Millisecond)
				synctest.Wait()
				if got := f.requests()[asked:]; len(got) != 0 {
					t.Errorf("a full node was asked %+v", got)
				}
				room()
				wantTexts(t, stream, "written 3 at 327680", "read 4 at 71")
				f.fill()
				send(t, stream, readMessage(7, 0))
				begin := time.Now()
				_, err := stream.Recv()
				if took := time.Since(begin); limitNamed(err) != "queued_requests" || took != tt.limit {
					t.Errorf("ended after %v with %v, want the limit queued_requests after %v", took, err, tt.limit)
				}
				synctest.Wait()
				if !f.isClosed() {
					t.Error("the connection was left open")
				}
				if got := s.Stats().StreamsBlocked; got != 1 {
					t.Errorf("%d streams are counted, want 1", got)
				}
			})
		})
	}
}

// A stream has a bounded number of requests of the tree in flight, even if the node accepts all of them.
func TestTreeRequestsUnderWayAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, nil)
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		for i := range uint64(maxTreeRequests + 3) {
			send(t, stream, removeMessage(i+1))
		}
		synctest.Wait()
		f := newest()
		asked := f.requests()
		if len(asked) != maxTreeRequests {
			t.Fatalf("%d requests are under way", len(asked))
		}
		for _, a := range asked[:5] {
			f.answer(session.TreeAnswer{Key: a.(removal).key})
		}
		synctest.Wait()
		if got := len(f.requests()); got != maxTreeRequests+3 {
			t.Errorf("%d requests were asked after 5 answers", got)
		}
		for _, a := range f.requests()[5:] {
			f.answer(session.TreeAnswer{Key: a.(removal).key})
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A client that does not read its messages of the tree loses its stream after a third of the smallest timeout, and
// after Patience without a session (G9 answer bounds). Until then the node keeps the messages.
func TestAStreamThatIsNotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		sessions int
		limit    time.Duration
	}{"with a session": {1, 4 * time.Second / stuckPart}, "without one": {0, 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, func(f *fakeTree, asked any) error {
					if _, ok := asked.(session.TreeRead); ok {
						return nil
					}
					return answeringTree(f, asked)
				})
				s, network, stop := clientPort(t, Config{ReadTimeout: 20 * time.Second}, service)
				defer stop()
				stream := begun(t, network, tt.sessions)
				data := make([]byte, 100<<10)
				send(t, stream, batchMessage(slices.Repeat([]*holdfastv1.ClientMessage{readMessage(9, 0)}, 500)...))
				synctest.Wait()
				f := newest()
				for _, asked := range f.requests() {
					if r, ok := asked.(session.TreeRead); ok {
						f.tell(events(99), session.TreeMessage{
							Answer: &session.TreeAnswer{Key: r.Key, Read: &tree.Answer{Kind: tree.GetEntry, Data: data}},
						})
					}
				}
				time.Sleep(tt.limit / 2)
				if got := s.Stats(); got.SlowReaders != 0 || got.Streams != 1 {
					t.Errorf("after half of the limit: %+v", got)
				}
				time.Sleep(tt.limit + time.Duration(itemBytes/minReadRate)*time.Second)
				synctest.Wait()
				if got := s.Stats(); got.SlowReaders != 1 || got.Streams != 0 || got.TreeEvents > 400 || !f.isClosed() {
					t.Errorf("after the limit: %+v", got)
				}
				if got := s.Stats().TreeSlowReaders; tt.sessions > 0 && got != 1 { // without one it may be the stream's own bound
					t.Errorf("%d streams are counted, want 1", got)
				}
				var err error
				for err == nil {
					_, err = stream.Recv()
				}
				if limitNamed(err) != "outgoing_timeout" {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// The end of a client's requests waits for their answers, and for no watches.
func TestAStreamEndsAfterItsTreeRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, func(f *fakeTree, asked any) error {
			if _, ok := asked.(session.TreeAddition); ok {
				return answeringTree(f, asked)
			}
			return nil
		})
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := begun(t, network, 1)
		send(t, stream, writeMessage(2, 7, 1))
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f := newest()
		asked := f.requests()
		f.tell(events(80))
		wantTexts(t, stream, "events 1 from 80")
		// The second answer does not fit beside the first one, and must come all the same.
		f.tell(events(81), session.TreeMessage{Answer: &session.TreeAnswer{
			Key: asked[len(asked)-1].(session.TreeWrite).Key,
			Wrote: &tree.Result{Stamp: 82, Outcome: tree.Outcome{Ops: []tree.OpOutcome{
				{Path: "/" + strings.Repeat("a", itemBytes)},
			}}},
		}})
		wantTexts(t, stream, "events 1 from 81", "written 2 at 82")
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
	})
}

// Requests that come while the node stops are refused.
func TestTreeRequestsAtAStoppingNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, nil)
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, readMessage(1, 0))
		synctest.Wait()
		s.EndStreams()
		synctest.Wait()
		send(t, stream, readMessage(2, 0))
		wantTexts(t, stream, "failed 2: REASON_STOPPING ")
		f := newest()
		f.answer(session.TreeAnswer{Key: f.requests()[0].(session.TreeRead).Key, Read: &tree.Answer{Kind: tree.GetEntry}})
		wantTexts(t, stream, "read 1 at 0")
		if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrStopping) {
			t.Errorf("ended with %v", err)
		}
	})
}

// writing returns a writer of a stream with the tree, and what it has sent.
func writing(t *testing.T, f *fakeTree) (*writer, *treePart) {
	t.Helper()
	out := newOutbox(100, new(port.Account), port.ReadTimeout, noState)
	c := &connection{
		server: &sessionServer{cfg: Config{}.withDefaults(), stats: &counters{}}, out: out,
		network:     &port.Conn{Account: &port.Account{}},
		streamState: newStreamState(StreamLimits{Sessions: 10, Requests: 10}, func(bool) {}),
	}
	f.notify = out.poke
	part := &treePart{conn: f}
	c.tree.put(part)
	return &writer{c: c, out: out}, part
}

// A message is filled up to a bound, a larger item goes alone, and told rises once a message is sent, with its content
// alone (G4 stamps of answers).
func TestWhatIsJoinedToOneMessage(t *testing.T) {
	f := &fakeTree{}
	w, part := writing(t, f)
	path := "/" + strings.Repeat("a", 1000)
	for stamp := range tree.Stamp(1000) {
		e := tree.Event{Stamp: stamp + 1, Path: path, Kind: tree.DataChanged}
		f.tell(session.TreeMessage{Delivered: e.Stamp, Events: []tree.Event{e}})
	}
	large := "/" + strings.Repeat("b", 2*itemBytes)
	f.tell(session.TreeMessage{Delivered: 1001, Events: []tree.Event{{Stamp: 1001, Path: large, Kind: tree.DataChanged}}},
		session.TreeMessage{Delivered: 1002}, session.TreeMessage{Lost: true, Delivered: 1003})
	stop := errors.New("enough")
	last, messages := uint64(0), 0
	_, err := w.run(t.Context(), func(m any) error {
		messages++
		if got := part.delivered.Load(); got != last {
			t.Errorf("told is %d before a message, want %d", got, last)
		}
		got := sent(m)
		all := got.GetAnswers().GetMessages()
		if got.GetAnswers() == nil {
			all = []*holdfastv1.ServerMessage{got}
		}
		if size := m.(port.Appender).Size(); size > itemBytes+2000 && len(all[0].GetEvents().GetEvents()) != 1 {
			t.Errorf("a message has %d bytes", size)
		}
		for _, one := range all {
			for _, e := range one.GetEvents().GetEvents() {
				if e.GetStamp() != last+1 {
					t.Fatalf("event %d comes after %d", e.GetStamp(), last)
				}
				last = e.GetStamp()
			}
			last = max(last, one.GetProgress().GetStamp(), one.GetLost().GetStamp())
		}
		if last == 1003 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || messages < 5 || messages > 8 {
		t.Errorf("%d messages, then %v", messages, err)
	}
}

// Writes on a stream have the budget of the node's writes. One that is refused has no number: later ones are refused
// behind it, in their turn (X8 admission of writes).
func TestX8StreamWritesHaveABudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, answeringTree)
		s, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Writes: 1}}, service)
		defer stop()
		stream := begun(t, network, 1)
		send(t, stream, writeMessage(3, 7, 1))
		wantTexts(t, stream, "written 3 at 327680")
		send(t, stream, writeMessage(4, 7, 2))
		synctest.Wait()
		asked := newest().requests()
		r, ok := asked[len(asked)-1].(refusal)
		limit, is := errors.AsType[*session.LimitError](r.why)
		if !ok || !is || r.number != 2 || limit.Name != "max_writes_per_second" || limit.RetryAfter <= 0 {
			t.Errorf("the node was asked %+v", asked[len(asked)-1])
		}
		if got := s.Stats().Refusals[ratelimit.Writes][ratelimit.OfNode]; got != 1 {
			t.Errorf("%d refusals are counted", got)
		}
	})
}
