package sim

import (
	"context"
	"testing"
	"time"
)

// TestBounds has a client reach each bound of a cluster that nothing else disturbs, while another client continues.
func TestBounds(t *testing.T) {
	r := newReport(6, 3)
	undisturbed(t, r, func(ctx context.Context, _ *world) { sleep(ctx, 70*time.Second) })
	for _, one := range []struct {
		budget string
		named  bool
	}{
		{"max_tree_bytes", true},
		{"will", true},
		{"watch_bytes_per_node", true},
		{"max_sessions", true},
		{"transaction", true},
		{"unanswered_writes", false},
	} {
		if named := r.Checked["bound named: "+one.budget] > 0; named != one.named {
			t.Errorf("a refusal named %s: %v, want %v", one.budget, named, one.named)
		}
		for _, what := range []string{"bound serves others: ", "bound empties: "} {
			if r.Checked[what+one.budget] == 0 {
				t.Errorf("%s%s was never put to the test", what, one.budget)
			}
		}
	}
}
