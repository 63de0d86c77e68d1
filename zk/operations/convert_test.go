package operations

import (
	"testing"

	"holdfast/tree"
)

// A client names the version that it was shown, whose 32 bits overflow at 2^31 as ZooKeeper's do.
func TestVersionsThatOverflow(t *testing.T) {
	for _, version := range []int64{0, 1, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 2} {
		if got := versionOf(statOf(tree.Stat{Version: version}).Version); got != version {
			t.Errorf("version %d is shown as one that stands for %d", version, got)
		}
	}
	if got := versionOf(-1); got != tree.Any {
		t.Errorf("-1 stands for %d, want any", got)
	}
}
