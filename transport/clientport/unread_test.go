package clientport

import (
	"context"
	"crypto/rand"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
)

// TestHeadersAreNotUnread: headers of calls, such as tokens and traces, are not parts of messages. 16 MB of them must
// not end a connection with a stream.
func TestHeadersAreNotUnread(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		p := newProbe(network)
		conn := dialPipes(t, network)
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(conn).Connect(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, touchMessage(1))
		receive(t, stream)
		for range 500 {
			// each header is different, as headers of traces are
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", strings.Repeat(rand.Text(), 200))
			if _, err := holdfastv1.NewClusterServiceClient(conn).GetStatus(ctx,
				&holdfastv1.GetStatusRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		p.wantNothingUnread(t, s)
	})
}

// TestAcknowledgementsAreNotUnread: a client that reads much acknowledges it on the wire all the time.
func TestAcknowledgementsAreNotUnread(t *testing.T) {
	page := pageToRead()
	service := &fakeService{list: func(context.Context, session.Query) (session.Page, error) { return page, nil }}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		p := newProbe(network)
		conn, err := grpc.NewClient("passthrough:///node", append(dial.DialOptions(dial.Options{Dial: network.Dial}),
			grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c := holdfastv1.NewSessionServiceClient(conn)
		stream, err := separate.Stream(c.Connect(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, touchMessage(1))
		receive(t, stream)
		for range 300 {
			if _, err := c.ListSessions(t.Context(),
				&holdfastv1.ListSessionsRequest{PageSize: session.MaxPage}); err != nil {
				t.Fatal(err)
			}
		}
		p.wantNothingUnread(t, s)
	})
}

// probe measures from outside how many bytes of a connection seem to belong to no complete message.
type probe struct{ conn net.Conn }

// newProbe returns a probe of the next connection of network.
func newProbe(network *porttest.Pipes) *probe {
	p := &probe{}
	network.Cut = func(c net.Conn) net.Conn { p.conn = c; return c }
	return p
}

// wantNothingUnread fails unless almost all of the connection's slack is left: it sends padding of seven eighths of the
// slack, which must not count, and as much again, which must.
func (p *probe) wantNothingUnread(t *testing.T, s *Server) {
	t.Helper()
	const size = 16 << 10
	pad := func() int64 {
		synctest.Wait()
		framer := http2.NewFramer(p.conn, nil)
		for range port.UnreadSlack * 7 / 8 / size {
			if err := framer.WriteRawFrame(0xfe, 0, 0, make([]byte, size)); err != nil { // a type that HTTP/2 ignores
				t.Fatal(err)
			}
		}
		synctest.Wait()
		return s.Stats().Waiting
	}
	if got := s.Stats().Waiting; got != 0 {
		t.Errorf("%d bytes wait", got)
	}
	if got := pad(); got != 0 {
		t.Errorf("%d bytes seem unread", got+port.UnreadSlack/8)
	}
	if got := pad(); got == 0 {
		t.Error("padding is not counted: the test measures nothing")
	}
}

// TestCancelledCallsHoldNothing: a client that cancels calls before it has read their answers does not lose its
// connection for them.
func TestCancelledCallsHoldNothing(t *testing.T) {
	service := nowhere()
	service.list = func(context.Context, session.Query) (session.Page, error) { return pageToRead(), nil }
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		h := reading(t, network, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for _, begin := range []func() uint32{
			func() uint32 {
				_ = h.ask(holdfastv1.SessionService_ListSessions_FullMethodName,
					&holdfastv1.ListSessionsRequest{PageSize: session.MaxPage})
				return h.next - 2
			},
			func() uint32 {
				stream := h.call(holdfastv1.SessionService_Connect_FullMethodName)
				for seq := range uint64(3) {
					_ = h.say(stream, touchMessage(seq+1, manyIDs(session.MaxTouchBatch)...))
				}
				return stream
			},
		} {
			stream := begin()
			synctest.Wait()
			if got := s.Stats().Waiting; got < 300_000 {
				t.Errorf("%d bytes wait before the call is cancelled", got)
			}
			h.cancel(stream)
			synctest.Wait()
			if got := s.Stats(); got.Waiting != 0 || got.Calls != 0 || got.Connections != 1 {
				t.Errorf("stats %+v after the call was cancelled", got)
			}
		}
	})
}
