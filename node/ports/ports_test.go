package ports

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/test/loopback"
	"holdfast/transport/authz"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
)

// Each setting is the budget that it names.
func TestSettingsOfTheRateLimits(t *testing.T) {
	c := config.RateLimits{
		MaxOpensPerSecond: 1, MaxResumesPerSecond: 2,
		MaxOpensAndResumesPerSecondPerAddress: 4, MaxOpensAndResumesPerSecondPerClient: 5,
	}
	want := ratelimit.Config{
		Opens: 1, Resumes: 2, Touches: touchesPerSecond, OpensAndResumesPerAddress: 4, OpensAndResumesPerClient: 5,
	}
	if got := rateLimits(c); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each setting is the limit that it names.
func TestSettingsOfTheClientPort(t *testing.T) {
	c := config.Config{
		Clients:    config.Clients{MaxMessageBytes: 1, MaxBufferedBytes: 6},
		RateLimits: config.RateLimits{MaxConnectionsPerAddress: 4},
	}
	want := port.Limits{MessageBytes: 1, Connections: 3, ConnectionsPerAddress: 4, WaitingBytes: 6}
	if got := clientLimits(&c, 3); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Nothing uses the port of an address that this machine does not have: the advice is by the cause.
func TestListenAdviceIsByTheCause(t *testing.T) {
	at, c := loopback.Free(t, 3), config.Default()
	c.Auth.Mode = authz.None
	c.Listen.Raft, c.Listen.Peer, c.Listen.HTTP = at[0], at[1], at[2]
	c.Listen.Client = "192.0.2.1:7400" // of a network for documentation: nobody's
	if _, err := Bind(Config{Logger: hclog.NewNullLogger(), Settings: c, Clock: time.Now}); err == nil ||
		!strings.HasSuffix(err.Error(), "give client_listen an address of this machine, or :PORT for all that it has") {
		t.Errorf("got %v, want advice for an address that the machine does not have", err)
	}
	for want, err := range map[string]error{
		"give http_listen an address of this machine, or :PORT for all that it has": &net.OpError{
			Op:  "listen",
			Err: &net.DNSError{Err: "no such host", Name: "nosuch.invalid"},
		},
		"give http_listen a port above 1023, or the process the right to this one": os.NewSyscallError("bind",
			syscall.EACCES),
		"give http_listen another address": errors.New("anything else"),
	} {
		if got := listenAdvice(err, "http_listen"); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
