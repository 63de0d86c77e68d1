package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/node"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/tree"
)

// content returns the content of a page for a caller who may do everything.
func content(t *testing.T, page string, data any) string {
	t.Helper()
	c := &Console{pages: parse()}
	body, err := c.execute("content", frame{
		view: view{Page: page, Data: data}, May: may{Operate: true, Write: true, Administer: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// holds reports what a page lacks of what it must show, and what it shows of what it must not.
func holds(t *testing.T, page string, shows, not []string) {
	t.Helper()
	for _, text := range shows {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not show %q:\n%s", text, page)
		}
	}
	for _, text := range not {
		if strings.Contains(page, text) {
			t.Errorf("the page shows %q:\n%s", text, page)
		}
	}
}

// A warning says each second how long a freeze still lasts: that is no news, and pushes nothing else out of what
// happened. Other warnings are news.
func TestAFreezeFillsNoTimeLine(t *testing.T) {
	s := clientport.NodeStatus{Node: 1, Leader: 1, Term: 1, Ready: true}
	c := &Console{news: newNews("p"), record: newRecord(), glance: func() clientport.NodeStatus { return s }}
	now := time.Unix(1000, 0)
	look := func() { now = now.Add(time.Second); c.look(now) }
	look()
	s.Leader, s.Term = 2, 2
	look()
	for left := 10 * time.Minute; left > 0; left -= time.Second {
		s.Frozen, s.Warning = left, fmt.Sprintf("the cluster is frozen for %v more", left)
		s.Ready, s.NotReadyBecause = false, fmt.Sprintf("the node has not run for %v", 10*time.Minute-left)
		look()
	}
	s.Warning += "; the disk is full"
	look()
	var whats []string
	for _, one := range slices.Backward(c.record.turned()) {
		whats = append(whats, one.What)
	}
	want := []string{
		"The console of node 1 began: Node 1 leads term 1.", "Node 2 leads term 2.",
		"Node 1 does not serve: the node has not run for 0s.",
		"Node 1 warns: the cluster is frozen for 10m0s more.", "The cluster is frozen: nothing expires.",
		"Node 1 warns: the cluster is frozen for 1s more; the disk is full.",
	}
	if !slices.Equal(whats, want) {
		t.Errorf("what happened is %q, want %q", whats, want)
	}
	if got := len(c.news.after(0).events); got != 3 {
		t.Errorf("pages are told %d times, want 3: of the leader, the freeze, and the disk", got)
	}
}

// word is what a look finds: when, who leads, and which members the leader's word sets aside.
type word struct {
	at     int
	leader session.Node
	term   uint64
	aside  session.Aside
}

// happened returns what a console on node 1 tells of words, and how often it tells its pages. Two looks go ahead of them,
// long before.
func happened(t *testing.T, words ...word) (whats []string, told int) {
	t.Helper()
	var s clientport.NodeStatus
	c := &Console{news: newNews("p"), record: newRecord(), glance: func() clientport.NodeStatus { return s }}
	for _, w := range slices.Concat([]word{{at: -100, leader: 2, term: 1}, {at: -99, leader: 2, term: 1}}, words) {
		s = clientport.NodeStatus{Node: 1, Leader: w.leader, Term: w.term, Ready: true, Aside: w.aside}
		c.look(time.Unix(int64(w.at), 0))
	}
	for _, one := range slices.Backward(c.record.turned()) {
		whats = append(whats, fmt.Sprint(one.What, one.Bad))
	}
	return whats[1:], len(c.news.after(0).events)
}

// What happened tells of the other nodes too: each falls silent, comes back, is drained and has a full disk by the word of
// the leader.
func TestWhatHappenedToOthers(t *testing.T) {
	whats, told := happened(t,
		word{1, 2, 1, session.Aside{Unheard: []session.Node{3}}},
		word{2, 2, 1, session.Aside{Unheard: []session.Node{3}}},
		word{3, 2, 1, session.Aside{Draining: []session.Node{1, 2}}},
		word{4, 2, 1, session.Aside{Draining: []session.Node{1}}},
		word{5, 2, 1, session.Aside{Full: []session.Node{1, 3}}},
		word{6, 2, 1, session.Aside{}},
	)
	want := []string{
		"Node 3 is silent: the leader does not hear it.true", "Node 3 is not silent any more.false",
		"Node 2 is being drained.false", "Node 2 is not being drained any more.false",
		"Node 3 has a full disk: clients are sent to other nodes.true", "Node 3 has room on its disk again.false",
	}
	slices.Sort(want[1:3]) // of one look
	slices.Sort(whats[1:3])
	if !slices.Equal(whats, want) {
		t.Errorf("what happened is %q, want %q", whats, want)
	}
	if told != 5 {
		t.Errorf("pages are told %d times, want 5", told)
	}
}

// What the leader's word leaves out right after an election, and without a leader, has not ended. Nor has what a node
// was when the word says more about it: that it is silent.
func TestWhatHappenedToOthersOverAnElection(t *testing.T) {
	silent, full := session.Aside{Unheard: []session.Node{3}}, session.Aside{Full: []session.Node{4}}
	both := session.Aside{Unheard: []session.Node{3}, Full: []session.Node{4}}
	whats, _ := happened(t,
		word{1, 2, 1, both},
		word{2, 0, 1, session.Aside{}}, // no leader
		word{3, 5, 2, session.Aside{}}, // it has not heard anybody yet
		word{4, 5, 2, silent},
		word{5, 5, 2, session.Aside{Unheard: []session.Node{3, 4}}},
		word{6, 5, 2, both},
		word{14, 5, 2, both},
		word{15, 5, 2, full},
		word{16, 5, 2, session.Aside{Unheard: []session.Node{4}}},
		word{17, 5, 2, full},
		word{18, 5, 2, session.Aside{}},
	)
	var of []string
	for _, what := range whats {
		if strings.HasPrefix(what, "Node 3") || strings.HasPrefix(what, "Node 4") {
			of = append(of, what)
		}
	}
	want := []string{
		"Node 3 is silent: the leader does not hear it.true",
		"Node 4 has a full disk: clients are sent to other nodes.true",
		"Node 4 is silent: the leader does not hear it.true",
		"Node 4 is not silent any more.false", "Node 3 is not silent any more.false",
		"Node 4 is silent: the leader does not hear it.true", "Node 4 is not silent any more.false",
		"Node 4 has room on its disk again.false",
	}
	if !slices.Equal(of, want) {
		t.Errorf("what happened is %q, want %q", of, want)
	}
}

// That there is no leader is an alarm only if no member knows one: the leader itself may be slow, or not allow this
// caller to ask. How far behind members are is not known then.
func TestTheLeaderNeedNotAnswer(t *testing.T) {
	const alarm = "No leader is known"
	k := cluster{Members: []member{
		{Member: client.Member{Node: 1, Voter: true}, Silent: "it does not answer"},
		{Member: client.Member{Node: 2, Voter: true}, Status: client.Status{Ready: true, Leader: 1, AppliedIndex: 7}},
		{Member: client.Member{Node: 3, Voter: true}, Status: client.Status{Ready: true, AppliedIndex: 7}},
	}}
	known := k
	known.judge()
	if strings.Contains(strings.Join(known.Alarms, " "), alarm) {
		t.Errorf("alarms %q, though node 2 knows the leader", known.Alarms)
	}
	holds(t, content(t, "members", known), []string{"up to entry 7; the leader"}, []string{"up to date"})
	k.Members[1].Status.Leader = 0
	k.judge()
	if !strings.Contains(strings.Join(k.Alarms, " "), alarm) {
		t.Errorf("alarms %q, though nobody knows a leader", k.Alarms)
	}
}

// HTML drops a newline right after <pre> and <textarea>: one of the page's own stands there, so that none of the data's
// is lost when it is shown, or edited.
func TestALeadingNewlineStays(t *testing.T) {
	e := entry{Path: "/a"}
	e.show([]byte("\nabc"), "")
	holds(t, content(t, "tree", e), []string{">\n\nabc</pre>", ">\n\nabc</textarea>"}, nil)
}

// Of an entry that a caller may not read, the pages claim nothing: not that a lock is free, and not that there are no
// children, or no locks.
func TestNothingIsClaimedOfHiddenEntries(t *testing.T) {
	line, _ := recipes.InLine("/locks/a", []tree.Child{
		{Name: "lock-0000000000", Hidden: true},
		{Name: "lock-0000000001", Hidden: true},
		{Name: "lock-0000000002", Data: []byte("me"), Stat: tree.Stat{Owner: 7, CreatedAt: time.Now()}},
	})
	holds(t, content(t, "locks", lockPage{Locks: []lock{{"/locks/a", line}}}),
		[]string{
			"holds or lingers", `>waits</th><td>lock</td>`, "hidden: you may not read its entry",
			session.ID(7).String(), "In line since",
		},
		[]string{">lingers<", "its session has ended", "days ago", "may not read 0"})
	holds(t, content(t, "locks", lockPage{Hidden: 2}), []string{"You may not read 2 of the entries here"},
		[]string{"Nobody holds a lock here."})
	holds(t, content(t, "tree", entry{Path: "/a", Hidden: mayNotRead, NoChildren: mayNotRead}), []string{mayNotRead},
		[]string{"None."})
}

// Pages show moments in UTC, and say so.
func TestTimesSayTheirZone(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("east", 3600))
	dead := session.Certificate{Cause: session.CauseClosed, EndedAt: at, LastTouchAge: -1}
	holds(t, content(t, "overview", cluster{Turns: []turn{{At: at}}}), []string{"Mar 4 04:06:07 UTC"}, nil)
	holds(t, content(t, "deaths", graveyard{Certificates: []session.Certificate{dead}}),
		[]string{"2026-03-04 04:06:07.0 UTC"}, nil)
	holds(t, content(t, "session", story{Explained: client.Explained{Certificate: &dead}, Steps: lifeOfDead(&dead)}),
		[]string{"2026-03-04 04:06:07.0 UTC"}, nil)
}

// The content of a page that leads to another one is that of the other, each time it is asked for.
func TestAPartLeadsElsewhere(t *testing.T) {
	c := New(node.ConsoleHost{
		Logger: hclog.NewNullLogger(), Address: "n1:7400",
		Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
			return func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }
		},
	})
	defer c.callers.close()
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/sessions?id=0x0100000000010000", nil)
		r.Header.Set(partHeader, "1")
		c.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/ui/sessions/0x0100000000010000" {
			t.Errorf("got %d to %q: %s", w.Code, to, w.Body)
		}
	}
}

