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
	"holdfast/node/ports"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/tree"
)

// renderContent returns the content of a page for a caller who may do everything.
func renderContent(t *testing.T, page string, data any) string {
	t.Helper()
	c := &Console{pages: parseTemplates()}
	body, err := c.executeTemplate("content", frame{
		view: view{Page: page, Data: data}, Can: permissions{Operate: true, Write: true, Administer: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// checkPage checks that a page shows some texts and does not show others.
func checkPage(t *testing.T, page string, shows, not []string) {
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

// The warning of a freeze changes each second with the remaining time: the change is no event, and pushes no other
// event out of the history. Other warnings are events.
func TestAFreezeAddsOneEvent(t *testing.T) {
	s := clientport.NodeStatus{Node: 1, Leader: 1, Term: 1, Ready: true}
	c := &Console{events: newEventLog("p"), history: newHistory(), nodeStatus: func() clientport.NodeStatus { return s }}
	now := time.Unix(1000, 0)
	check := func() { now = now.Add(time.Second); c.checkStatus(now) }
	check()
	s.Leader, s.Term = 2, 2
	check()
	for left := 10 * time.Minute; left > 0; left -= time.Second {
		s.Frozen, s.Warning = left, fmt.Sprintf("the cluster is frozen for %v more", left)
		s.Ready, s.NotReadyBecause = false, fmt.Sprintf("the node has not run for %v", 10*time.Minute-left)
		check()
	}
	s.Warning += "; the disk is full"
	check()
	var texts []string
	for _, one := range slices.Backward(c.history.newestFirst()) {
		texts = append(texts, one.Text)
	}
	want := []string{
		"The console of node 1 started. Node 1 leads term 1.", "Node 2 leads term 2.",
		"Node 1 is not ready: the node has not run for 0s.",
		"Warning of node 1: the cluster is frozen for 10m0s more.", "Expiry is frozen.",
		"Warning of node 1: the cluster is frozen for 1s more; the disk is full.",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("events %q, want %q", texts, want)
	}
	if got := len(c.events.after(0).events); got != 3 {
		t.Errorf("pages are notified %d times, want 3: leader, freeze, disk", got)
	}
}

// statusAt is a status at a check: the time, the leader, and the members that the leader's report excludes.
type statusAt struct {
	at       int
	leader   session.Node
	term     uint64
	excluded session.Excluded
}

// eventsAfter returns the events that a console on node 1 derives from statuses, and how often it notifies its pages.
// Two checks come long before them.
func eventsAfter(t *testing.T, statuses ...statusAt) (texts []string, notified int) {
	t.Helper()
	var s clientport.NodeStatus
	c := &Console{events: newEventLog("p"), history: newHistory(), nodeStatus: func() clientport.NodeStatus { return s }}
	for _, w := range slices.Concat([]statusAt{{at: -100, leader: 2, term: 1}, {at: -99, leader: 2, term: 1}}, statuses) {
		s = clientport.NodeStatus{Node: 1, Leader: w.leader, Term: w.term, Ready: true, Excluded: w.excluded}
		c.checkStatus(time.Unix(int64(w.at), 0))
	}
	for _, one := range slices.Backward(c.history.newestFirst()) {
		texts = append(texts, fmt.Sprint(one.Text, one.IsProblem))
	}
	return texts[1:], len(c.events.after(0).events)
}

// The events include other nodes in the leader's report: each becomes unreachable, returns, is drained and has a full
// disk.
func TestEventsOfOtherNodes(t *testing.T) {
	texts, notified := eventsAfter(t,
		statusAt{1, 2, 1, session.Excluded{Unreachable: []session.Node{3}}},
		statusAt{2, 2, 1, session.Excluded{Unreachable: []session.Node{3}}},
		statusAt{3, 2, 1, session.Excluded{Draining: []session.Node{1, 2}}},
		statusAt{4, 2, 1, session.Excluded{Draining: []session.Node{1}}},
		statusAt{5, 2, 1, session.Excluded{Full: []session.Node{1, 3}}},
		statusAt{6, 2, 1, session.Excluded{}},
	)
	want := []string{
		"Node 3 is unreachable from the leader.true", "Node 3 is reachable again.false",
		"Node 2 is draining.false", "Node 2 is no longer draining.false",
		"Node 3 has a full disk: its clients move to other nodes.true", "Node 3 has free disk space again.false",
	}
	slices.Sort(want[1:3]) // of one check
	slices.Sort(texts[1:3])
	if !slices.Equal(texts, want) {
		t.Errorf("events %q, want %q", texts, want)
	}
	if notified != 5 {
		t.Errorf("pages are notified %d times, want 5", notified)
	}
}

// A problem that the leader's report leaves out right after an election, or without a leader, is not over. Nor is a
// node's earlier problem when the node also becomes unreachable.
func TestEventsOfOtherNodesAcrossAnElection(t *testing.T) {
	unreachable, full := session.Excluded{Unreachable: []session.Node{3}}, session.Excluded{Full: []session.Node{4}}
	both := session.Excluded{Unreachable: []session.Node{3}, Full: []session.Node{4}}
	texts, _ := eventsAfter(t,
		statusAt{1, 2, 1, both},
		statusAt{2, 0, 1, session.Excluded{}}, // no leader
		statusAt{3, 5, 2, session.Excluded{}}, // no node has answered it yet
		statusAt{4, 5, 2, unreachable},
		statusAt{5, 5, 2, session.Excluded{Unreachable: []session.Node{3, 4}}},
		statusAt{6, 5, 2, both},
		statusAt{14, 5, 2, both},
		statusAt{15, 5, 2, full},
		statusAt{16, 5, 2, session.Excluded{Unreachable: []session.Node{4}}},
		statusAt{17, 5, 2, full},
		statusAt{18, 5, 2, session.Excluded{}},
	)
	var of []string
	for _, what := range texts {
		if strings.HasPrefix(what, "Node 3") || strings.HasPrefix(what, "Node 4") {
			of = append(of, what)
		}
	}
	want := []string{
		"Node 3 is unreachable from the leader.true",
		"Node 4 has a full disk: its clients move to other nodes.true",
		"Node 4 is unreachable from the leader.true",
		"Node 4 is reachable again.false", "Node 3 is reachable again.false",
		"Node 4 is unreachable from the leader.true", "Node 4 is reachable again.false",
		"Node 4 has free disk space again.false",
	}
	if !slices.Equal(of, want) {
		t.Errorf("events %q, want %q", of, want)
	}
}

// A missing leader is an alarm only if no member knows one: the leader itself may be slow, or not permit this caller.
// The lag of members is unknown then.
func TestAKnownLeaderIsNoAlarm(t *testing.T) {
	const alarm = "No leader is known"
	k := cluster{Members: []member{
		{Member: client.Member{Node: 1, Voter: true}, NoStatus: "unreachable"},
		{Member: client.Member{Node: 2, Voter: true}, Status: client.Status{Ready: true, Leader: 1, AppliedIndex: 7}},
		{Member: client.Member{Node: 3, Voter: true}, Status: client.Status{Ready: true, AppliedIndex: 7}},
	}}
	known := k
	known.evaluate()
	if strings.Contains(strings.Join(known.Alarms, " "), alarm) {
		t.Errorf("alarms %q, though node 2 knows the leader", known.Alarms)
	}
	checkPage(t, renderContent(t, "members", known), []string{"at entry 7; lag unknown"}, []string{"up to date"})
	k.Members[1].Status.Leader = 0
	k.evaluate()
	if !strings.Contains(strings.Join(k.Alarms, " "), alarm) {
		t.Errorf("alarms %q, though no node knows a leader", k.Alarms)
	}
}

// HTML drops a newline right after <pre> and <textarea>: the page adds its own newline there, so that a leading newline
// of the data is shown and edited.
func TestALeadingNewlineIsKept(t *testing.T) {
	e := entry{Path: "/a"}
	e.show([]byte("\nabc"), "")
	checkPage(t, renderContent(t, "tree", e), []string{">\n\nabc</pre>", ">\n\nabc</textarea>"}, nil)
}

// About an entry that a caller may not read, pages claim nothing: neither that a lock is free, nor that there are no
// children or locks.
func TestHiddenEntriesAreShownAsHidden(t *testing.T) {
	line, _ := recipes.Contenders("/locks/a", []tree.Child{
		{Name: "lock-0000000000", Hidden: true},
		{Name: "lock-0000000001", Hidden: true},
		{Name: "lock-0000000002", Data: []byte("me"), Stat: tree.Stat{Owner: 7, CreatedAt: time.Now()}},
	})
	checkPage(t, renderContent(t, "locks", lockPage{Locks: []lock{{"/locks/a", line}}}),
		[]string{
			"holds or lock-delay", `>waits</th><td>lock</td>`, "hidden: no read permission",
			session.ID(7).String(), "Waiting since",
		},
		[]string{">lock-delay<", "session ended", "days ago", "0 entries are hidden"})
	checkPage(t, renderContent(t, "locks", lockPage{Hidden: 2}), []string{"2 entries are hidden"},
		[]string{"No locks here."})
	checkPage(t, renderContent(t, "tree", entry{Path: "/a", Hidden: noReadPermission, NoChildren: noReadPermission}),
		[]string{noReadPermission}, []string{"None."})
}

// The entry of an expired session has no owner: its lock is in its lock-delay.
func TestLockDelay(t *testing.T) {
	line, _ := recipes.Contenders("/locks/a", []tree.Child{{Name: "lock-0000000000"}, {Name: "lock-0000000001"}})
	checkPage(t, renderContent(t, "locks", lockPage{Locks: []lock{{"/locks/a", line}}}),
		[]string{">lock-delay<", "none: session ended", ">waits<"}, []string{">holds<"})
}

// Pages show times in UTC, and say so.
func TestTimesAreInUTC(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("east", 3600))
	dead := session.Certificate{Cause: session.CauseClosed, EndedAt: at, LastTouchAge: -1}
	checkPage(t, renderContent(t, "overview", cluster{Events: []historyEntry{{At: at}}}), []string{"Mar 4 04:06:07 UTC"}, nil)
	checkPage(t, renderContent(t, "deaths", deathList{Certificates: []session.Certificate{dead}}),
		[]string{"2026-03-04 04:06:07.0 UTC"}, nil)
	ended := sessionPage{Explained: client.Explained{Certificate: &dead}, Timeline: timelineOfEnded(&dead)}
	checkPage(t, renderContent(t, "session", ended),
		[]string{"2026-03-04 04:06:07.0 UTC"}, nil)
}

// The content of a page that redirects is that of the target, each time.
func TestContentIsRedirected(t *testing.T) {
	c := New(ports.ConsoleHost{
		Logger: hclog.NewNullLogger(), Address: "n1:7400",
		Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
			return func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }
		},
	})
	defer c.callers.close()
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/sessions?id=0x0100000000010000", nil)
		r.Header.Set(contentHeader, "1")
		c.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/ui/sessions/0x0100000000010000" {
			t.Errorf("got %d to %q: %s", w.Code, to, w.Body)
		}
	}
}

