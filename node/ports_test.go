package node

import (
	"testing"

	"holdfast/node/config"
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
