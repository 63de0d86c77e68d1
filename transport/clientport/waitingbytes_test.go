package clientport

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// nowhere returns a node that knows no session: it answers each touch with a failure for each named session.
func nowhere() *fakeService {
	return &fakeService{touch: func(ids []session.ID) session.Touched {
		failures := make([]session.TouchFailure, len(ids))
		for i, id := range ids {
			failures[i] = session.TouchFailure{ID: id, Err: session.ErrMoved}
		}
		return session.Touched{SafeFor: -1, Failures: failures}
	}}
}

// pageToRead returns a page of half a megabyte.
func pageToRead() session.Page {
	page := session.Page{Sessions: make([]session.Listed, session.MaxPage)}
	for i := range page.Sessions {
		page.Sessions[i].Session = session.Session{
			ID:   session.ID(i + 1),
			Spec: session.Spec{Labels: session.Labels{{Key: "a", Value: strings.Repeat("b", 500)}}},
		}
	}
	return page
}

func manyIDs(n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	return ids
}

// unreadTouches sends touches of unknown sessions over many streams of one connection, and reads no answer, until a
// stream ends. It returns the streams.
func unreadTouches(t *testing.T, s *Server, network *porttest.Pipes, streams,
	touches int,
) []holdfastv1.SessionService_ConnectClient {
	t.Helper()
	// A fixed window: gRPC's own grows, and takes megabytes that the test does not read.
	conn, err := grpc.NewClient("passthrough:///node",
		append(dial.DialOptions(dial.Options{Dial: network.Dial}), grpc.WithStaticStreamWindowSize(64<<10))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := holdfastv1.NewSessionServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	ids := manyIDs(session.MaxTouchBatch)
	all := make([]holdfastv1.SessionService_ConnectClient, streams)
	for i := range all {
		var err error
		if all[i], err = separate.Stream(c.Connect(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	for seq := range touches {
		for _, stream := range all {
			if s.Stats().SlowReaders > 0 {
				break
			}
			send(t, stream, touchMessage(uint64(seq+1), ids...))
		}
		synctest.Wait()
	}
	return all
}

// limitNamed returns the name of the limit in err.
func limitNamed(err error) string {
	limit, ok := errors.AsType[*session.LimitError](wire.Domain(err))
	if !ok {
		return fmt.Sprintf("none: %v", err)
	}
	return limit.Name
}

// TestAClientThatReadsNothing: small requests with large answers, over as many streams as a connection may have. With a
// bound for each stream alone they held up to 1.3 GB.
func TestAClientThatReadsNothing(t *testing.T) {
	const most = 48 << 20
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, nowhere())
		defer stop()
		before := heap()
		h := reading(t, network, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		ids := manyIDs(session.MaxTouchBatch)
		streams := make([]uint32, 64)
		for i := range streams {
			streams[i] = h.call(holdfastv1.SessionService_Connect_FullMethodName)
		}
		for seq := range uint64(30) {
			for _, stream := range streams {
				if s.Stats().Overfull == 0 {
					_ = h.say(stream, touchMessage(seq+1, ids...))
				}
			}
			synctest.Wait()
		}
		if kept := heap() - before; kept > most {
			t.Errorf("%d MB are kept for a client that reads nothing", kept>>20)
		}
		if got := s.Stats(); got.Overfull != 1 || got.SlowReaders == 0 || got.Streams != 0 || got.Waiting != 0 {
			t.Errorf("stats %+v, want the connection ended and nothing counted", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.Stats().Connections; got != 0 {
			t.Errorf("%d connections are open", got)
		}
		if kept := heap() - before; kept > 4<<20 {
			t.Errorf("%d MB are kept after the connection has ended", kept>>20)
		}
	})
}

// TestAConnectionLearnsItsBound: streams of a client that reads some of its answers learn the limit that ended them.
func TestAConnectionLearnsItsBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, nowhere())
		defer stop()
		told := 0
		for _, stream := range unreadTouches(t, s, network, 16, 8) {
			for {
				if _, err := stream.Recv(); err != nil {
					if status.Code(err) == codes.ResourceExhausted &&
						limitNamed(err) == "buffered_bytes_per_connection" {
						told++
					}
					break
				}
			}
		}
		if got := s.Stats().Overfull; told == 0 || got != 1 {
			t.Errorf("%d streams were told which limit ended them, %d connections ended", told, got)
		}
	})
}

// TestUnreadAnswersAreBounded: answers of unary calls wait in gRPC long after their handlers have returned.
func TestUnreadAnswersAreBounded(t *testing.T) {
	page := pageToRead()
	made := 0
	service := &fakeService{list: func(context.Context, session.Query) (session.Page, error) {
		made++
		return page, nil
	}}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		h := reading(t, network, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for sent := range 60 {
			_ = h.ask(holdfastv1.SessionService_ListSessions_FullMethodName,
				&holdfastv1.ListSessionsRequest{PageSize: session.MaxPage})
			synctest.Wait()
			if got := s.Stats().Waiting; got > 11<<20 || got < min(int64(sent)*300_000, 8<<20) {
				t.Fatalf("%d bytes are counted after %d answers", got, sent+1)
			}
		}
		if made > 40 {
			t.Errorf("%d large answers were made for a client that reads none", made)
		}
		// The time is bounded too, also while the client answers pings.
		for range 11 {
			_ = h.ask(holdfastv1.SessionService_ListSessions_FullMethodName,
				&holdfastv1.ListSessionsRequest{PageSize: session.MaxPage})
			time.Sleep(time.Minute)
		}
		if got := s.Stats(); got.Waiting != 0 || got.Connections != 0 || got.Overfull != 1 {
			t.Errorf("stats %+v, want the connection ended", got)
		}
	})
}

