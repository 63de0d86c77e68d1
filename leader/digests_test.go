package leader

import (
	"testing"
	"time"

	"holdfast/session"
)

// comparing is the rounds of a term with a stream of each voter.
type comparing struct {
	*rounds
	t       *testing.T
	streams map[session.Node]*stream
}

func newComparing(t *testing.T, voters int) *comparing {
	t.Helper()
	c := &comparing{newRounds(7, newPace(time.Second), 0), t, map[session.Node]*stream{}}
	var members []session.Member
	for i := range voters {
		members = append(members, session.Member{Node: session.Node(i + 1), Voter: true})
	}
	c.configure(append(members, session.Member{Node: 9}), 1, 0) // 9 has no vote
	for _, m := range append(members, session.Member{Node: 9}) {
		c.open(m.Node, 0)
	}
	return c
}

func (c *comparing) open(node session.Node, now time.Duration) {
	c.t.Helper()
	s := newStream(session.Hello{Node: node, Incarnation: uint64(now) + 1})
	if _, err := c.rounds.open(s, now); err != nil {
		c.t.Fatal(err)
	}
	c.streams[node] = s
}

// round begins a round when the leader has applied an index. Each node in reports answers with the digest that the
// number stands for, 0 for none.
func (c *comparing) round(now time.Duration, applied uint64, reports map[session.Node]byte) {
	c.begin(now)
	c.decide(now)
	c.compare(applied, now)
	for node, digest := range reports {
		s := c.streams[node]
		if c.next(s, now) == nil {
			c.t.Fatalf("no heartbeat for node %d", node)
		}
		a := &session.Answer{Round: c.newest.n, Term: 7, Last: true}
		if digest > 0 {
			a.Digest = session.StateDigest{Index: c.comparison.index, Digest: [16]byte{digest}}
		}
		c.answer(s, a, now)
		c.decide(now)
	}
}

func (c *comparing) finds(when string, index uint64, digest byte) {
	c.t.Helper()
	want := session.Comparison{StateDigest: session.StateDigest{Index: index}}
	if digest > 0 {
		want.Digest, want.Agreed = [16]byte{digest}, true
	}
	if got := c.comparison.found; got != want {
		c.t.Errorf("%s: found %+v, want %+v", when, got, want)
	}
}

// C2: a quorum of the voters decides which digest is right; nodes without a vote do not count.
func TestC2AQuorumDecides(t *testing.T) {
	c := newComparing(t, 3)
	c.round(0, 5, map[session.Node]byte{1: 1, 9: 1})
	c.finds("one voter and one without a vote", 0, 0)
	c.round(1, 6, map[session.Node]byte{2: 2})
	c.finds("two that differ, while a third is waited for", 0, 0)
	c.round(2, 6, map[session.Node]byte{3: 2})
	c.finds("the third has the digest of the second", 5, 2)
	c.round(3, 6, map[session.Node]byte{1: 1, 2: 1, 3: 2, 9: 2})
	c.finds("the next index, where the second has the first's", 6, 1)
}

// C2: if all voters differ, or two differ and the others are lost, no digest is right.
func TestC2Apart(t *testing.T) {
	c := newComparing(t, 3)
	c.round(0, 5, map[session.Node]byte{1: 1, 2: 2, 3: 3, 9: 3})
	c.finds("all differ", 5, 0)
	c.round(1, 5, map[session.Node]byte{3: 2})
	c.finds("the third has another digest now", 5, 2)
	c.round(2, 5, map[session.Node]byte{2: 4})
	c.finds("the second has another one too", 5, 0)

	c = newComparing(t, 3)
	c.round(0, 5, map[session.Node]byte{1: 1, 2: 2, 9: 1})
	c.finds("the third is waited for", 0, 0)
	c.close(c.streams[3], 1)
	c.round(2, 5, map[session.Node]byte{1: 1})
	c.finds("the third is lost", 5, 0)

	c = newComparing(t, 3)
	behind := map[session.Node]byte{1: 1, 2: 2, 3: 0, 9: 1}
	c.round(0, 5, behind)
	c.finds("the third is behind", 0, 0)
	c.round(comparisonPatience*time.Second, 5, behind)
	c.finds("there is no patience left for it, and nothing newer to compare", 5, 0)
}

// C2: a report counts only as long as the node repeats it, so a quorum can be lost again.
func TestC2AQuorumThatWas(t *testing.T) {
	c := newComparing(t, 3)
	c.round(0, 5, map[session.Node]byte{1: 1, 2: 1})
	c.finds("two agree", 5, 1)
	c.round(1, 5, map[session.Node]byte{2: 2})
	c.finds("one of the two has another digest, and the third is waited for", 0, 0)
	c.round(2, 5, map[session.Node]byte{2: 1})
	c.finds("it has the former again", 5, 1)
	c.open(2, 3) // the node was restarted
	c.decide(3)
	c.finds("one of the two was started again", 0, 0)
}

// C1: another index is compared once all nodes have reported, and after a while without the nodes that lag.
func TestC1Index(t *testing.T) {
	c := newComparing(t, 3)
	compares := func(when string, want uint64) {
		t.Helper()
		if got := c.comparison.index; got != want {
			t.Errorf("%s: index %d is compared, want %d", when, got, want)
		}
	}
	c.round(0, 5, map[session.Node]byte{1: 1, 2: 1, 3: 0, 9: 0})
	c.round(1, 7, map[session.Node]byte{1: 1, 2: 1, 3: 1, 9: 0})
	compares("a node is behind", 5)
	c.round(2, 8, map[session.Node]byte{9: 1})
	compares("it was waited for", 5)
	c.round(3, 9, nil)
	compares("it has come there", 9)
	c.round(3+comparisonPatience*time.Second-1, 12, nil)
	compares("nobody reports, and there is patience left", 9)
	c.streams = map[session.Node]*stream{}
	c.round(3+comparisonPatience*time.Second, 12, nil)
	compares("there is none", 12)
}
