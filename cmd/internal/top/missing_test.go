package top

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client"
)

// Whether nodes serve is on a screen of 80 x 24, however large the figures of a cluster are, and however long the name
// of a silent node is.
func TestReadinessFits(t *testing.T) {
	m := begun()
	s := sample(4)
	for i := range s.Nodes {
		st := &s.Nodes[i].Status
		st.Term, st.AppliedIndex, st.Global, st.Watches = 12_345, 3_456_789_012, 2_000_000, 10_000_000
		st.Attached, s.Nodes[i].RoundTrip = 1_000_000, 12345*time.Microsecond
	}
	s.Nodes[0] = Node{Endpoint: "holdfast-0.holdfast.default.svc.cluster.local:7400", Silent: "connection refused"}
	s.Nodes[1].Status.Drain = &client.Drain{}
	m.Add(s)
	for text, want := range map[string]string{
		"holdfast-0.": "silent: connection refused", "leader  ": "draining", "follower": "yes", "NODE  ROLE": "READY",
	} {
		lines := strings.Split(clean(m.View()), "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) && !strings.HasPrefix(l, "!") })
		if at < 0 || !strings.Contains(lines[at], want) {
			t.Errorf("no line with %q and %q in\n%s", text, want, clean(m.View()))
		}
	}
}

// Parts without an answer are not shown as empty.
func TestNothingFollowsFromNoAnswer(t *testing.T) {
	m := begun()
	s := sample(4)
	s.Expiring, s.Deaths = nil, nil
	for _, c := range []struct{ keys, missing, none string }{{"1", "no leader", "no session"}, {"3", "no quorum", "none"}} {
		press(m, c.keys)
		s.Missing = [sections]string{}
		m.Add(s)
		if got := line(t, m.View(), "1 expiring"); got == "" || !strings.Contains(clean(m.View()), "\n"+c.none+"\n") {
			t.Errorf("section %s is not said to be empty:\n%s", c.keys, clean(m.View()))
		}
		s.Missing[m.section] = c.missing
		m.Add(s)
		got := clean(m.View())
		if !strings.Contains(got, "\nnot known: "+c.missing+"\n") || strings.Contains(got, "\n"+c.none+"\n") {
			t.Errorf("section %s is not said to be unknown:\n%s", c.keys, got)
		}
	}
}