// The life of a session tells a move as far as a node knows of it: it is younger than the connection that serves it, or
// another node serves it than took the open.
func TestMovesOfASession(t *testing.T) {
	opened := session.TimeOfMS(1000)
	id := session.ID(1)<<56 | 1000<<16
	on := func(since time.Duration) *served {
		return &served{ClientConnection: client.ClientConnection{Since: opened.Add(since)}}
	}
	const connected, elsewhere = "its client connected to node %d: the session moved to this connection then or later",
		"moved to node 2"
	for name, tt := range map[string]struct {
		owner   session.Node
		on      *served
		move    string
		untimed bool
	}{
		"opened by the connection":              {1, on(-time.Second), "", false},
		"opened in the connection's first ms":   {1, on(time.Microsecond), "", false},
		"no connection is known":                {1, nil, "", false},
		"to a later connection":                 {1, on(time.Minute), fmt.Sprintf(connected, 1), false},
		"to a later connection of another node": {2, on(time.Minute), fmt.Sprintf(connected, 2), false},
		"to a node whose clock is behind":       {2, on(-time.Minute), elsewhere, true},
		"to a node that shows no connection":    {2, nil, elsewhere, true},
	} {
		s := story{ID: id, Client: tt.on, Explained: client.Explained{
			Session: session.Session{ID: id, Owner: tt.owner, OpenedAt: opened},
			Vigil:   session.Vigil{LastTouchAge: time.Second, Remaining: time.Second},
		}}
		steps := s.life(opened.Add(time.Hour))
		whats := []string{"opened through node 1"}
		if tt.move != "" {
			whats = append(whats, tt.move)
		}
		whats = append(whats, "newest touch that the leader has heard of", "expires if nothing more is heard of it")
		var got []string
		for _, one := range steps {
			got = append(got, one.What)
			if one.Untimed != (tt.untimed && one.What == tt.move) {
				t.Errorf("%s: step %q, untimed %v", name, one.What, one.Untimed)
			}
		}
		if !slices.Equal(got, whats) {
			t.Errorf("%s: %q, want %q", name, got, whats)
		}
		shown := content(t, "session", story{Explained: s.Explained, ID: id, Steps: steps})
		if strings.Contains(shown, "some time later") != tt.untimed {
			t.Errorf("%s: the page has\n%s", name, shown)
		}
	}
	dead := lifeOfDead(&session.Certificate{ID: id, Owner: 2, Cause: session.CauseClosed, LastTouchAge: -1})
	if len(dead) != 3 || dead[1].What != elsewhere || !dead[1].Untimed {
		t.Errorf("of a session that has ended: %+v", dead)
	}
}

// What an act on a member leads to is on the page of the members, and not on the one that says that it is done.
func TestTheMembersPageShowsHowFarChangesAre(t *testing.T) {
	for name, of := range changes() {
		if name != "transfer" && !strings.Contains(of.done, "The page of the members shows how far it has come.") {
			t.Errorf("%s says %q", name, of.done)
		}
	}
}
