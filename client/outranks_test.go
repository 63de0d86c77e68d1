package client_test

import (
	"testing"

	"holdfast/client"
)

// A node that knows a leader outranks a node without, whatever the terms: a node that is cut off raises its own.
func TestOutranks(t *testing.T) {
	ranks := []client.Status{
		{Term: 7, Leader: 2, AppliedIndex: 11},
		{Term: 7, Leader: 2, AppliedIndex: 10},
		{Term: 6, Leader: 1, AppliedIndex: 90},
		{Term: 9, AppliedIndex: 90},
		{Term: 8, AppliedIndex: 91},
		{},
	}
	for i := range ranks {
		for j := range ranks {
			if got := client.Outranks(&ranks[i], &ranks[j]); got != (i < j) {
				t.Errorf("%+v outranks %+v: %v", ranks[i], ranks[j], got)
			}
		}
	}
}
