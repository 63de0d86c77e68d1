package cli

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/client"
	"holdfast/session"
)

// A node that refuses has answered: the cluster can be reached, even if all other nodes are silent.
func TestJoinNodes(t *testing.T) {
	silent := fmt.Errorf("%w: connection refused", client.ErrUnreachable)
	for name, tt := range map[string]struct {
		errs              []error
		failed, unreached bool
	}{
		"all answer":                   {[]error{nil, nil}, false, false},
		"one is silent":                {[]error{nil, silent}, true, false},
		"one refuses, one is silent":   {[]error{session.ErrNoLeader, silent}, true, false},
		"all are silent":               {[]error{silent, silent}, true, true},
		"one answers, one refuses":     {[]error{nil, session.ErrNoLeader}, true, false},
		"the only one refuses":         {[]error{session.ErrNoLeader}, true, false},
		"the only one says not a word": {[]error{silent}, true, true},
	} {
		if err := JoinNodes(tt.errs); (err != nil) != tt.failed ||
			errors.Is(err, client.ErrUnreachable) != tt.unreached {
			t.Errorf("%s: %v", name, err)
		}
	}
}