// TestMessagesThatNeverEnd: a part of a message waits until the rest comes.
func TestMessagesThatNeverEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		h := reading(t, network)
		part := make([]byte, 800_000)
		for n := range 64 {
			stream := h.call(holdfastv1.SessionService_Connect_FullMethodName)
			if h.bytes(stream, []byte{0, 0, 0x10, 0, 0}) != nil {
				break
			}
			synctest.Wait() // the node wants the rest
			if h.bytes(stream, part) != nil {
				break
			}
			if n == 63 {
				t.Error("64 messages of 0.8 MB each are waited for")
			}
		}
		synctest.Wait()
		if got := s.Stats(); got.Overfull != 1 || got.Waiting != 0 {
			t.Errorf("stats %+v, want the connection ended", got)
		}
	})
}

// TestCompleteMessagesAreNotUnread: a busy client is not mistaken for one that sends parts of messages.
func TestCompleteMessagesAreNotUnread(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		p := newProbe(network)
		stream := connected(t, network)
		ids := manyIDs(session.MaxTouchBatch)
		for seq := range uint64(50_000) {
			if seq%50 == 0 {
				send(t, stream, touchMessage(seq+1, ids...))
			} else {
				send(t, stream, touchMessage(seq+1))
			}
			receive(t, stream)
		}
		p.wantNothingUnread(t, s)
	})
}

// TestTheNodesBound: when many connections hold much each, those that hold most end, and no others.
func TestTheNodesBound(t *testing.T) {
	const most = 32 << 20
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{WaitingBytes: most}}, nowhere())
		defer stop()
		honest := unreadTouches(t, s, network, 1, 2)[0]
		for range 6 {
			unreadTouches(t, s, network, 4, 5)
			if got := s.Stats().Waiting; got > most {
				t.Errorf("%d MB wait", got>>20)
			}
		}
		if got := s.Stats(); got.Relieved == 0 || got.Overfull != 0 {
			t.Errorf("stats %+v, want connections ended for the node's bound", got)
		}
		for seq := range uint64(2) {
			if got := receive(t, honest).GetTouched().GetSeq(); got != seq+1 {
				t.Errorf("answer %d to a client whose connection held little", got)
			}
		}
	})
}

// TestAReaderThatStopped: the time for which messages of a stream may wait is bounded.
func TestAReaderThatStopped(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{ReadTimeout: 7 * time.Second}, nowhere())
		defer stop()
		begun := time.Now()
		streams := unreadTouches(t, s, network, 2, 3)
		idle := connected(t, network)
		send(t, idle, touchMessage(1))
		for s.Stats().SlowReaders < 2 && time.Since(begun) < time.Minute {
			time.Sleep(time.Second)
		}
		// an answer in between gives the client another 12 s
		if got := time.Since(begun); got < 7*time.Second || got > 21*time.Second {
			t.Errorf("ended after %v, want 7 s to 20 s", got)
		}
		for _, stream := range streams {
			for {
				if _, err := stream.Recv(); err != nil {
					if got := limitNamed(err); got != "outgoing_timeout" {
						t.Errorf("ended with %v", err)
					}
					break
				}
			}
		}
		time.Sleep(time.Minute)
		receive(t, idle) // only its last answer waited
		if got := s.Stats(); got.SlowReaders != 2 || got.Waiting != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestAConnectionThatReadsNothing: keepalive does not end the connection of a client that goes on sending.
func TestAConnectionThatReadsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{ReadTimeout: 7 * time.Second}, &fakeService{})
		defer stop()
		h := newHostile(t, network)
		stream := h.call(holdfastv1.SessionService_Connect_FullMethodName)
		begun := time.Now()
		for seq := uint64(1); h.say(stream, touchMessage(seq)) == nil; seq++ {
			time.Sleep(time.Second)
			if time.Since(begun) > time.Minute {
				t.Fatal("a connection that takes nothing stays for a minute")
			}
		}
		synctest.Wait()
		if got := s.Stats(); got.Connections != 0 || got.Streams != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestRequestsUnderWayCount: requests of many streams wait for the leader at once.
func TestRequestsUnderWayCount(t *testing.T) {
	release := make(chan struct{})
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return porttest.Grant(7), ctx.Err()
	}}
	bubble.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		labels := map[string]string{}
		for i := range session.MaxLabels {
			labels[strconv.Itoa(i)] = strings.Repeat("b", session.MaxLabelValue)
		}
		refused := 0
		for range 8 {
			stream, err := separate.Stream(c.Connect(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			for seq := range uint64(1024) {
				m := openMessage(seq + 1)
				m.GetOpen().Labels = labels
				send(t, stream, m)
			}
			synctest.Wait()
			if s.Stats().Failed > 0 {
				refused++
				if got := limitNamed(
					wire.FailedError(receive(t, stream).GetFailed()),
				); got != "buffered_bytes_per_connection" {
					t.Errorf("refused by %s", got)
				}
			}
		}
		if got := s.Stats(); refused < 5 || got.Overfull != 0 || got.Waiting > port.MaxConnectionBytes {
			t.Errorf("requests of %d streams of 8 were refused, stats %+v", refused, got)
		}
		close(release)
		synctest.Wait()
		if got := s.Stats().Waiting; got > 8*(64<<10)*8 {
			t.Errorf("%d bytes are counted when all requests are answered", got)
		}
	})
}
