package clientport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

func TestConnectionsAboveTheLimitAreClosed(t *testing.T) {
	var log porttest.LogBuffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log})
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{Connections: 2}, Logger: logger}, &fakeService{})
		defer stop()
		one, two := connected(t, network), connected(t, network)
		send(t, one, resumeMessage(1, 7))
		send(t, two, resumeMessage(1, 8))
		receive(t, one)
		receive(t, two)
		for range port.MaxRefusing { // these are served for a moment
			conn, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
		synctest.Wait()
		for range 5 {
			conn, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a connection above the limit read %v, want io.EOF at once", err)
			}
		}
		if got := s.Stats(); got.Refused != port.MaxRefusing+5 || got.Connections != 2 {
			t.Errorf("stats %+v, want %d refused and 2 open", got, port.MaxRefusing+5)
		}
		if got := strings.Count(log.String(), "max_connections"); got != 1 {
			t.Errorf("%d log lines for refusals within a second, want 1", got)
		}
		// Connections below the limit go on.
		if send(t, one, touchMessage(2)); receive(t, one).GetTouched() == nil {
			t.Error("a connection below the limit is not served")
		}
	})
}

func TestStreamsAboveTheLimitWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{StreamsPerConnection: 2}}, &fakeService{})
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			stream, err := separate.Stream(c.Connect(ctx))
			if err != nil {
				t.Fatal(err)
			}
			send(t, stream, touchMessage(1))
			receive(t, stream)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := c.TouchSessions(short,
			&holdfastv1.TouchSessionsRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a third call beside two streams: %v", err)
		}
		if got := s.Stats().Streams; got != 2 {
			t.Errorf("%d streams, want 2", got)
		}
		cancel()
		if _, err := c.TouchSessions(t.Context(), &holdfastv1.TouchSessionsRequest{}); err != nil {
			t.Errorf("a call after the streams: %v", err)
		}
	})
}

// TestKeepaliveEveryTenSecondsIsAllowed: gRPC's own default would end the connection after two pings.
func TestKeepaliveEveryTenSecondsIsAllowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		stream := speaking(t, network)
		time.Sleep(10 * time.Minute)
		send(t, stream, touchMessage(2))
		if got := receive(t, stream).GetTouched().GetSeq(); got != 2 {
			t.Errorf("answered seq %d after ten quiet minutes", got)
		}
	})
}

func TestAClientThatHangsIsNoticed(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stalled := newStall()
		network.Cut = stalled.wrap
		speaking(t, network)
		stalled.hold()
		begun := time.Now()
		for s.Stats().Connections > 0 && time.Since(begun) < time.Hour {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := time.Since(begun); got > 45*time.Second {
			t.Errorf("a client that answers nothing was noticed after %v", got)
		}
		if service.ended() != 1 {
			t.Error("its connection was not disconnected")
		}
		stalled.release()
	})
}

// TestGarbageOnThePort: bytes that are not HTTP/2, and no bytes at all, end with the connection closed and nothing
// left.
func TestGarbageOnThePort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		for _, garbage := range [][]byte{
			nil, noise, []byte("GET / HTTP/1.1\r\n\r\n"), []byte(preface),
			append([]byte(preface), noise...),
		} {
			conn, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			if len(garbage) > 0 {
				_, _ = conn.Write(garbage)
			}
			time.Sleep(port.ConnectionTimeout + time.Second)
			if got := s.Stats().Connections; got != 0 {
				t.Errorf("%d connections are open after %.20q and %v", got, garbage, port.ConnectionTimeout)
			}
			conn.Close()
		}
		// The port still serves.
		send(t, connected(t, network), touchMessage(1))
	})
}

func TestServeReportsItsListener(t *testing.T) {
	s := New(Config{}, &fakeService{}, fakeCluster{})
	broken := errors.New("no descriptors")
	if err := s.Serve(brokenListener{err: broken}); !errors.Is(err, broken) {
		t.Errorf("Serve: %v, want %v", err, broken)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
}

type brokenListener struct {
	net.Listener
	err error
}

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }
func (l brokenListener) Close() error              { return nil }
func (l brokenListener) Addr() net.Addr            { return &net.UnixAddr{} }

func TestServiceThatIsStopping(t *testing.T) {
	service := &fakeService{connect: func(session.Events) error { return session.ErrStopping }}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		if _, err := connected(t, network).Recv(); !errors.Is(wire.Domain(err), session.ErrStopping) {
			t.Errorf("Connect: %v", err)
		}
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		for _, tt := range []error{
			call(
				t.Context(), c, &holdfastv1.OpenSessionRequest{
					Timeout: wire.PromiseProto(1), RequestId: make([]byte, 16),
				},
			),
			call(
				t.Context(), c, &holdfastv1.ResumeSessionRequest{
					Token:    wire.TokenProto(porttest.Grant(1).Token),
					Instance: 1, Attempt: 1,
				},
			),
			call(t.Context(), c, &holdfastv1.TouchSessionsRequest{}),
			call(t.Context(), c, &holdfastv1.CloseSessionRequest{Token: wire.TokenProto(porttest.Grant(1).Token)}),
		} {
			if !errors.Is(wire.Domain(tt), session.ErrStopping) {
				t.Errorf("got %v", tt)
			}
		}
	})
}
