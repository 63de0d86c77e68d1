package whole_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/separate"
	"holdfast/test/whole"
	"holdfast/transport/dial"
)

// rawClient is a client without the SDK, of a node that traces.
type rawClient struct {
	c  *whole.Cluster
	s  *spans
	to holdfastv1.SessionServiceClient
}

func newRawClient(c *whole.Cluster, s *spans) *rawClient {
	conn, err := grpc.NewClient("passthrough:///"+c.Names[0]+":7400",
		dial.DialOptions(dial.Options{Dial: c.Host("raw").Dial})...)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { conn.Close() })
	return &rawClient{c, s, holdfastv1.NewSessionServiceClient(conn)}
}

func request() *holdfastv1.OpenSessionRequest {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &holdfastv1.OpenSessionRequest{Timeout: durationpb.New(time.Minute), RequestId: id}
}

// opened checks that a request has opened a session, and that its span is below parent: empty for none.
func (n *rawClient) opened(what, parent string) {
	n.c.T.Helper()
	found := n.s.trace("holdfast.open")
	if got := found["holdfast.open"]; len(got) != 1 || len(found["holdfast.apply"]) != 3 {
		n.c.T.Errorf("%s: the trace is %v, want an open that all nodes have applied", what, found)
	} else if p := got[0].Parent; p.IsValid() != (parent != "") ||
		parent != "" && parent != p.TraceID().String()+p.SpanID().String() {
		n.c.T.Errorf("%s: the open is below %v, want %q", what, p, parent)
	}
	n.s.reset()
}

// unary opens a session by a call with headers.
func (n *rawClient) unary(what, parent string, headers ...string) {
	n.c.T.Helper()
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.MD{"traceparent": headers})
	if _, err := n.to.OpenSession(ctx, request()); err != nil {
		n.c.T.Errorf("%s: %v", what, err)
	}
	n.opened(what, parent)
}

// streamed opens a session by a message of a stream that lives on.
func (n *rawClient) streamed(to holdfastv1.SessionService_ConnectClient, what, parent string, seq uint64, trace []byte) {
	n.c.T.Helper()
	r := request()
	open := &holdfastv1.Open{Seq: seq, Timeout: r.GetTimeout(), RequestId: r.GetRequestId()}
	err := to.Send(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: open}, Trace: trace})
	for err == nil {
		var m *holdfastv1.ServerMessage
		if m, err = to.Recv(); err == nil && m.GetOpened().GetSeq() == seq {
			break
		}
		if failed := m.GetFailed(); failed != nil {
			n.c.T.Fatalf("%s: %v", what, failed)
		}
	}
	if err != nil {
		n.c.T.Fatalf("%s: %v", what, err)
	}
	n.opened(what, parent)
}

// A malformed trace counts as none, in metadata of a call and in a message of a stream: the request is served, its span
// starts a new trace, and the stream lives on.
func TestMalformedTracesCountAsNone(t *testing.T) {
	s := newSpans()
	whole.RunSetup(t, whole.Setup{Spans: s.exporter}, func(c *whole.Cluster) {
		s.t = c.T
		n := newRawClient(c, s)
		parent := theirs[3:35] + theirs[36:52]
		n.unary("a trace", parent, theirs)
		for what, header := range map[string]string{
			"no text": "", "cut short": theirs[:len(theirs)-1], "too long": theirs + "0", "a trace of zeros": "00-" +
				strings.Repeat("0", 32) + theirs[35:], "a span of zeros": theirs[:36] + strings.Repeat("0", 16) + theirs[52:],
			"capital letters": strings.ToUpper(theirs), "version ff": "ff" + theirs[2:], "other letters": "00-" +
				strings.Repeat("g", 32) + theirs[35:], "4 kB": strings.Repeat(theirs, 80),
		} {
			n.unary(what, "", header)
		}
		n.unary("two traces", "", theirs, theirs)

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stream, err := separate.Stream(n.to.Connect(ctx))
		if err != nil {
			c.T.Fatal(err)
		}
		trace := session.ParseTrace(theirs).Bytes()
		n.streamed(stream, "a trace", parent, 1, trace)
		for i, bad := range [][]byte{
			{},
			trace[:1], trace[:24], append(trace[:25:25], 0), make([]byte, 25), make([]byte, 100_000),
			append(make([]byte, 16), trace[16:]...), append(trace[:16:16], make([]byte, 9)...), []byte(theirs),
		} {
			n.streamed(stream, "a message with a malformed trace", "", uint64(i+2), bad)
		}
		n.streamed(stream, "a trace behind the malformed ones", parent, 100, trace)
	})
}
