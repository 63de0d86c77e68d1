package members

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

func TestDifferencesOfPeersAndMembers(t *testing.T) {
	peers := threePeers()
	same := map[session.Node]string{1: "n1:7401", 2: "n2:7401", 3: "n3:7401"}
	for name, tt := range map[string]struct {
		members map[session.Node]string
		want    []string
	}{
		"the same": {same, nil},
		"no member": {
			map[session.Node]string{1: "n1:7401", 3: "n3:7401"}, []string{"node 2 is among this node's peers, at n2:7401"},
		},
		"removed": {
			map[session.Node]string{1: "n1:7401", 2: "n2:7401"},
			[]string{"node 3 is among this node's peers, and was removed from the cluster for good: take it out of peers"},
		},
		"another place": {
			map[session.Node]string{1: "x:1", 2: "n2:7401", 3: "n3:7401"}, []string{"node 1 was added at x:1"},
		},
		"no peers": {
			map[session.Node]string{1: "n1:7401", 2: "n2:7401", 3: "n3:7401", 5: "n5:1", 4: "n4:1"},
			[]string{"node 4 is a member at n4:1, but not among", "node 5 is a member at n5:1"},
		},
	} {
		got := differences(peers, tt.members, func(n session.Node) bool { return n == 3 })
		ok := len(got) == len(tt.want)
		for i := range tt.want {
			ok = ok && strings.HasPrefix(got[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// Differences are logged when they change, and when they end.
func TestDifferencesAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})
	d := differencesLog{differ: "they differ", same: "they agree"}
	for _, found := range [][]string{nil, {"a"}, {"a"}, {"a", "b"}, nil, nil} {
		d.write(logger, found)
	}
	want := "[WARN]  they differ: reason=a\n[WARN]  they differ: reason=\"a; b\"\n[INFO]  they agree\n"
	if got := log.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
