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
	b.press("Add…")
	b.shows("must be a number from 1 to 254")
	b.visit(c.url(0, "members"))
	enter := func() {
		b.fill("/ui/members", "node", "4")
		b.fill("/ui/members", "client", place.Client)
		b.fill("/ui/members", "raft", place.Raft)
		b.fill("/ui/members", "peer", place.Peer)
	}
	enter()
	b.press("Add…")
	b.shows("Take in node 4 at " + place.Client + "?")
	b.shows("counts for no quorum")
	b.press("Yes, do it")
	b.shows("Node 4 is taken in.")
	c.member(t, 4, "an observer", func(m client.Member, there bool) bool { return there && m.Observer && !m.Voter })
	b.visit(c.url(0, "members"))
	b.shows("no, it is an observer")

	b.press("Give node 4 a vote…")
	b.shows("Then 4 members vote, and 3 must agree. 4 would remain: 1 could be lost.")
	b.press("Yes, do it")
	c.member(t, 4, "a voter", func(m client.Member, _ bool) bool { return m.Voter })

	next := (c.leader(t)+1)%3 + 1
	b.visit(c.url(0, "members"))
	b.shows("4 members vote, and 3 must agree.")
	b.press(fmt.Sprintf("Have node %d lead…", next))
	b.press("Yes, do it")
	b.shows(fmt.Sprintf("Leadership was handed over to node %d.", next))
	c.member(t, session.Node(next), "the leader", func(m client.Member, _ bool) bool { return m.Leader })

	b.visit(c.url(0, "members"))
	b.press("Take the vote of node 4…")
	b.shows("Then 3 members vote, and 2 must agree. 3 would remain: 1 could be lost.")
	b.press("Yes, do it")
	c.member(t, 4, "an observer", func(m client.Member, _ bool) bool { return m.Observer && !m.Voter })

	b.visit(c.url(0, "members"))
	b.press("Remove node 4…")
	b.shows("There is no way back")
	b.shows("It does not vote: the cluster decides as before.")
	b.press("Yes, do it")
	b.shows("Node 4 is being removed.")
	c.member(t, 4, "gone", func(_ client.Member, there bool) bool { return !there })
	b.visit(c.url(0, "members"))
	if value[bool](b, `document.body.innerText.includes("Node 4")`) {
		t.Error("the page shows node 4 after its removal")
	}

	// The removed node's own console says that what it shows is over.
	former := open(t, fourth.Listen.HTTP)
	former.visit("http://" + fourth.Listen.HTTP + "/ui/members")
	former.until(`document.body.innerText.includes("Its pages show what it knew last")`)

	// Its number is used up, and what would leave no quorum is refused; the page says so before.
	enter()
	b.press("Add…")
	b.press("Yes, do it")
	b.shows("was removed")
	gone := (c.leader(t) + 1) % 3
	if gone == 0 {
		gone = 3 - c.leader(t) // not the node of the page
	}
	c.nodes[gone].stop(t)
	other := 3 - gone - c.leader(t)
	b.visit(c.url(0, "members"))
	b.until(fmt.Sprintf(`[...document.querySelectorAll(".member")].some((m) => /Node %d/.test(m.textContent) && /does not answer/.test(m.textContent))`, gone+1))
	b.press(fmt.Sprintf("Take the vote of node %d…", other+1))
	b.shows(fmt.Sprintf("Then 2 members vote, and 2 must agree. But node %d does not answer. 1 would remain, which is no quorum: the leader refuses that.", gone+1))
	b.press("Yes, do it")
	b.shows("would be a quorum")
	c.member(t, session.Node(other+1), "still a voter", func(m client.Member, _ bool) bool { return m.Voter })
}
