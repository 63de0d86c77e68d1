package election

import (
	"context"
	"fmt"
	"testing"

	"holdfast/node/succession"
	"holdfast/transport/raftnet"
)

// TestWhatALookFinds: only an address that refuses the connection, and a process that says that it does not lead, are
// evidence at once.
func TestWhatALookFinds(t *testing.T) {
	for name, tt := range map[string]struct {
		out  reply
		err  error
		want succession.Finding
	}{
		"nobody listens": {reply{}, fmt.Errorf("asking: %w", raftnet.ErrRefused), succession.Refused},
		"no answer":      {reply{}, context.DeadlineExceeded, succession.Unclear},
		"not understood": {reply{Leads: true}, nil, succession.Unclear},
		"leads":          {reply{Received: true, Leads: true}, nil, succession.Leading},
		"does not lead":  {reply{Received: true}, nil, succession.NotLeading},
	} {
		if got := finding(tt.out, tt.err); got != tt.want {
			t.Errorf("%s: found %v, want %v", name, got, tt.want)
		}
	}
}
