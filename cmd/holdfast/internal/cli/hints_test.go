package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/session"
)

// Cause returns the innermost error, from the dialer where gRPC only gives text.
func TestCause(t *testing.T) {
	unreachable := fmt.Errorf("ask h:1 for its status: %w", client.ErrUnreachable)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		err, dialled error
		want         string
	}{
		"no such host": {
			unreachable, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h", Server: "ns:53"}},
			"no such host",
		},
		"refused":              {unreachable, refused, "connection refused"},
		"hung up":              {unreachable, &hungUpError{io.EOF}, "EOF"},
		"silence":              {fmt.Errorf("ask h:1: %w", errors.New("no answer in time")), nil, "no answer in time"},
		"not a client port":    {fmt.Errorf("ask h:1: %w", &notClientPortError{"h:1"}), errHTTP1, notClientPort},
		"refusal of a node":    {fmt.Errorf("ask h:1: %w", session.ErrNoLeader), refused, session.ErrNoLeader.Error()},
		"status without a why": {fmt.Errorf("ask h:1: %w", status.Error(codes.Internal, "broken")), nil, "broken"},
	} {
		var cluster Cluster
		cluster.dialer.note("h:1", tt.dialled)
		if got := cluster.Cause("h:1", tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A node that hangs up because of its limit of connections is not called a wrong port. Nor is a node of an older
// release, which lacks a newer service.
func TestHungUpServersMayBeNodes(t *testing.T) {
	var cluster Cluster
	cluster.dialer.note("h:1", &hungUpError{syscall.ECONNRESET})
	for _, err := range []error{
		nil, session.ErrNoLeader, status.Error(codes.Unimplemented, "unknown service holdfast.v1.IdService"),
		context.DeadlineExceeded, fmt.Errorf("%w: h:1: no answer in time", client.ErrUnreachable),
	} {
		if cluster.notHoldfast(err) {
			t.Errorf("%v: is no node", err)
		}
	}
	if late := error(timeoutError{time.Second}); !errors.Is(late, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", late)
	}
}

// A server of HTTP/1 explains that no node answered. It does not explain a node's refusal.
func TestHTTP1ExplainsThatNoNodeAnswered(t *testing.T) {
	var cluster Cluster
	cluster.dialer.note("h:1", errHTTP1)
	if err := fmt.Errorf("open: %w", client.ErrUnreachable); !cluster.notHoldfast(err) {
		t.Errorf("%v: may be a node", err)
	}
	if cluster.notHoldfast(session.ErrNoLeader) {
		t.Errorf("%v: is no node", session.ErrNoLeader)
	}
}

// An error may not name the wrong endpoint, so the advice about several endpoints blames none of them.
func TestHintOfSeveralEndpoints(t *testing.T) {
	err := errors.New("unknown service holdfast.v1.ClusterService")
	for want, endpoints := range map[string][]string{
		"n1:7401 is not a client port":                {"n1:7401"},
		"One of n1:7400,n2:7401 is not a client port": {"n1:7400", "n2:7401"},
	} {
		cluster := Cluster{Endpoints: endpoints}
		if got := cluster.hint(err); !strings.HasPrefix(got, want+"; clients use 7400") {
			t.Errorf("%v: %q", endpoints, got)
		}
	}
}
