package migrate_test

import (
	"testing"

	"holdfast/client"
	"holdfast/cmd/internal/migrate"
)

// TestACounterBehindADeletedName: the counter is raised also where the target has the very name by which that is done,
// of an entry that the source has no more.
func TestACounterBehindADeletedName(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := application()
		copied(t, s, to, options)
		delete(s.entries, "/app/queue/i")
		s.entries["/app/queue"] = migrate.Node{ACL: open, Made: 40}
		with := options
		with.Delete = true
		got := copied(t, s, to, with)
		if c := got.Copied; !got.Equal || c.Refused != 0 || c.Deleted != 1 || c.Counters != 1 {
			t.Errorf("%+v %+v", c, got.Problems)
		}
		if n := next(t, to, "/app/queue"); n != 40 {
			t.Errorf("the next number is %d, want 40", n)
		}
	})
}
