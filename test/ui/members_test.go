package ui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
	"holdfast/test/whole"
)

// member waits until the leader tells of a member what is wanted; there is false for none.
func (c *cluster) member(t *testing.T, node session.Node, what string, ok func(m client.Member, there bool) bool) {
	t.Helper()
	bound := time.After(startBound)
	for {
		members, err := c.client.MembersOfLeader(t.Context())
		at := slices.IndexFunc(members, func(m client.Member) bool { return m.Node == node })
		var m client.Member
		if at >= 0 {
			m = members[at]
		}
		if err == nil && ok(m, at >= 0) {
			return
		}
		select {
		case <-bound:
			timeout.Fatalf(t, "node %d is not %s within %v: %+v, %v", node, what, startBound, members, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Members are added, promoted, demoted, removed and made leader by the page, which says before what follows for the
// quorum.
func TestMembers(t *testing.T) {
	c := begin(t, nil)
	c.connect(t)
	fourth := whole.OnLoopback(t, 1)[0]
	place := fourth.Peers[0]
	place.Node = 4
	fourth.Node, fourth.Peers = 4, append(slices.Clone(c.configs[0].Peers), place)
	c.run(t, fourth)

	b := open(t, c.configs[0].Listen.HTTP)
	b.visit(c.url(0, "members"))
	b.shows("Add a node")
	b.fill("/ui/members", "node", "300")
	b.fill("/ui/members", "host", "localhost")
	b.expect("Failed to load resource") // refusals of what was entered
	b.press("Add node…")
	b.shows("must be a number from 1 to 254")
	b.visit(c.url(0, "members"))
	enter := func() {
		b.fill("/ui/members", "node", "4")
		b.fill("/ui/members", "client", place.Client)
		b.fill("/ui/members", "raft", place.Raft)
		b.fill("/ui/members", "peer", place.Peer)
	}
	enter()
	b.press("Add node…")
	b.shows("Add node 4 at " + place.Client + "?")
	b.shows("does not count for the quorum")
	b.press("Confirm")
	b.shows("Node 4 was added.")
	c.member(t, 4, "an observer", func(m client.Member, there bool) bool { return there && m.Observer && !m.Voter })
	b.visit(c.url(0, "members"))
	b.shows("no, observer")

	b.press("Promote node 4…")
	b.shows("Afterwards: 4 voters, quorum 3. Available: 4. The cluster tolerates 1 failure.")
	b.press("Confirm")
	c.member(t, 4, "a voter", func(m client.Member, _ bool) bool { return m.Voter })

	next := (c.leader(t)+1)%3 + 1
	b.visit(c.url(0, "members"))
	b.shows("4 voters, quorum 3.")
	b.press(fmt.Sprintf("Transfer leadership to node %d…", next))
	b.press("Confirm")
	b.shows(fmt.Sprintf("Leadership was transferred to node %d.", next))
	c.member(t, session.Node(next), "the leader", func(m client.Member, _ bool) bool { return m.Leader })

	b.visit(c.url(0, "members"))
	b.press("Demote node 4…")
	b.shows("Afterwards: 3 voters, quorum 2. Available: 3. The cluster tolerates 1 failure.")
	b.press("Confirm")
	c.member(t, 4, "an observer", func(m client.Member, _ bool) bool { return m.Observer && !m.Voter })

	b.visit(c.url(0, "members"))
	b.press("Remove node 4…")
	b.shows("This cannot be undone")
	b.shows("It has no vote: the quorum stays the same.")
	b.press("Confirm")
	b.shows("Node 4 is being removed.")
	c.member(t, 4, "gone", func(_ client.Member, there bool) bool { return !there })
	b.visit(c.url(0, "members"))
	if value[bool](b, `document.body.innerText.includes("Node 4")`) {
		t.Error("the page shows node 4 after its removal")
	}

	// The removed node's own console says that what it shows is over.
	former := open(t, fourth.Listen.HTTP)
	former.visit("http://" + fourth.Listen.HTTP + "/ui/members")
	former.until(`document.body.innerText.includes("Its pages show its last known state")`)

	// Its number is used up, and what would leave no quorum is refused; the page says so before.
	enter()
	b.press("Add node…")
	b.press("Confirm")
	b.shows("was removed")
	gone := (c.leader(t) + 1) % 3
	if gone == 0 {
		gone = 3 - c.leader(t) // not the node of the page
	}
	c.nodes[gone].stop(t)
	other := 3 - gone - c.leader(t)
	b.visit(c.url(0, "members"))
	b.until(fmt.Sprintf(`[...document.querySelectorAll(".member")].some((m) => /Node %d/.test(m.textContent) && /unreachable/.test(m.textContent))`, gone+1))
	b.press(fmt.Sprintf("Demote node %d…", other+1))
	b.shows(fmt.Sprintf("Afterwards: 2 voters, quorum 2. Unavailable: node %d is unreachable. Available: 1, less than the quorum. The leader will refuse.", gone+1))
	b.press("Confirm")
	b.shows("would be a quorum")
	c.member(t, session.Node(other+1), "still a voter", func(m client.Member, _ bool) bool { return m.Voter })
}