// The timeline of a session shows a known move: the session is older than its connection, or its owner is not the node
// that opened it.
func TestMovesOfASession(t *testing.T) {
	opened := session.TimeOfMS(1000)
	id := session.ID(1)<<56 | 1000<<16
	on := func(since time.Duration) *connectedSession {
		return &connectedSession{ClientConnection: client.ClientConnection{Since: opened.Add(since)}}
	}
	const connected, elsewhere = "client connected to node %d: the session moved to this connection then or later",
		"moved to node 2"
	for name, tt := range map[string]struct {
		owner   session.Node
		on      *connectedSession
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
		s := sessionPage{ID: id, Client: tt.on, Explained: client.Explained{
			Session: session.Session{ID: id, Owner: tt.owner, OpenedAt: opened},
			Vigil:   session.Vigil{LastTouchAge: time.Second, Remaining: time.Second},
		}}
		steps := s.timelineOf(opened.Add(time.Hour))
		texts := []string{"opened on node 1"}
		if tt.move != "" {
			texts = append(texts, tt.move)
		}
		texts = append(texts, "newest touch that the leader knows of", "expires unless another touch is received")
		var got []string
		for _, one := range steps {
			got = append(got, one.Text)
			if one.NoTime != (tt.untimed && one.Text == tt.move) {
				t.Errorf("%s: step %q, without a time: %v", name, one.Text, one.NoTime)
			}
		}
		if !slices.Equal(got, texts) {
			t.Errorf("%s: %q, want %q", name, got, texts)
		}
		shown := renderContent(t, "session", sessionPage{Explained: s.Explained, ID: id, Timeline: steps})
		if strings.Contains(shown, "time unknown") != tt.untimed {
			t.Errorf("%s: the page has\n%s", name, shown)
		}
	}
	dead := timelineOfEnded(&session.Certificate{ID: id, Owner: 2, Cause: session.CauseClosed, LastTouchAge: -1})
	if len(dead) != 3 || dead[1].Text != elsewhere || !dead[1].NoTime {
		t.Errorf("of a session that has ended: %+v", dead)
	}
}

// The results of actions on members name the members page, which shows their progress.
func TestMemberActionsNameTheMembersPage(t *testing.T) {
	for name, of := range memberActionsByName() {
		if name != "transfer" && !strings.Contains(of.done, progressText) {
			t.Errorf("%s says %q", name, of.done)
		}
	}
}
